"""An error that CUDA does not survive, as clients and probes see it: in a worker, and in a thread of the server that a model chose.

A module `torch` in the model's folder stands in for torch; there is no GPU.
"""

import pathlib

import pytest
from tritonclient.utils import InferenceServerException

from tests.server.hosts.process.test_device_lost import TEXT, TORCH
from tests.support.waiting import wait_until
from tests.wire.models.test_workers import is_ready, restarts
from tests.wire.models.worker_models import MODEL, ask, launched, repository, worker_of
from tests.wire.plain_http import get

pytestmark = pytest.mark.slow

BREAKS = MODEL.replace(
    "def execute(self, requests):",
    f"""def execute(self, requests):
        import torch
        if requests[0].inputs()[0].as_numpy()[0] < 0:
            raise torch.AcceleratorError("{TEXT}", 710)""",
)
IN_A_THREAD = 'parameters { key: "naiad.host" value { string_value: "thread" } }'


def with_torch(models: pathlib.Path, name: str) -> None:
    (models / name / "1" / "torch.py").write_text(TORCH)


def test_the_request_gets_the_frameworks_words_and_another_worker_serves_the_next(
    tmp_path: pathlib.Path,
) -> None:
    models = repository(tmp_path, victim=("", BREAKS), other=("", MODEL))
    with_torch(models, "victim")
    with launched(models, tmp_path) as server:
        first, other = worker_of(server, "victim"), worker_of(server, "other")
        with pytest.raises(InferenceServerException, match=TEXT) as failed:
            ask(server, "victim", -1)
        assert failed.value.status() == "500"
        wait_until(lambda: worker_of(server, "victim") not in {0, first})
        wait_until(lambda: is_ready(server, "victim"))
        ask(server, "victim")
        assert restarts(server, "victim", "died") == 1
        assert worker_of(server, "other") == other
        assert (
            "because after CUDA error 710 (cudaErrorAssert) a process cannot use" in server.output()
        )


def test_in_a_thread_the_model_and_the_server_are_not_ready_any_more(
    tmp_path: pathlib.Path,
) -> None:
    models = repository(tmp_path, victim=(IN_A_THREAD, BREAKS), other=("", MODEL))
    with_torch(models, "victim")
    with launched(models, tmp_path) as server:
        assert is_ready(server, "victim")
        with pytest.raises(InferenceServerException, match=TEXT):
            ask(server, "victim", -1)
        assert not is_ready(server, "victim")
        assert is_ready(server, "other")
        assert get(server.http, "/v2/health/ready")[0] == 400
        assert get(server.http, "/v2/health/live")[0] == 200
        with pytest.raises(InferenceServerException, match="CUDA error 710") as refused:
            ask(server, "victim")
        assert refused.value.status() == "503"
