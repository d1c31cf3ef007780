"""gRPC: every unary RPC of the inference service and the health service (section 10)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.grpc_scenarios import inference, request
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.wire import FOUR, Answer, Target, strings


def _typed(datatype: str, contents: dict[str, Any], shape: tuple[int, ...] = (2,)) -> Any:
    name = "IN_STRING" if datatype == "BYTES" else f"IN_{datatype}"
    message = request("types", raw=None, name=name, datatype=datatype, shape=shape)
    for key, content in contents.items():
        getattr(message.inputs[0].contents, key).extend(content)
    return message


def _reported(**parameters: Any) -> Callable[[Target], Answer]:
    message = request(
        "report", raw=b"\0\0\0\0", name="DELAY_MS", datatype="INT32", shape=(1,), **parameters
    )
    message.outputs.add(name="REPORT")

    def ask(target: Target) -> Answer:
        answer = target.call("ModelInfer", message).report()
        if "report" not in answer:
            return answer
        kept = ("id", "correlation", "flags", "timeout", "parameters")
        return {"code": "OK", **{key: answer["report"][key] for key in kept}}

    return ask


_TLS = Path(__file__).parent / "tls"


_MIXED = request(raw=FOUR)
_MIXED.inputs[0].contents.fp32_contents.extend([1, 2, 3, 4])
_TWICE = request(raw=FOUR)
_TWICE.inputs.add(name="IN", datatype="FP32", shape=[4])
_TWICE.raw_input_contents.append(FOUR)
_SURPLUS = request(raw=FOUR)
_SURPLUS.raw_input_contents.append(FOUR)
_ASKED = request("two", name="IN0", datatype="INT32", shape=(1, 2), raw=FOUR[:8])
_ASKED.inputs.add(name="IN1", datatype="FP32", shape=[1, 2])
_ASKED.raw_input_contents.append(FOUR[8:])
_ONE_OUTPUT = pb.ModelInferRequest()
_ONE_OUTPUT.CopyFrom(_ASKED)
_ONE_OUTPUT.outputs.add(name="OUT1")
_UNKNOWN_OUTPUT = request()
_UNKNOWN_OUTPUT.outputs.add(name="NOPE")

INFER = [
    inference(
        "gRPC raw input",
        "10.10 10.14",
        request(),
        expect={"message.model_name": "identity", "message.id": "g"},
    ),
    inference("gRPC two outputs in order", "10.14 10.11", _ASKED),
    inference("gRPC one output asked for", "10.14 3.29", _ONE_OUTPUT),
    inference(
        "gRPC unknown output",
        "3.29 10.6",
        _UNKNOWN_OUTPUT,
        code="INVALID_ARGUMENT",
        says="unexpected inference output 'NOPE'",
    ),
    inference(
        "gRPC a version",
        "10.8",
        request(
            "versions_all",
            raw=b"\0\0\0\0",
            name="DELAY_MS",
            datatype="INT32",
            shape=(1,),
            version="1",
        ),
        mask=("message.raw_output_contents*",),
    ),
    inference(
        "gRPC version beyond int64",
        "10.8",
        request(version="99999999999999999999"),
        code="INVALID_ARGUMENT",
        says="failed to get model version",
    ),
    inference(
        "gRPC infer version that is not a number",
        "10.8",
        request(version="x"),
        code="INVALID_ARGUMENT",
        says="failed to get model version",
    ),
    inference(
        "gRPC unknown model",
        "10.6 2.8",
        request("nope"),
        code="NOT_FOUND",
        says="Request for unknown model: 'nope' is not found",
    ),
    inference(
        "gRPC a model that failed",
        "2.8 10.6",
        request("broken_initialize"),
        code="NOT_FOUND",
        says="Request for unknown model: 'broken_initialize' has no available versions",
    ),
    inference(
        "gRPC raw and typed contents",
        "10.10",
        _MIXED,
        code="INVALID_ARGUMENT",
        says="contents field must not be specified when using raw_input_contents",
    ),
    inference(
        "gRPC no contents",
        "10.11",
        request(raw=None),
        code="INVALID_ARGUMENT",
        says="unable to find data for input tensor 'IN' for model 'identity' in request.",
    ),
    inference(
        "gRPC too few raw contents",
        "10.11",
        _too_few := pb.ModelInferRequest(),
        code="INVALID_ARGUMENT",
        says="unable to find data for input tensor",
    ),
    inference("gRPC more raw contents than inputs", "10.11", _SURPLUS),
    inference(
        "gRPC an input twice",
        "3.20",
        _TWICE,
        code="INVALID_ARGUMENT",
        says="input 'IN' already exists in request",
    ),
    inference(
        "gRPC byte size",
        "4.8",
        request(raw=FOUR[:8]),
        code="INVALID_ARGUMENT",
        says="Expected 16, got 8",
    ),
    inference(
        "gRPC shape",
        "4.4",
        request(shape=(2, 2)),
        code="INVALID_ARGUMENT",
        says="Expected [4], got [2,2]",
    ),
    inference(
        "gRPC datatype",
        "4.3",
        request(datatype="INT32"),
        code="INVALID_ARGUMENT",
        says="data-type is 'INT32', but model 'identity' expects 'FP32'",
    ),
    inference(
        "gRPC negative dimension",
        "4.4",
        request(shape=(-4,)),
        code="INVALID_ARGUMENT",
        says="unexpected shape for input 'IN' for model 'identity'. Expected [4], got [-4].",
    ),
    inference(
        "gRPC strings",
        "10.12",
        request("words", raw=strings(b"a", b"\xff"), datatype="BYTES", shape=(1, 2)),
    ),
    inference(
        "gRPC strings cut short",
        "4.9",
        request("words", raw=b"\5\0\0\0ab", datatype="BYTES", shape=(1, 1)),
        code="INVALID_ARGUMENT",
        says="incomplete string data for inference input 'IN'",
    ),
    inference(
        "gRPC raw mode parameters do not exist",
        "10.20",
        request(
            "report",
            raw=b"\0\0\0\0",
            name="DELAY_MS",
            datatype="INT32",
            shape=(1,),
            binary_data_output=("bool_param", True),
        ),
        mask=("message.raw_output_contents*",),
    ),
]
_too_few.CopyFrom(_ASKED)
del _too_few.raw_input_contents[1]

_CONTENTS: dict[str, dict[str, Any]] = {
    "BOOL": {"bool_contents": [True, False]},
    "INT8": {"int_contents": [1, -128]},
    "INT16": {"int_contents": [1, -32768]},
    "INT32": {"int_contents": [1, -5]},
    "INT64": {"int64_contents": [2**62, -1]},
    "UINT8": {"uint_contents": [1, 255]},
    "UINT16": {"uint_contents": [1, 65535]},
    "UINT32": {"uint_contents": [1, 2**32 - 1]},
    "UINT64": {"uint64_contents": [1, 2**64 - 1]},
    "FP32": {"fp32_contents": [0.5, -1]},
    "FP64": {"fp64_contents": [0.1, 1e300]},
    "BYTES": {"bytes_contents": [b"a\0", b""]},
}
TYPED = [
    inference(f"gRPC typed contents of {datatype}", "10.12", _typed(datatype, contents))
    for datatype, contents in _CONTENTS.items()
] + [
    inference(
        "gRPC typed contents cut to the width",
        "10.12",
        _typed("INT8", {"int_contents": [300, -129]}),
    ),
    inference(
        "gRPC contents of another type",
        "10.12",
        _typed("FP32", {"int_contents": [1, 2]}),
        code="INVALID_ARGUMENT",
        says="unexpected explicit tensor data for input tensor 'IN_FP32' for model 'types' of type 'INT32', expected datatype 'FP32'",
    ),
    inference(
        "gRPC contents of two types",
        "10.12",
        _typed("FP32", {"fp32_contents": [1, 2], "int_contents": [1]}),
        code="INVALID_ARGUMENT",
        says="unexpected explicit tensor data for input tensor 'IN_FP32' for model 'types' of type 'INT32', expected datatype 'FP32'",
    ),
    inference(
        "gRPC FP16 contents",
        "10.12",
        _typed("FP16", {"fp32_contents": [1, 2]}),
        code="INVALID_ARGUMENT",
        says="unexpected explicit tensor data for input tensor 'IN_FP16' for model 'types' of type 'FP32', expected datatype 'FP16'",
    ),
    inference(
        "gRPC contents of another number",
        "10.12 4.8",
        _typed("FP32", {"fp32_contents": [1, 2, 3]}),
        code="INVALID_ARGUMENT",
        says="input byte size mismatch for input 'IN_FP32' for model 'types'. Expected 8, got 12",
    ),
]


PARAMETERS = [
    Scenario(
        f"gRPC parameters {parameters}",
        tuple(rows.split()),
        _reported(**parameters),
        says=says,
        expect={"code": code},
    )
    for rows, parameters, code, says in (
        (
            "10.20",
            {
                "a": ("int64_param", 1),
                "b": ("bool_param", True),
                "c": ("string_param", "x"),
                "d": ("double_param", 1.5),
            },
            "OK",
            None,
        ),
        (
            "10.20",
            {"a": ("uint64_param", 1)},
            "INVALID_ARGUMENT",
            "invalid value type for 'a' parameter, expected int64_param, bool_param",
        ),
        (
            "10.16",
            {
                "sequence_id": ("int64_param", 5),
                "sequence_start": ("bool_param", True),
                "sequence_end": ("bool_param", True),
            },
            "OK",
            None,
        ),
        ("10.16", {"sequence_id": ("string_param", "s")}, "OK", None),
        (
            "10.16",
            {"sequence_id": ("bool_param", True)},
            "INVALID_ARGUMENT",
            "invalid value type for",
        ),
        (
            "10.16",
            {"sequence_start": ("int64_param", 1)},
            "INVALID_ARGUMENT",
            "invalid value type for",
        ),
        ("10.16", {"priority": ("int64_param", 1)}, "OK", None),
        ("10.16", {"priority": ("uint64_param", 1)}, "OK", None),
        (
            "10.16",
            {"priority": ("int64_param", -1)},
            "INVALID_ARGUMENT",
            "invalid value for 'priority', expected value >= 0",
        ),
        (
            "10.16",
            {"priority": ("string_param", "1")},
            "INVALID_ARGUMENT",
            "invalid value type for",
        ),
        ("10.16", {"timeout": ("int64_param", 7)}, "OK", None),
        ("10.16", {"timeout": ("string_param", "7")}, "INVALID_ARGUMENT", "invalid value type for"),
        ("10.19", {"triton_x": ("int64_param", 1)}, "INVALID_ARGUMENT", "triton_"),
        ("10.19", {"triton_enable_empty_final_response": ("bool_param", True)}, "OK", None),
        (
            "10.19",
            {"triton_enable_empty_final_response": ("int64_param", 1)},
            "INVALID_ARGUMENT",
            "invalid value type for 'triton_enable_empty_final_response' parameter, expected bool_param",
        ),
    )
]

SCENARIOS = [*INFER, *TYPED, *PARAMETERS]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_grpc_inference_as_in_triton(scenario: Scenario, ask: Ask) -> None:
    ask(scenario)
