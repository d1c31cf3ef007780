"""`max_inflight_requests` of an ensemble: how many requests of a step run at once, over all requests of the ensemble."""

import collections.abc
import concurrent.futures

import numpy as np
import pytest
import tritonclient.http as httpclient

from tests.reference.process import ServerProcess, naiad_program
from tests.wire.models.test_ensembles import TENSORS, put, step

INSTANCES = 4
TOGETHER = '''\
import os
import pathlib
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Its output is how many of its instances execute a request now; each takes a while, so that requests which may meet do."""

    def initialize(self, args):
        self.folder = pathlib.Path(args["model_repository"]) / "running"
        self.folder.mkdir(exist_ok=True)
        self.mark = self.folder / args["model_instance_name"]

    def execute(self, requests):
        self.mark.touch()
        time.sleep(0.2)
        seen = len(os.listdir(self.folder))
        self.mark.unlink()
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x * 0 + seen)]))
        return responses
'''


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    """An ensemble with a limit of 2, and one without, over one step with four instances."""
    root = tmp_path_factory.mktemp("limits")
    tensors = TENSORS.format("IN", "OUT")
    instances = f"instance_group {{ kind: KIND_CPU count: {INSTANCES} }}\n"
    put(root, "together", f'backend: "python"\n{tensors}{instances}', TOGETHER)
    for name, limit in (("limited", "max_inflight_requests: 2\n"), ("free", "")):
        put(root, name, ensemble(limit + step("together", "X", "Y")))
    log = tmp_path_factory.mktemp("log") / "server.log"
    with ServerProcess(naiad_program(), [root], log=log) as running:
        yield running


def ensemble(scheduling: str) -> str:
    tensors = TENSORS.format("X", "Y")
    return f'platform: "ensemble"\n{tensors}ensemble_scheduling {{\n{scheduling}}}\n'


def together(server: ServerProcess, model: str, requests: int) -> list[int]:
    """What each of so many requests at once has seen."""

    def one(_: int) -> int:
        with httpclient.InferenceServerClient(server.http) as client:
            tensor = httpclient.InferInput("X", [1], "FP32")
            tensor.set_data_from_numpy(np.ones(1, np.float32))
            result = client.infer(model, [tensor])
        return int(result.as_numpy("Y")[0])

    with concurrent.futures.ThreadPoolExecutor(requests) as threads:
        return list(threads.map(one, range(requests)))


def test_no_more_requests_of_a_step_run_at_once_and_all_are_answered(
    server: ServerProcess,
) -> None:
    seen = together(server, "limited", 10)
    assert len(seen) == 10
    assert max(seen) == 2
    assert max(together(server, "free", 10)) > 2
