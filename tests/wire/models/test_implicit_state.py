"""Implicit state on a real server: many sequences at once, held against the bare ONNX model that keeps its own state."""

import collections.abc
import pathlib
import queue
import random
import struct
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program
from tests.server.backends.graphs import value, write_graph

WIDTH = 3
RECURRENT = """\
{batch}
input {{ name: "INPUT" data_type: TYPE_FP32 dims: {width} }}
output {{ name: "OUTPUT" data_type: TYPE_FP32 dims: {width} }}
instance_group {{ kind: KIND_CPU count: {instances} }}
sequence_batching {{
  {strategy}
  max_sequence_idle_microseconds: 60000000
  control_input {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }} }}
  state {{
    input_name: "STATE_IN" output_name: "STATE_OUT" data_type: TYPE_FP32 dims: {width}
    initial_state {{ name: "half" data_type: TYPE_FP32 dims: {width} data_file: "half" }}
  }}
}}
"""
IN_PROCESS = 'parameters { key: "naiad.host" value { string_value: "process" } }\n'
STRATEGIES = {
    "direct": ("max_batch_size: 4", "direct { }", 1),
    "oldest": ("max_batch_size: 4", "oldest { max_candidate_sequences: 16 }", 1),
    "two": ("max_batch_size: 4", "direct { }", 2),
    "alone": ("", "direct { }", 1),
    "process": ("max_batch_size: 4", "oldest { max_candidate_sequences: 16 }", 1),
}
"""By model: its batch size, strategy and instances; `process` runs in a worker process."""
INITIAL = np.array([0.5, -0.5, 0.25], np.float32)

CODE = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            def value(name):
                return pb_utils.get_input_tensor_by_name(request, name).as_numpy()

            if value("INPUT")[0, 0] < 0:
                error = pb_utils.TritonError("no negative numbers")
                responses.append(pb_utils.InferenceResponse(error=error))
                continue
            total = value("STATE_IN") + value("INPUT")
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("OUTPUT", total), pb_utils.Tensor("STATE_OUT", total)]
                )
            )
        return responses
"""
SUM = """\
backend: "python"
max_batch_size: 4
input { name: "INPUT" data_type: TYPE_FP32 dims: 1 }
output { name: "OUTPUT" data_type: TYPE_FP32 dims: 1 }
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  state { input_name: "STATE_IN" output_name: "STATE_OUT" data_type: TYPE_FP32 dims: 1 }
}
"""

GROWS = """\
max_batch_size: 4
input { name: "INPUT" data_type: TYPE_FP32 dims: 1 }
output { name: "SUM" data_type: TYPE_FP32 dims: 1 }
output { name: "ALL_OUT" data_type: TYPE_FP32 dims: -1 }
sequence_batching {
  oldest { max_candidate_sequences: 8 max_queue_delay_microseconds: 2000 }
  max_sequence_idle_microseconds: 60000000
  state { input_name: "ALL_IN" output_name: "ALL_OUT" data_type: TYPE_FP32 dims: -1 }
}
"""
"""Each value is kept; what is declared as an output as well is sent to clients."""

WORDS = """\
max_batch_size: 2
input { name: "WORD" data_type: TYPE_STRING dims: 1 }
output { name: "LAST" data_type: TYPE_STRING dims: 1 }
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  state {
    input_name: "WORD_IN" output_name: "WORD_OUT" data_type: TYPE_STRING dims: 1
    initial_state { name: "first" data_type: TYPE_STRING dims: 1 data_file: "first" }
  }
}
"""


def write_recurrent(folder: pathlib.Path, *, batched: bool) -> None:
    """STATE_OUT = tanh(STATE_IN + INPUT), OUTPUT = 2 * STATE_OUT + START; of numbers one by one, so that a batch gives the same bits."""

    def numbers(name: str, width: int = WIDTH) -> Any:
        return value(name, ["n", width] if batched else [width])

    write_graph(
        folder,
        [
            helper.make_node("Add", ["STATE_IN", "INPUT"], ["sum"]),
            helper.make_node("Tanh", ["sum"], ["STATE_OUT"]),
            helper.make_node("Add", ["STATE_OUT", "STATE_OUT"], ["twice"]),
            helper.make_node("Add", ["twice", "START"], ["OUTPUT"]),
        ],
        [numbers("INPUT"), numbers("START", 1), numbers("STATE_IN")],
        [numbers("OUTPUT"), numbers("STATE_OUT")],
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("models")
    for name, (batch, strategy, instances) in STRATEGIES.items():
        folder = root / name
        write_recurrent(folder, batched=bool(batch))
        (folder / "config.pbtxt").write_text(
            RECURRENT.format(batch=batch, strategy=strategy, instances=instances, width=WIDTH)
            + (IN_PROCESS if name == "process" else "")
        )
        put(folder / "initial_state" / "half", INITIAL.tobytes())
    put(root / "sum/1/model.py", CODE.encode())
    put(root / "sum/config.pbtxt", SUM.encode())
    write_graph(
        root / "grows",
        [
            helper.make_node("Concat", ["ALL_IN", "INPUT"], ["ALL_OUT"], axis=1),
            helper.make_node("ReduceSum", ["ALL_OUT", "axis"], ["SUM"], keepdims=1),
        ],
        [value("INPUT", ["n", 1]), value("ALL_IN", ["n", "length"])],
        [value("SUM", ["n", 1]), value("ALL_OUT", ["n", "longer"])],
        initializer=[helper.make_tensor("axis", TensorProto.INT64, [1], [1])],
    )
    put(root / "grows/config.pbtxt", GROWS.encode())
    write_graph(
        root / "words",
        [
            helper.make_node("Identity", ["WORD_IN"], ["LAST"]),
            helper.make_node("Identity", ["WORD"], ["WORD_OUT"]),
        ],
        [value(name, ["n", 1], TensorProto.STRING) for name in ("WORD", "WORD_IN")],
        [value(name, ["n", 1], TensorProto.STRING) for name in ("LAST", "WORD_OUT")],
    )
    put(root / "words/config.pbtxt", WORDS.encode())
    put(root / "words/initial_state/first", struct.pack("<I", 5) + b"hello")
    return root


def put(path: pathlib.Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture(scope="module")
def server(
    repository: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    with ServerProcess(naiad_program(), [repository], log=log) as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> collections.abc.Iterator[httpclient.InferenceServerClient]:
    with httpclient.InferenceServerClient(server.http) as made:
        yield made


def bare(model: pathlib.Path, values: list[Any], *, batched: bool) -> list[Any]:
    """What the ONNX model gives for one sequence, called alone, with its state kept here."""
    session = onnxruntime.InferenceSession(str(model))
    lead = (1,) if batched else ()
    state = INITIAL.reshape(*lead, WIDTH)
    outputs: list[Any] = []
    for number, given in enumerate(values):
        start = np.full((*lead, 1), number == 0, np.float32)
        output, state = session.run(
            ["OUTPUT", "STATE_OUT"],
            {"INPUT": given.reshape(*lead, WIDTH), "START": start, "STATE_IN": state},
        )
        outputs.append(output)
    return outputs


def tensor(module: Any, name: str, array: Any, datatype: str = "FP32") -> Any:
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


@pytest.mark.parametrize("model", STRATEGIES)
def test_many_sequences_at_once_give_what_the_bare_model_gives_for_each(
    server: ServerProcess, repository: pathlib.Path, model: str
) -> None:
    """The requests of 24 sequences in any order, over one stream."""
    chance = random.Random(model)
    numbers = np.random.default_rng(5)
    batched = bool(STRATEGIES[model][0])
    lengths = {key: chance.randint(1, 9) for key in range(1, 25)}
    values = {
        key: [numbers.normal(size=WIDTH).astype(np.float32) for _ in range(length)]
        for key, length in lengths.items()
    }
    order = [key for key, length in lengths.items() for _ in range(length)]
    chance.shuffle(order)
    results: queue.Queue[Any] = queue.Queue()
    sent = dict.fromkeys(lengths, 0)
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: results.put(error or result))
        for key in order:
            number, sent[key] = sent[key], sent[key] + 1
            given = values[key][number].reshape((1, WIDTH) if batched else (WIDTH,))
            client.async_stream_infer(
                model,
                [tensor(grpcclient, "INPUT", given)],
                request_id=str(key),
                sequence_id=key,
                sequence_start=number == 0,
                sequence_end=number == lengths[key] - 1,
            )
        found: dict[int, list[Any]] = {key: [] for key in lengths}
        for _ in order:
            result = results.get(timeout=120)
            assert not isinstance(result, Exception), result
            response = result.get_response()
            assert [output.name for output in response.outputs] == ["OUTPUT"]
            found[int(response.id)].append(result.as_numpy("OUTPUT"))
        client.stop_stream()
    file = repository / model / "1" / "model.onnx"
    for key, outputs in found.items():
        np.testing.assert_array_equal(outputs, bare(file, values[key], batched=batched))


def test_a_python_model_gives_its_state_and_a_request_that_fails_leaves_it(
    client: httpclient.InferenceServerClient,
) -> None:
    def add(number: float, **flags: bool) -> float:
        given = [tensor(httpclient, "INPUT", np.array([[number]], np.float32))]
        result = client.infer("sum", given, sequence_id=9, **flags)
        return float(result.as_numpy("OUTPUT").item())

    assert add(1, sequence_start=True) == 1
    assert add(2) == 3
    with pytest.raises(InferenceServerException, match="no negative numbers"):
        add(-1)
    assert add(4) == 7
    assert add(8, sequence_start=True) == 8
    assert add(16, sequence_end=True) == 24


def test_states_of_several_lengths_grow_side_by_side(server: ServerProcess) -> None:
    """Requests of sequences whose states differ in shape wait for another batch."""
    results: queue.Queue[Any] = queue.Queue()
    lengths = {1: 6, 2: 3, 3: 5}
    with grpcclient.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: results.put(error or result))
        for number in range(6):
            for key, length in lengths.items():
                if number < length:
                    client.async_stream_infer(
                        "grows",
                        [
                            tensor(
                                grpcclient, "INPUT", np.full((1, 1), 10 * key + number, np.float32)
                            )
                        ],
                        request_id=f"{key} {number}",
                        sequence_id=key,
                        sequence_start=number == 0,
                        sequence_end=number == length - 1,
                    )
        for _ in range(sum(lengths.values())):
            result = results.get(timeout=120)
            assert not isinstance(result, Exception), result
            key, number = map(int, result.get_response().id.split())
            kept = [0.0, *(10.0 * key + each for each in range(number + 1))]
            assert result.as_numpy("ALL_OUT").tolist() == [kept]
            assert result.as_numpy("SUM").tolist() == [[sum(kept)]]
        client.stop_stream()


def test_only_the_outputs_that_are_asked_for_come_and_the_state_goes_on(
    client: httpclient.InferenceServerClient,
) -> None:
    wanted = [httpclient.InferRequestedOutput("SUM")]
    for number, flags in ((1, "s"), (2, ""), (3, "e")):
        result = client.infer(
            "grows",
            [tensor(httpclient, "INPUT", np.full((1, 1), number, np.float32))],
            outputs=wanted,
            sequence_id=77,
            sequence_start="s" in flags,
            sequence_end="e" in flags,
        )
        assert [output["name"] for output in result.get_response()["outputs"]] == ["SUM"]
        assert result.as_numpy("SUM").item() == number * (number + 1) / 2


def test_a_state_of_strings_begins_as_its_file_says(
    client: httpclient.InferenceServerClient,
) -> None:
    said = []
    for word, flags in (("one", "s"), ("zwei", ""), ("", ""), ("four", "e")):
        result = client.infer(
            "words",
            [tensor(httpclient, "WORD", np.array([[word]], object), "BYTES")],
            sequence_id="text",
            sequence_start="s" in flags,
            sequence_end="e" in flags,
        )
        said.append(result.as_numpy("LAST").item())
    assert said == [b"hello", b"one", b"zwei", b""]


def test_clients_do_not_see_states(client: httpclient.InferenceServerClient) -> None:
    metadata = client.get_model_metadata("direct")
    assert [each["name"] for each in metadata["inputs"]] == ["INPUT"]
    assert [each["name"] for each in metadata["outputs"]] == ["OUTPUT"]
    for name in ("STATE_IN", "START"):
        given = tensor(httpclient, name, np.zeros((1, WIDTH), np.float32))
        own = tensor(httpclient, "INPUT", np.zeros((1, WIDTH), np.float32))
        with pytest.raises(InferenceServerException, match="expected 1 inputs but got 2 inputs"):
            client.infer("direct", [own, given], sequence_id=1, sequence_start=True)
    with pytest.raises(InferenceServerException, match="unexpected inference output 'STATE_OUT'"):
        client.infer(
            "direct",
            [tensor(httpclient, "INPUT", np.zeros((1, WIDTH), np.float32))],
            outputs=[httpclient.InferRequestedOutput("STATE_OUT")],
            sequence_id=1,
            sequence_start=True,
        )
