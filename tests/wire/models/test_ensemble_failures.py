"""An ensemble on a real server whose steps die, wait too long, are cancelled or are stopped: every request ends, and the ensemble serves on."""

import pathlib
import queue
import signal
import threading
from typing import Any

import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.models.test_ensembles import TENSORS, inputs, put, put_all, put_ensemble, step

pytestmark = pytest.mark.timeout(600)

SLOW = """\
import os
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            value = float(x.ravel()[0])
            if value == 666:
                os._exit(1)
            until = time.monotonic() + value / 1000
            print("slow: begun", flush=True)
            while time.monotonic() < until and not request.is_cancelled():
                time.sleep(0.01)
            if request.is_cancelled():
                print("slow: cancelled", flush=True)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
        return responses
"""

DYING = """\
import os
import pathlib
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.may_die = pathlib.Path(args["model_repository"], "may_die")

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
            if x.ravel()[0] == 666:
                while not self.may_die.exists():
                    time.sleep(0.01)
                os._exit(1)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

_ONE = "instance_group { kind: KIND_CPU count: 1 }\n"
_TIMEOUT = "dynamic_batching { default_queue_policy { default_timeout_microseconds: 100000 } }\n"


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Any:
    root = tmp_path / "models"
    put_all(root)
    tensors = TENSORS.format("IN", "OUT")
    put(root, "slow", f'backend: "python"\nmax_batch_size: 4\n{tensors}{_ONE}', SLOW)
    put(root, "timed", f'backend: "python"\nmax_batch_size: 1\n{tensors}{_ONE}{_TIMEOUT}', SLOW)
    decoupled = "model_transaction_policy { decoupled: true }\n"
    put(root, "dying", f'backend: "python"\nmax_batch_size: 4\n{tensors}{_ONE}{decoupled}', DYING)
    put_ensemble(root, "late", step("plus1", "X", "t"), step("slow", "t", "Y"))
    timed = step("timed", "X", "Y")
    put(
        root,
        "waits",
        f'platform: "ensemble"\nmax_batch_size: 1\n{TENSORS.format("X", "Y")}ensemble_scheduling {{\n{timed}}}\n',
    )
    put_ensemble(root, "streams", step("dying", "X", "t"), step("plus1", "t", "Y"))
    with ServerProcess(naiad_program(), [root], log=tmp_path / "log") as started:
        yield started


def _serves(server: ServerProcess, model: str) -> None:
    """It does again once its worker is restarted."""

    def answers() -> bool:
        with httpclient.InferenceServerClient(server.http) as client:
            try:
                client.infer(model, inputs(httpclient, 1))
            except InferenceServerException:
                return False
        return True

    wait_until(answers, what=f"{model} does not serve again")


def test_the_worker_of_a_step_dies(server: ServerProcess) -> None:
    with (
        httpclient.InferenceServerClient(server.http) as client,
        pytest.raises(InferenceServerException) as raised,
    ):
        client.infer("late", inputs(httpclient, 665))
    assert raised.value.status() == "503"
    assert raised.value.message().startswith("in ensemble 'late', ")
    assert raised.value.message().endswith("(step 1: model 'slow')")
    _serves(server, "late")


def test_the_worker_of_a_decoupled_step_dies_between_its_responses(
    server: ServerProcess, tmp_path: pathlib.Path
) -> None:
    """A response that is still in a later step when the error comes would be dropped: so the worker lives until the client has it."""
    results: queue.Queue[Any] = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: results.put(error or result))
        client.async_stream_infer("streams", inputs(grpcclient, 666))
        assert results.get(timeout=60).as_numpy("Y").ravel().tolist() == [667]
        (tmp_path / "models" / "dying" / "may_die").touch()
        second = results.get(timeout=60)
        assert "in ensemble 'streams', " in second.message()
        assert "(step 0: model 'dying')" in second.message()
        wait_until(
            lambda: client.is_model_ready("streams") and client.is_model_ready("dying"),
            what="the worker is not restarted",
        )
        client.async_stream_infer("streams", inputs(grpcclient, 1))
        assert results.get(timeout=60).as_numpy("Y").ravel().tolist() == [2]
        client.stop_stream()


def test_a_request_waits_too_long_in_the_queue_of_a_step(server: ServerProcess) -> None:
    results: queue.Queue[Any] = queue.Queue()

    def ask(value: float) -> None:
        with httpclient.InferenceServerClient(server.http) as client:
            try:
                results.put(client.infer("waits", inputs(httpclient, value)))
            except InferenceServerException as error:
                results.put(error)

    first = threading.Thread(target=ask, args=(1500,))
    first.start()
    wait_until(lambda: "slow: begun" in server.output(), what="the first one does not run")
    second = threading.Thread(target=ask, args=(1,))
    second.start()
    refused, served = results.get(timeout=60), results.get(timeout=60)
    first.join()
    second.join()
    assert served.as_numpy("Y").ravel().tolist() == [1500]
    assert refused.status() == "503"
    assert refused.message().startswith("in ensemble 'waits', ")
    assert "Request timeout expired" in refused.message()


def test_a_client_that_cancels_cancels_the_step(server: ServerProcess) -> None:
    with grpcclient.InferenceServerClient(server.grpc) as client:
        results: queue.Queue[Any] = queue.Queue()
        call = client.async_infer(
            "late", inputs(grpcclient, 50_000), lambda result, error: results.put(error or result)
        )
        wait_until(lambda: "slow: begun" in server.output(), what="the step does not run")
        call.cancel()
        assert results.get(timeout=30).status() == "StatusCode.CANCELLED"
    wait_until(lambda: "slow: cancelled" in server.output(), what="the step is not cancelled")
    _serves(server, "late")


def test_at_a_stop_the_steps_of_requests_in_flight_still_run(server: ServerProcess) -> None:
    results: queue.Queue[Any] = queue.Queue()

    def ask() -> None:
        with httpclient.InferenceServerClient(server.http) as client:
            results.put(client.infer("late", inputs(httpclient, 1000)))

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until(lambda: "slow: begun" in server.output(), what="the step does not run")
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    assert results.get(timeout=30).as_numpy("Y").ravel().tolist() == [1001]
    asking.join()
    assert server.process.wait(30) == 0
