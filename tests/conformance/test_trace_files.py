"""What trace files have (9.11 to 9.16): which times of which requests, in which order, tensors, parents, and how many traces are in which file."""

import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tritonclient.grpc import service_pb2 as pb

from tests.conformance.conftest import Ask
from tests.conformance.scenarios.scenario import Scenario
from tests.conformance.scenarios.streams import asked, talk
from tests.conformance.scenarios.wire import TIMEOUT_S, Answer, Target, value
from tests.conformance.servers.traced import TYPES
from tests.conformance.test_trace_settings import cleared, of

_ALL = "/v2/trace/setting"
_EACH = {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "log_frequency": "1"}
_TENSORS = {**_EACH, "trace_level": ["TENSORS"]}
_BOTH = {**_EACH, "trace_level": ["TIMESTAMPS", "TENSORS"]}

_AFTER = (
    ("HTTP_RECV_START", "HTTP_RECV_END"),
    ("HTTP_RECV_END", "REQUEST_START"),
    ("GRPC_WAITREAD_START", "GRPC_WAITREAD_END"),
    ("GRPC_WAITREAD_END", "REQUEST_START"),
    ("REQUEST_START", "QUEUE_START"),
    ("QUEUE_START", "COMPUTE_START"),
    ("COMPUTE_START", "COMPUTE_INPUT_END"),
    ("COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START"),
    ("COMPUTE_OUTPUT_START", "COMPUTE_END"),
    ("COMPUTE_INPUT_END", "INFER_RESPONSE_COMPLETE"),
    ("REQUEST_START", "REQUEST_END"),
    ("HTTP_RECV_END", "HTTP_SEND_START"),
    ("HTTP_SEND_START", "HTTP_SEND_END"),
    ("GRPC_WAITREAD_END", "GRPC_SEND_START"),
    ("GRPC_SEND_START", "GRPC_SEND_END"),
)
"""Times of which the second is not before the first. Of others the reference's threads decide."""

Doing = Callable[[Target], object]


def http(model: str, *, request_id: str = "") -> Doing:
    """A request over HTTP for [1, 2]."""
    body = {"id": request_id, "inputs": [value("IN", "FP32", [2], [1.5, 2])]}
    return lambda target: target.infer(model, body)


def batch(rows: int) -> Doing:
    """A request of several rows."""
    data = [float(each) for each in range(rows)]
    return lambda target: target.infer("batched", {"inputs": [value("IN", "FP32", [rows, 1], data)]})  # fmt: skip


def grpc(model: str, *, request_id: str = "") -> Doing:
    """The same over gRPC."""
    message = pb.ModelInferRequest(model_name=model, id=request_id)
    message.inputs.add(name="IN", datatype="FP32", shape=[2])
    message.raw_input_contents.append(struct.pack("<2f", 1.5, 2))
    return lambda target: target.call("ModelInfer", message)


def raising(mode: str) -> Doing:
    """A request whose model does as the mode says."""
    body = {"inputs": [value("MODE", "BYTES", [1], [mode])]}
    return lambda target: target.infer("raising", body)


def typed(kind: str, data: Any, shape: list[int] | None = None) -> Doing:
    """A request of one datatype."""
    datatype = "BYTES" if kind == "STRING" else kind
    given = value("IN", datatype, shape or [len(data)], data)
    return lambda target: target.infer(f"typed_{kind.lower()}", {"inputs": [given]})


def binary(kind: str, data: bytes, count: int) -> Doing:
    """The same with the bytes of the tensor, for what JSON does not have."""
    message = pb.ModelInferRequest(model_name=f"typed_{kind.lower()}")
    message.inputs.add(name="IN", datatype=kind, shape=[count])
    message.raw_input_contents.append(data)
    return lambda target: target.call("ModelInfer", message)


def streamed(script: str) -> Doing:
    """A request on a stream."""
    return lambda target: talk(target, [asked(script, model="senders")])


def _files(target: Target) -> dict[str, Path]:
    shown = json.loads(target.http("GET", _ALL).body)["trace_file"]
    file = Path(shown)
    if not file.is_absolute():
        file = Path.cwd() / file
    return {path.name: path for path in file.parent.glob(f"{file.name}.*")}


def _read(path: Path) -> Any:
    """The records of a file; None while it is not whole."""
    try:
        return json.loads(path.read_text(errors="replace"))
    except ValueError:
        return None


def _new(target: Target, before: dict[str, Path], count: int) -> list[Any]:
    """The files that came, once there are so many, in the order of their numbers."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        there = {name: path for name, path in _files(target).items() if name not in before}
        names = sorted(there, key=lambda name: int(name.rpartition(".")[2]))
        found = [_read(there[name]) for name in names]
        whole = len(found) >= count and None not in found
        if whole or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def _by_trace(records: list[Any]) -> Iterator[tuple[int, list[Any]]]:
    for number in dict.fromkeys(record["id"] for record in records):
        yield number, [record for record in records if record["id"] == number]


def _shown(records: list[Any]) -> list[Answer]:
    """The traces of a file without what differs from run to run, sorted by what they say."""
    models = {each["id"]: each["model_name"] for each in records if "model_name" in each}
    found = [_trace(own, models) for _, own in _by_trace(records)]
    return sorted(found, key=lambda trace: json.dumps(trace, sort_keys=True))


def _trace(records: list[Any], models: dict[int, str]) -> Answer:
    (head, *_) = [*(each for each in records if "model_name" in each), {}]
    stamps = [stamp for each in records for stamp in each.get("timestamps", ())]
    times = {stamp["name"]: stamp["ns"] for stamp in stamps}
    shown: Answer = {
        "model": head.get("model_name"),
        "version": head.get("model_version"),
        "request_id": head.get("request_id"),
        "members": sorted(head),
        "parent": models.get(head.get("parent_id", 0)),
        "times": sorted(stamp["name"] for stamp in stamps),
        "out of order": [
            f"{first} {second}"
            for first, second in _AFTER
            if first in times and second in times and times[second] < times[first]
        ],
        "tensors": [
            {"activity": each["activity"], **each["tensor"]}
            for each in records
            if "activity" in each
        ],
    }
    return shown


def _traced(
    target: Target, change: Any, doing: tuple[Doing, ...], files: int, model: str
) -> Answer:
    cleared(target)
    before = _files(target)
    path = of(model) if model else _ALL
    set_to = target.http("POST", path, json.dumps(change)).status
    for do in doing:
        do(target)
    if files < 0:  # what is left over goes into a file of its own with the end of the setting
        cleared(target)
    found = _new(target, before, abs(files))
    cleared(target)
    return {"status": set_to, "files": [_shown(each or []) for each in found]}


def traces(
    name: str,
    rows: str,
    *doing: Doing,
    change: Any = _EACH,
    files: int = 1,
    model: str = "",
    **expect: Any,
) -> Scenario:
    """A scenario: what is done after a change of the settings, and the files that come of it; negative: the last one comes with the end of the setting."""
    return Scenario(
        name=f"trace files: {name}",
        rows=tuple(rows.split()),
        ask=lambda target: _traced(target, change, doing, files, model),
        expect={"status": 200, **{key.replace("__", "."): leaf for key, leaf in expect.items()}},
        server="traced",
    )


TIMES = [
    traces("the times of a request over HTTP", "9.13 9.14", http("first"), files__0__0__model="first", files__0__0__version=1),
    traces("the times of a request over gRPC", "9.13 9.14", grpc("first")),
    traces("the id of a request", "9.13", http("first", request_id="mine"), files__0__0__request_id="mine"),
    traces("the id of a request over gRPC", "9.13", grpc("first", request_id="mine"), files__0__0__request_id="mine"),
    traces("rows of a batch", "9.14", batch(3)),
    traces("the steps of an ensemble", "9.16", http("chain", request_id="e")),
    traces("the steps of an ensemble over gRPC", "9.16", grpc("chain")),
    traces("an ensemble in an ensemble", "9.16", http("nested")),
    traces("calls of a model, with its trace and without", "9.16", http("asks", request_id="outer")),
    traces("the same over gRPC", "9.16", grpc("asks")),
    traces("a model that raises", "9.14", raising("raise")),
    traces("a model that answers with an error", "9.14", raising("error")),
    traces("a request that its model refuses", "9.14", http("typed_int8"), files__0__0__times__0="HTTP_RECV_END", files__0__0__times__1="HTTP_RECV_START"),
]  # fmt: skip

TENSORS = [
    traces("tensors", "9.15", http("first"), change=_TENSORS),
    traces("tensors over gRPC", "9.15", grpc("first"), change=_TENSORS),
    traces("tensors and times", "9.13 9.15", http("first"), change=_BOTH),
    traces("the tensors of a batch", "9.15", batch(2), change=_TENSORS),
    traces("the tensors of an ensemble's steps", "9.15 9.16", http("chain"), change=_TENSORS),
    traces("the tensors of calls", "9.15 9.16", http("asks"), change=_TENSORS),
    traces("BOOL", "9.15", typed("BOOL", [True, False]), change=_TENSORS),
    traces("INT8", "9.15", typed("INT8", [-1, 65]), change=_TENSORS),
    traces("INT32", "9.15", typed("INT32", [-(2**31), 7]), change=_TENSORS),
    traces("INT64", "9.15", typed("INT64", [-(2**63), 7]), change=_TENSORS),
    traces("UINT16", "9.15", typed("UINT16", [65535, 0]), change=_TENSORS),
    traces("UINT64", "9.15", typed("UINT64", [2**64 - 1]), change=_TENSORS),
    traces("FP16", "9.15", binary("FP16", b"\0\x3c\0\x40", 2), change=_TENSORS),
    traces("FP32", "9.15", typed("FP32", [0.1, 1e-7, 123456789, -0.0]), change=_TENSORS),
    traces("FP64", "9.15", typed("FP64", [1 / 3, 1e100]), change=_TENSORS),
    traces("STRING", "9.15", typed("STRING", ["a", "", "ü,"]), change=_TENSORS),
    traces("no elements", "9.15", typed("FP32", [], [0]), change=_TENSORS),
]  # fmt: skip
assert len(TYPES) == 10

FILES = [
    traces("every second request", "9.11", *[http("first")] * 5, change={**_EACH, "trace_rate": "2"}, files=2),
    traces("a count", "9.11 9.12", *[http("first")] * 4, change={**_EACH, "log_frequency": "0", "trace_count": "2"}),
    traces("a count and a rate", "9.11 9.12", *[http("first")] * 6, change={**_EACH, "trace_rate": "2", "trace_count": "2"}, files=2),
    traces("two traces a file", "9.12", *[http("first")] * 4, change={**_EACH, "log_frequency": "2"}, files=2),
    traces("what is left over", "9.12", *[http("first")] * 3, change={**_EACH, "log_frequency": "2"}, files=-2),
    traces("of one model", "9.9 9.11", http("second"), http("first"), http("second"), model="first"),
    traces("of a model that an ensemble asks", "9.9 9.16", http("chain"), http("first"), model="first"),
    traces("of an ensemble", "9.9 9.16", http("first"), http("chain"), model="chain"),
    traces("an unknown model does not count", "9.11", http("nonesuch"), http("first"), http("first"), change={**_EACH, "trace_rate": "2"}),
    traces("a request that cannot be read", "9.11", lambda target: target.infer("first", b"{"), http("second"), files=2),
    traces("a level that is off", "9.11", http("first"), change={"trace_rate": "1", "log_frequency": "1"}, files=0),
]  # fmt: skip


@pytest.mark.parametrize("scenario", [*TIMES, *TENSORS, *FILES], ids=lambda scenario: scenario.name)
def test_trace_files(ask: Ask, scenario: Scenario) -> None:
    ask(scenario)
