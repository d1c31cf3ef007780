"""Where the loop's time goes per HTTP request, by kind and size: JSON, binary numbers and BYTES, 1 KB to 16 MB, to a Python model that returns its input.

Real connections, codecs, engine and scheduler, in one process; batches run in place and the transport only counts, so that the kernel's part of reading and writing is not in it, and
long bodies come in pieces of 256 KiB as from a socket. A server hands JSON of more than 256 KiB to a process and long numbers for models in workers straight into shared memory: then
decoding costs the loop less than here. `python -m benchmarks.micro.http_profile` prints the table.
"""

import argparse
import asyncio
import cProfile
import dataclasses
import json
import pathlib
import pstats
import tempfile
import time
import typing

import uvloop

from benchmarks.micro.in_place import TICK_S, CountingTransport, http_connections, loaded_engine
from naiad.core.clock import SystemClock
from naiad.protocol.http.transport.connection import Connection
from naiad.protocol.http.transport.service import HttpSettings

_CONFIG = """\
backend: "python"
input { name: "x" data_type: TYPE_%s dims: -1 }
output { name: "y" data_type: TYPE_%s dims: -1 }
parameters { key: "naiad.host" value { string_value: "thread" } }
"""
_MODEL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", values)]) for values in inputs]
"""

_PIECE = 1 << 18
_STRING = 20
_SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 24)
_KINDS = ("JSON", "binary", "BYTES, JSON", "BYTES, binary")
_LARGEST = {"JSON": 1 << 20, "BYTES, JSON": 1 << 20, "BYTES, binary": 1 << 20}
"""Of a kind: what is larger is decoded in a process."""

_STEPS = ("read, parse", "decode", "schedule", "execute", "encode", "write", "the rest")
_ENCODERS = ("dumps", "encode", "packed", "_respond", "reply", "write_", "_output", "response")
_PLACES = (
    ("read, parse", ("transport/connection", "transport/head", "transport/request_", "transport/body", "http/message", "httptools")),
    ("write", ("transport/response_sender", "transport/framing", "in_place")),
    ("schedule", ("naiad/scheduling", "naiad/engine", "naiad/metrics", "naiad/repository", "naiad/core/clock")),
    ("execute", ("naiad/backends", "naiad/hosts", "/model.py")),
    ("decode", ("http/codec", "http/inference", "http/routes", "naiad/protocol", "naiad/core", "naiad/tensors", "orjson")),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """A kind of requests with so many bytes of values: microseconds per request, of each step."""

    kind: str
    size: int
    steps: dict[str, float]


def measure(*, seconds: float, largest: int = _SIZES[-1]) -> list[Profile]:
    """Every kind and size, up to `largest` bytes."""
    return uvloop.run(_measure(seconds, largest))


def table(profiles: list[Profile]) -> str:
    """As Markdown."""
    lines = [
        f"| values | {' | '.join(_STEPS)} | together, µs |",
        "|" + "---|" * (len(_STEPS) + 2),
    ]
    for profile in profiles:
        shares = " | ".join(f"{profile.steps[step]:,.1f}" for step in _STEPS)
        size = f"{profile.size >> 20} MB" if profile.size >> 20 else f"{profile.size >> 10} KB"
        lines.append(f"| {profile.kind}, {size} | {shares} | **{sum(profile.steps.values()):,.1f}** |")  # fmt: skip
    return "\n".join(lines)


async def _measure(seconds: float, largest: int) -> list[Profile]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for datatype in ("FP32", "STRING"):
            model = folder / datatype.lower()
            (model / "1").mkdir(parents=True)
            (model / "config.pbtxt").write_text(_CONFIG % (datatype, datatype))
            (model / "1" / "model.py").write_text(_MODEL)
        clock = SystemClock()
        engine = await loaded_engine(folder, clock)
        settings = HttpSettings(tick=TICK_S, direct_bytes=1 << 40)
        (connection,) = http_connections(engine, clock, 1, settings=settings)
        return [
            await _profiled(connection, kind, size, seconds)
            for kind in _KINDS
            for size in _SIZES
            if size <= min(largest, _LARGEST.get(kind, size))
        ]


async def _profiled(connection: Connection, kind: str, size: int, seconds: float) -> Profile:
    message = _message(kind, size)
    pieces = [message[at : at + _PIECE] for at in range(0, len(message), _PIECE)]
    for _ in range(3):
        await _send(connection, pieces)
    times = 0
    started = time.process_time()
    while (spent := time.process_time() - started) < seconds:
        await _send(connection, pieces)
        times += 1
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(max(3, times // 4)):
        await _send(connection, pieces)
    profiler.disable()
    return Profile(kind, size, _steps(pstats.Stats(profiler), spent / times * 1e6))


async def _send(connection: Connection, pieces: list[bytes]) -> None:
    """One request, until its response is written."""
    before = CountingTransport.replies
    for piece in pieces:
        connection.data_received(piece)
    while CountingTransport.replies == before:  # noqa: ASYNC110 - turns of the loop are what is measured
        await asyncio.sleep(0)


def _message(kind: str, size: int) -> bytes:
    strings, binary = kind.startswith("BYTES"), kind.endswith("binary")
    count = size // _STRING if strings else size // 4
    tensor: dict[str, typing.Any] = {"name": "x", "datatype": "BYTES" if strings else "FP32", "shape": [count]}  # fmt: skip
    raw = b""
    if binary:
        raw = (b"\x14\0\0\0" + b"s" * _STRING) * count if strings else bytes(4 * count)
        tensor["parameters"] = {"binary_data_size": len(raw)}
    else:
        tensor["data"] = ["s" * _STRING] * count if strings else [1.5 + number % 7 for number in range(count)]  # fmt: skip
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": binary}}).encode()
    model = "string" if strings else "fp32"
    length = f"Inference-Header-Content-Length: {len(head)}\r\n" if binary else ""
    return f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\n{length}Content-Length: {len(head) + len(raw)}\r\n\r\n".encode() + head + raw  # fmt: skip


def _steps(stats: pstats.Stats, microseconds: float) -> dict[str, float]:
    """Each function's own time, with that of the builtins that it calls, to its step."""
    spent = dict.fromkeys(_STEPS, 0.0)
    functions: typing.Any = stats
    for (file, _, name), (_, _, own, _, callers) in functions.stats.items():
        if file != "~":
            spent[_step_of(file, name)] += own
            continue
        for (caller_file, _, caller_name), (_, _, its, _) in callers.items():
            builtin = "encode" if "dumps" in name else ""
            spent[builtin or _step_of(caller_file, caller_name)] += its
    scale = microseconds / sum(spent.values())
    return {step: own * scale for step, own in spent.items()}


def _step_of(file: str, name: str) -> str:
    step = next((what for what, parts in _PLACES if any(part in file for part in parts)), "the rest")  # fmt: skip
    encodes = step == "decode" and any(word in name for word in _ENCODERS)
    return "encode" if encodes else step


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro.http_profile", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=0.5, help="of processor time for each row (default 0.5)")  # fmt: skip
    print(table(measure(seconds=parser.parse_args().seconds)))


if __name__ == "__main__":
    main()
