"""Hits of the local response cache beside Triton, over HTTP: one request that is in the cache, again and again.

Rounds of both servers take turns; medians and the medians of ratios are shown. It means something on a quiet machine only:
`python -m benchmarks.server.cache [ROUNDS]`. A second table has Naiad alone: misses, and the same model without a cache, show what a miss costs.
"""

import pathlib
import statistics
import sys
import tempfile
import textwrap

import numpy as np

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


def _rate(request: HttpRequest, connections: int) -> float:
    return wrk(request, connections=connections, seconds=_SECONDS).per_second


def _contest(triton: ServerProcess, naiad: ServerProcess, rounds: int) -> None:
    print("| hits | connections | Triton, requests/s | Naiad, requests/s | times as many |")
    print("|---|---|---|---|---|")
    for size, count in _VALUES.items():
        for wire in ("JSON", "binary"):
            if wire == "JSON" and count > max(_VALUES.values()) // 2:
                continue  # it measures numbers as text
            for connections in _CONNECTIONS:
                servers = [_request(each, "cached", count, wire) for each in (triton, naiad)]
                pairs = [tuple(_rate(each, connections) for each in servers) for _ in range(rounds)]
                theirs, ours = (statistics.median(each) for each in zip(*pairs, strict=True))
                ratio = statistics.median(b / a for a, b in pairs)
                print(f"| {wire}, {size} | {connections} | {theirs:,.0f} | {ours:,.0f} | {ratio:.2f} |", flush=True)  # fmt: skip


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
                        _rate(_request(naiad, model, 16, "binary"), connections)
                        for _ in range(rounds)
                    )
                    for model in ("plain", "cached")
                )
                print(f"| binary, 16 values | {connections} | {plain:,.0f} | {hits:,.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
