"""Sequences on a real server, driven by tritonclient: HTTP, gRPC, streams, several instances, and errors."""

import collections.abc
import queue
import re
import urllib.request
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until

CODE = """\
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}
        self.instance = args["model_instance_name"]

    def execute(self, requests):
        responses = []
        for row, request in enumerate(requests):
            def value(name):
                tensor = pb_utils.get_input_tensor_by_name(request, name)
                return tensor.as_numpy().ravel().tolist()[0]

            key = value("CORRID")
            if value("START"):
                self.sums[key] = 0
            if value("READY"):
                self.sums[key] += value("VALUE")
            seen = [self.instance, row, value("START"), value("END"), value("READY"), str(key)]
            responses.append(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("SUM", np.array([[self.sums.get(key, 0)]], np.int32)),
                        pb_utils.Tensor("SEEN", np.array([[json.dumps(seen)]], object)),
                    ]
                )
            )
            if value("END"):
                del self.sums[key]
        return responses
"""

CONFIG = """\
backend: "python"
max_batch_size: 4
input {{ name: "VALUE" data_type: TYPE_INT32 dims: 1 }}
output [{{ name: "SUM" data_type: TYPE_INT32 dims: 1 }}, {{ name: "SEEN" data_type: TYPE_STRING dims: 1 }}]
instance_group {{ kind: KIND_CPU count: {instances} }}
sequence_batching {{
  {strategy}
  max_sequence_idle_microseconds: {idle_us}
  control_input [
    {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }} }},
    {{ name: "END" control {{ kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] }} }},
    {{ name: "READY" control {{ kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] }} }},
    {{ name: "CORRID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: {corrid} }} }}
  ]
}}
"""

MODELS = {
    "direct": ("direct { }", "TYPE_UINT64", 1, 60_000_000),
    "oldest": ("oldest { max_candidate_sequences: 16 }", "TYPE_INT32", 1, 60_000_000),
    "texts": ("direct { }", "TYPE_STRING", 1, 60_000_000),
    "two": ("oldest { max_candidate_sequences: 2 }", "TYPE_INT64", 2, 60_000_000),
    "short": ("direct { }", "TYPE_UINT32", 1, 100_000),
}


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    repository = tmp_path_factory.mktemp("models")
    for name, (strategy, corrid, instances, idle_us) in MODELS.items():
        folder = repository / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(CODE)
        config = CONFIG.format(
            strategy=strategy, corrid=corrid, instances=instances, idle_us=idle_us
        )
        (folder.parent / "config.pbtxt").write_text(config)
    log = tmp_path_factory.mktemp("log") / "server.log"
    with ServerProcess(naiad_program(), [repository], log=log) as running:
        yield running


def in_use(server: ServerProcess, model: str) -> int:
    """How many slots of a model sequences have."""
    with urllib.request.urlopen(f"http://{server.metrics}/metrics") as page:
        text = page.read().decode()
    (count,) = re.findall(
        rf'^naiad_sequence_slots_used{{model="{model}",version="1"}} (\d+)$', text, re.MULTILINE
    )
    return int(count)


def value(module: Any, number: int, rows: int = 1) -> list[Any]:
    tensor = module.InferInput("VALUE", [rows, 1], "INT32")
    tensor.set_data_from_numpy(np.full((rows, 1), number, np.int32))
    return [tensor]


@pytest.fixture(params=["http", "grpc"])
def infer(
    request: pytest.FixtureRequest, server: ServerProcess
) -> collections.abc.Iterator[collections.abc.Callable[..., int]]:
    """One request of a sequence; gives the sum."""
    module: Any = httpclient if request.param == "http" else grpcclient
    address = server.http if request.param == "http" else server.grpc
    with module.InferenceServerClient(address) as client:

        def call(model: str, key: int | str, number: int, flags: str = "", rows: int = 1) -> int:
            result = client.infer(
                model,
                value(module, number, rows),
                sequence_id=key,
                sequence_start="s" in flags,
                sequence_end="e" in flags,
            )
            return int(result.as_numpy("SUM").ravel()[0])

        yield call


@pytest.mark.parametrize(
    ("model", "keys"),
    [("direct", (7, 8, 2**63 - 1)), ("oldest", (7, 8)), ("texts", ("a", "ü")), ("two", (1, 2, 3))],
)
def test_each_sequence_has_its_own_sum(
    infer: collections.abc.Callable[..., int], model: str, keys: tuple[int | str, ...]
) -> None:
    for number, flags in ((1, "s"), (2, ""), (3, "e")):
        sums = [infer(model, key, number * 10 + place, flags) for place, key in enumerate(keys)]
        expected = {1: (10, 1), 2: (30, 2), 3: (60, 3)}[number]
        assert sums == [expected[0] + expected[1] * place for place in range(len(keys))]


@pytest.mark.parametrize(
    ("model", "key", "rows", "says"),
    [
        ("direct", 99, 1, "must specify the START flag on the first request of the sequence"),
        ("direct", 0, 1, "must specify a non-zero or non-empty correlation ID"),
        ("direct", 99, 2, "must specify batch-size 1 due to requirements of sequence batcher"),
        ("direct", "x", 1, "data-type is 'BYTES', but model 'direct' expects 'UINT64'"),
        ("texts", 5, 1, "data-type is 'UINT64', but model 'texts' expects 'BYTES'"),
    ],
)
def test_what_a_client_did_wrong(
    infer: collections.abc.Callable[..., int], model: str, key: int | str, rows: int, says: str
) -> None:
    with pytest.raises(InferenceServerException, match=says) as error:
        infer(model, key, 1, rows=rows)
    assert error.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


@pytest.mark.parametrize("model", ["direct", "oldest", "two"])
def test_many_sequences_on_one_stream_keep_their_order(server: ServerProcess, model: str) -> None:
    results: queue.Queue[Any] = queue.Queue()
    keys, numbers = range(1, 31), range(1, 11)
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: results.put(error or result))
        for number in numbers:
            for key in keys:
                client.async_stream_infer(
                    model,
                    value(grpcclient, number * key),
                    request_id=f"{key}:{number}",
                    sequence_id=key,
                    sequence_start=number == 1,
                    sequence_end=number == 10,
                )
        for number in numbers:
            for key in keys:
                result = results.get(timeout=120)
                assert result.get_response().id == f"{key}:{number}"
                assert result.as_numpy("SUM").ravel()[0] == key * sum(range(number + 1))
        client.stop_stream()


def test_an_idle_sequence_is_over(server: ServerProcess) -> None:
    with httpclient.InferenceServerClient(server.http) as client:

        def is_over() -> bool:
            try:
                client.infer("short", value(httpclient, 1), sequence_id=1, sequence_end=True)
            except InferenceServerException as error:
                return "it had no request for more than 0.1 s" in str(error)
            return False

        client.infer("short", value(httpclient, 5), sequence_id=1, sequence_start=True)
        statistics = client.get_inference_statistics("short")["model_stats"][0]
        assert statistics["inference_count"] == 1
        wait_until(lambda: in_use(server, "short") == 0, what="the slot is not free")
        assert is_over()
