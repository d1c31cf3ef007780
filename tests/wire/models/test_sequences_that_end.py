"""What becomes of open sequences when their model, their worker, their client or the server goes."""

import collections.abc
import pathlib
import queue
import signal
import threading
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program
from tests.support.processes import command_of
from tests.support.waiting import wait_until
from tests.wire.models.test_sequences import in_use

CODE = """\
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {{}}

    def execute(self, requests):
        responses = []
        for request in requests:
            def value(name):
                return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0])

            key = value("CORRID")
            if value("START"):
                self.sums[key] = {offset}
            added = value("VALUE")
            if added < 0:
                time.sleep(-added / 1000)
                added = 0
            self.sums[key] += added
            out = pb_utils.Tensor("SUM", np.array([self.sums[key]], np.int32))
            responses.append(pb_utils.InferenceResponse([out]))
        return responses
"""

CONFIG = """\
backend: "python"
input { name: "VALUE" data_type: TYPE_INT32 dims: 1 }
output { name: "SUM" data_type: TYPE_INT32 dims: 1 }
instance_group { kind: KIND_CPU count: %d }
sequence_batching {
  max_sequence_idle_microseconds: 600000000
  control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
    { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
  ]
}
"""


def write(models: pathlib.Path, name: str, *, offset: int = 0, instances: int = 1) -> None:
    version = models / name / "1"
    version.mkdir(parents=True, exist_ok=True)
    (version / "model.py").write_text(CODE.format(offset=offset))
    (models / name / "config.pbtxt").write_text(CONFIG % instances)


@pytest.fixture
def models(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "models"


@pytest.fixture
def server(models: pathlib.Path, tmp_path: pathlib.Path) -> collections.abc.Iterator[ServerProcess]:
    write(models, "sums", instances=2)
    options = ["--model-control-mode=explicit", "--load-model=*", "--exit-timeout-secs=4"]
    with ServerProcess(
        naiad_program(), [models], log=tmp_path / "server.log", options=options
    ) as running:
        yield running


def value(module: Any, number: int) -> list[Any]:
    tensor = module.InferInput("VALUE", [1], "INT32")
    tensor.set_data_from_numpy(np.array([number], np.int32))
    return [tensor]


def infer(client: httpclient.InferenceServerClient, key: int, number: int, flags: str = "") -> int:
    result = client.infer(
        "sums",
        value(httpclient, number),
        sequence_id=key,
        sequence_start="s" in flags,
        sequence_end="e" in flags,
    )
    return int(result.as_numpy("SUM")[0])


def test_a_reload_leaves_open_sequences_to_the_version_that_has_them(
    server: ServerProcess, models: pathlib.Path
) -> None:
    with httpclient.InferenceServerClient(server.http) as client:
        assert infer(client, 1, 5, "s") == 5
        write(models, "sums", offset=1000, instances=2)
        client.load_model("sums")
        assert infer(client, 1, 6) == 11
        assert infer(client, 2, 5, "s") == 1005
        assert infer(client, 1, 7, "e") == 18
        with pytest.raises(InferenceServerException, match="must specify the START flag"):
            infer(client, 1, 1)
        assert infer(client, 2, 5, "e") == 1010
        wait_until(
            lambda: "successfully unloaded 'sums' version 1" in server.output(),
            what="the old version is not unloaded",
        )


def test_an_unload_waits_for_open_sequences_and_starts_none(server: ServerProcess) -> None:
    with httpclient.InferenceServerClient(server.http) as client:
        assert infer(client, 1, 5, "s") == 5
        unloading = threading.Thread(target=unload, args=(server.http,))
        unloading.start()
        # Readiness would not do: on a busy machine an instance may say too late that it is ready.
        wait_until(lambda: state(client) == "UNLOADING", what="it is not unloaded")
        with pytest.raises(InferenceServerException, match="stopped accepting new inference"):
            infer(client, 2, 5, "s")
        assert infer(client, 1, 6, "e") == 11
        unloading.join(30)
        with pytest.raises(InferenceServerException, match="no available versions"):
            infer(client, 1, 6)


def state(client: httpclient.InferenceServerClient) -> str:
    """That of the model in the index."""
    (entry,) = client.get_model_repository_index()
    return str(entry["state"])


def unload(address: str) -> None:
    with httpclient.InferenceServerClient(address) as client:
        client.unload_model("sums")


def test_a_server_that_stops_waits_for_open_sequences(server: ServerProcess) -> None:
    with httpclient.InferenceServerClient(server.http) as client:
        assert infer(client, 1, 5, "s") == 5
        process = server.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: "waiting for the end of open sequences" in server.output())
        with pytest.raises(InferenceServerException, match="stopped accepting new inference"):
            infer(client, 2, 5, "s")
        assert infer(client, 1, 6, "e") == 11
    assert process.wait(30) == 0


def test_a_stream_that_is_cancelled_ends_the_sequences_that_it_began(server: ServerProcess) -> None:
    results: queue.Queue[Any] = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: results.put(error or result))
        for key in (1, 2):
            client.async_stream_infer(
                "sums", value(grpcclient, 1), sequence_id=key, sequence_start=True
            )
        for _ in range(2):
            assert not isinstance(results.get(timeout=120), InferenceServerException)
        assert in_use(server, "sums") == 2
        client.stop_stream(cancel_requests=True)
        wait_until(lambda: in_use(server, "sums") == 0, what="the slots are not free")


def test_a_request_that_is_refused_neither_begins_nor_ends_a_sequence_for_its_stream(
    server: ServerProcess,
) -> None:
    results: queue.Queue[Any] = queue.Queue()
    wrong = grpcclient.InferInput("VALUE", [2], "INT32")
    wrong.set_data_from_numpy(np.array([1, 2], np.int32))
    with (
        httpclient.InferenceServerClient(server.http) as other,
        grpcclient.InferenceServerClient(server.grpc) as client,
    ):
        assert infer(other, 1, 5, "s") == 5
        client.start_stream(lambda result, error: results.put(error or result))
        client.async_stream_infer("sums", value(grpcclient, 1), sequence_id=2, sequence_start=True)
        assert not isinstance(results.get(timeout=120), InferenceServerException)
        client.async_stream_infer("sums", [wrong], sequence_id=1, sequence_start=True)
        client.async_stream_infer("sums", [wrong], sequence_id=2, sequence_end=True)
        for _ in range(2):
            assert isinstance(results.get(timeout=120), InferenceServerException)
        client.stop_stream(cancel_requests=True)
        wait_until(lambda: in_use(server, "sums") == 1, what="the slot of 2 is not free")
        assert infer(other, 1, 6, "e") == 11


def test_a_stream_that_ends_well_leaves_its_sequences_open(server: ServerProcess) -> None:
    results: queue.Queue[Any] = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        for number, (start, end) in enumerate([(True, False), (False, True)], 1):
            client.start_stream(lambda result, error: results.put(error or result))
            client.async_stream_infer(
                "sums",
                value(grpcclient, 5),
                sequence_id=1,
                sequence_start=start,
                sequence_end=end,
            )
            assert results.get(timeout=120).as_numpy("SUM")[0] == 5 * number
            client.stop_stream()
    assert in_use(server, "sums") == 0


def test_a_client_that_vanishes_with_a_request_frees_the_slot(server: ServerProcess) -> None:
    with grpcclient.InferenceServerClient(server.grpc) as client:
        call = client.async_infer(
            "sums",
            value(grpcclient, -300),
            lambda result, error: None,
            sequence_id=1,
            sequence_start=True,
        )
        wait_until(lambda: in_use(server, "sums") == 1, what="it does not run")
        call.cancel()
        wait_until(lambda: in_use(server, "sums") == 0, what="the slot is not free")


def test_a_worker_that_is_killed_ends_the_sequences_of_its_instance(server: ServerProcess) -> None:
    with httpclient.InferenceServerClient(server.http) as client:
        for key in (1, 2):
            infer(client, key, 5, "s")
        assert server.process is not None
        children = psutil.Process(server.process.pid).children(recursive=True)
        shown = "naiad-worker --model sums "
        next(each for each in children if shown in command_of(each)).kill()
        wait_until(lambda: in_use(server, "sums") == 1, what="its slot is not free")
        sums, errors = [], []
        for key in (1, 2):
            try:
                sums.append(infer(client, key, 6, "e"))
            except InferenceServerException as refusal:
                errors.append(str(refusal))
        assert sums == [11]
        (error,) = errors
        assert "the worker process that had it ended, and its state with it" in error
        assert infer(client, 3, 5, "se") == 5
