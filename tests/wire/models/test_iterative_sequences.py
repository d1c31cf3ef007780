"""Requests that a Python model wants to see again, in worker processes and threads, decoupled and not."""

import collections.abc
import concurrent.futures
import queue
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.models.test_sequences import in_use

CODE = """\
import time

import numpy as np
import triton_python_backend_utils as pb_utils

AGAIN = pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def initialize(self, args):
        self.rounds = {}
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(
            __import__("json").loads(args["model_config"])
        )

    def execute(self, requests):
        responses = []
        for request in requests:
            def value(name):
                return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0])

            key, wanted = value("CORRID"), value("ROUNDS")
            rounds = self.rounds[key] = 1 if value("START") else self.rounds[key] + 1
            response = pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", np.array([[rounds, len(requests)]], np.int32))]
            )
            more = wanted < 0 or rounds < wanted
            if wanted < 0:
                time.sleep(0.01)
            if more:
                request.set_release_flags(AGAIN)
            if self.decoupled:
                request.get_response_sender().send(response, 0 if more else FINAL)
            else:
                responses.append(None if more else response)
        return None if self.decoupled else responses
"""

CONFIG = """\
backend: "python"
max_batch_size: 8
input {{ name: "ROUNDS" data_type: TYPE_INT32 dims: 1 }}
output {{ name: "OUT" data_type: TYPE_INT32 dims: 2 }}
instance_group {{ kind: KIND_CPU count: 1 }}
model_transaction_policy {{ decoupled: {decoupled} }}
parameters {{ key: "naiad.host" value {{ string_value: "{host}" }} }}
sequence_batching {{
  {strategy}
  iterative_sequence: true
  control_input [
    {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }},
    {{ name: "CORRID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }} }}
  ]
}}
"""

NAMES = [
    f"{kind}_{host}_{strategy}"
    for kind in ("plain", "stream")
    for host in ("process", "thread")
    for strategy in ("oldest",)
] + ["plain_process_direct"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    repository = tmp_path_factory.mktemp("models")
    for name in NAMES:
        kind, host, strategy = name.split("_")
        folder = repository / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(CODE)
        (folder.parent / "config.pbtxt").write_text(
            CONFIG.format(
                decoupled=str(kind == "stream").lower(),
                host=host,
                strategy=f"{strategy} {{ max_candidate_sequences: 16 }}"
                if strategy == "oldest"
                else "direct { }",
            )
        )
    log = tmp_path_factory.mktemp("log") / "server.log"
    with ServerProcess(naiad_program(), [repository], log=log) as running:
        yield running


def rounds(module: Any, number: int) -> list[Any]:
    tensor = module.InferInput("ROUNDS", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.array([[number]], np.int32))
    return [tensor]


@pytest.mark.parametrize("model", [name for name in NAMES if name.startswith("plain")])
def test_one_response_after_all_rounds(server: ServerProcess, model: str) -> None:
    with httpclient.InferenceServerClient(server.http) as client:
        before = client.get_inference_statistics(model)["model_stats"][0]
        result = client.infer(model, rounds(httpclient, 7), request_id="once")
        assert result.get_response()["id"] == "once"
        assert result.as_numpy("OUT").tolist() == [[7, 1]]
        after = client.get_inference_statistics(model)["model_stats"][0]
        assert after["execution_count"] - before["execution_count"] == 7
        assert after["inference_count"] - before["inference_count"] == 1
    assert in_use(server, model) == 0


@pytest.mark.parametrize("model", ["plain_process_oldest", "plain_thread_oldest"])
def test_requests_of_different_lengths_share_batches(server: ServerProcess, model: str) -> None:
    def ask(number: int) -> Any:
        with httpclient.InferenceServerClient(server.http) as client:
            return client.infer(model, rounds(httpclient, number)).as_numpy("OUT").tolist()[0]

    lengths = [30, 60, 90, 120]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, lengths))
    assert [answer[0] for answer in answers] == lengths
    assert in_use(server, model) == 0


@pytest.mark.parametrize("model", [name for name in NAMES if name.startswith("stream")])
def test_a_decoupled_model_sends_a_response_in_each_round(
    server: ServerProcess, model: str
) -> None:
    results: queue.Queue[Any] = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: results.put(error or result))
        for number in (3, 5):
            client.async_stream_infer(model, rounds(grpcclient, number), request_id=str(number))
        seen: dict[str, list[int]] = {"3": [], "5": []}
        for _ in range(8):
            result = results.get(timeout=30)
            seen[result.get_response().id].append(int(result.as_numpy("OUT")[0][0]))
        client.stop_stream()
    assert seen == {"3": [1, 2, 3], "5": [1, 2, 3, 4, 5]}
    assert in_use(server, model) == 0


@pytest.mark.parametrize("model", NAMES[:-1])
def test_a_request_whose_client_has_gone_does_not_come_back(
    server: ServerProcess, model: str
) -> None:
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: None)
        client.async_stream_infer(model, rounds(grpcclient, -1))
        wait_until(lambda: in_use(server, model) == 1, what="the request does not run")
        client.stop_stream(cancel_requests=True)
    wait_until(lambda: in_use(server, model) == 0, what="the slot is not free")
