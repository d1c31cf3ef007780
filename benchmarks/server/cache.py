"""Hits of the local response cache beside Triton, over HTTP: one request that is in the cache, again and again.

Rounds of both servers take turns; medians and the medians of ratios are shown. It means something on a quiet machine only:
`python -m benchmarks.server.cache [ROUNDS]`. A second table has Naiad alone: the same model without a cache.
"""

import dataclasses
import pathlib
import statistics
import sys
import tempfile
import textwrap

import numpy as np

from benchmarks import process_time
from benchmarks.load import HttpRequest, require_tools, wrk
from benchmarks.requests import Sample
from tests.reference.install import install
from tests.reference.process import ServerProcess, naiad_program, reference_program

_CODE = """
    import triton_python_backend_utils as pb_utils


    class TritonPythonModel:
        def execute(self, requests):
            return [
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("OUTPUT", pb_utils.get_input_tensor_by_name(each, "INPUT").as_numpy())]
                )
                for each in requests
            ]
"""
_CONFIG = """
    backend: "python"
    max_batch_size: 8
    input {{ name: "INPUT" data_type: TYPE_FP32 dims: -1 }}
    output {{ name: "OUTPUT" data_type: TYPE_FP32 dims: -1 }}
    instance_group {{ kind: KIND_CPU count: 1 }}
    {more}
"""
_VALUES = {"16 values": 16, "4 KB": 1024, "600 KB": 150_528}
_MOST_AS_TEXT = 4096
_CONNECTIONS = (1, 16)
_SECONDS = 2
_OPTIONS = ["--cache-config=local,size=104857600"]
_CACHE = "response_cache { enable: true }"


def _repository(folder: pathlib.Path) -> pathlib.Path:
    for name, more in (("cached", _CACHE), ("plain", "")):
        version = folder / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(textwrap.dedent(_CODE), encoding="utf-8")
        (folder / name / "config.pbtxt").write_text(_CONFIG.format(more=more), encoding="utf-8")
    return folder


def _request(server: ServerProcess, model: str, count: int, wire: str) -> HttpRequest:
    values = np.arange(count, dtype=np.float32).reshape(1, -1)
    sample = Sample(model=model, tensor="INPUT", datatype="FP32", values=values, output="OUTPUT")
    return sample.json(server.http) if wire == "JSON" else sample.binary(server.http)


@dataclasses.dataclass(frozen=True)
class _Measured:
    """Requests per second, and microseconds of processor time per request, of all processes of the server."""

    per_second: float
    cpu_us: float


def _measure(server: ServerProcess, request: HttpRequest, connections: int) -> _Measured:
    assert server.process is not None
    pid = server.process.pid
    before = process_time.of_tree(pid)
    rate = wrk(request, connections=connections, seconds=_SECONDS)
    spent = process_time.of_tree(pid) - before
    return _Measured(rate.per_second, spent / max(rate.requests, 1) * 1e6)


def _medians(measured: list[_Measured]) -> tuple[float, float]:
    return (
        statistics.median(each.per_second for each in measured),
        statistics.median(each.cpu_us for each in measured),
    )


def _contest(triton: ServerProcess, naiad: ServerProcess, rounds: int) -> None:
    print(
        "| hits | connections | Triton, requests/s | Naiad, requests/s | times as many | Triton, processor µs per request | Naiad, processor µs per request |"
    )
    print("|---|---|---|---|---|---|---|")
    for size, count in _VALUES.items():
        for wire in ("JSON", "binary"):
            if wire == "JSON" and count > _MOST_AS_TEXT:
                continue  # it measures numbers as text
            requests = [(each, _request(each, "cached", count, wire)) for each in (triton, naiad)]
            for connections in _CONNECTIONS:
                found: list[list[_Measured]] = [[], []]
                for _ in range(rounds):
                    for (server, request), into in zip(requests, found, strict=True):
                        into.append(_measure(server, request, connections))
                theirs, ours = map(_medians, found)
                ratio = statistics.median(
                    b.per_second / a.per_second for a, b in zip(*found, strict=True)
                )
                print(
                    f"| {wire}, {size} | {connections} | {theirs[0]:,.0f} | {ours[0]:,.0f} | {ratio:.2f} | {theirs[1]:,.0f} | {ours[1]:,.0f} |",
                    flush=True,
                )


def main(rounds: int) -> None:
    """Print the table."""
    require_tools()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repository = _repository(folder / "models")
        reference = reference_program(install())
        with (
            ServerProcess(reference, [repository], log=folder / "triton.log", options=_OPTIONS) as triton,
            ServerProcess(naiad_program(), [repository], log=folder / "naiad.log", options=_OPTIONS) as naiad,
        ):  # fmt: skip
            _contest(triton, naiad, rounds)
            print("\n| Naiad | connections | without a cache, requests/s | hits, requests/s |")
            print("|---|---|---|---|")
            for connections in _CONNECTIONS:
                plain, hits = (
                    statistics.median(
                        _measure(
                            naiad, _request(naiad, model, 16, "binary"), connections
                        ).per_second
                        for _ in range(rounds)
                    )
                    for model in ("plain", "cached")
                )
                print(f"| binary, 16 values | {connections} | {plain:,.0f} | {hits:,.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
