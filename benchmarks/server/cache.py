"""Hits of the local response cache beside Triton, over HTTP: one request again and again, with another id each time, or its values in other bytes.

Rounds of both servers take turns; medians and the medians of ratios are shown, and Naiad's rate for the same model without a cache. It means something on a quiet
machine only: `python -m benchmarks.server.cache [ROUNDS] [SECONDS] [PART OF THE KIND]`.
"""

import collections
import dataclasses
import pathlib
import statistics
import sys
import tempfile
import textwrap

import numpy as np

from benchmarks.changing import NUMBER
from benchmarks.load import HttpRequest, require_tools
from benchmarks.pairs import Measured, loaded_by_wrk, ratio
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
_IDS, _BY_TURNS = "JSON with ids", "JSON and binary by turns"
_KINDS = (
    *(
        (f"{wire}, {size}", count, wire)
        for size, count in _VALUES.items()
        for wire in ("JSON", "binary")
        if wire == "binary" or count <= _MOST_AS_TEXT  # more of it measures numbers as text
    ),
    (f"{_IDS}, 16 values", 16, _IDS),
    (f"{_BY_TURNS}, 16 values", 16, _BY_TURNS),
)
_CONNECTIONS = (1, 16)
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
    if wire == _IDS:
        json = sample.json(server.http)
        body = json.body.replace(b"{", b'{"id": "%b", ' % NUMBER.encode(), 1)
        return dataclasses.replace(json, body=body, number=NUMBER)
    if wire == _BY_TURNS:
        json, binary = sample.json(server.http), sample.binary(server.http)
        return dataclasses.replace(json, others=((binary.body, binary.headers),), number=NUMBER)
    return sample.json(server.http) if wire == "JSON" else sample.binary(server.http)


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """One kind of request and number of connections.

    Attributes:
        kind: wire and size.
        connections: how many at once.
        rates: medians of hits per second: Triton's, ours, and ours of the same model without a cache.
        costs: medians of µs of processor time per hit: Triton's and ours.
        faster: the median of the ratios of pairs.
    """

    kind: str
    connections: int
    rates: tuple[float, float, float]
    costs: tuple[float, float]
    faster: float


def measure(*, rounds: int, seconds: float, only: str = "") -> list[Cell]:
    """Run both servers side by side, loaded in turn; `only`: kinds with this in their name.

    Raises:
        LoadError: a server did not answer as it should.
    """
    kinds = [each for each in _KINDS if only in each[0]]
    found: dict[tuple[str, int, str], list[Measured]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shared = [_repository(folder / "models")]
        reference = reference_program(install())
        with (
            ServerProcess(reference, shared, log=folder / "triton.log", options=_OPTIONS) as triton,
            ServerProcess(naiad_program(), shared, log=folder / "naiad.log", options=_OPTIONS) as naiad,
        ):  # fmt: skip
            runs = [
                ("triton", triton, "cached"),
                ("naiad", naiad, "cached"),
                ("plain", naiad, "plain"),
            ]
            for turn in range(rounds):
                for kind, count, wire in kinds:
                    for connections in _CONNECTIONS:
                        for which, server, model in runs if turn % 2 == 0 else runs[::-1]:
                            request = _request(server, model, count, wire)
                            measured = loaded_by_wrk(server, request, connections, seconds)
                            found[kind, connections, which].append(measured)
                            print(
                                f"round {turn + 1}  hits, {kind:<26} {connections:>2}  {which:<6} {measured.per_second:>9,.0f}/s",
                                flush=True,
                            )
    return [
        _cell(kind, connections, *(found[kind, connections, which] for which, _, _ in runs))
        for kind, _, _ in kinds
        for connections in _CONNECTIONS
    ]


def _cell(
    kind: str,
    connections: int,
    theirs: list[Measured],
    ours: list[Measured],
    plain: list[Measured],
) -> Cell:
    def rate(measured: list[Measured]) -> float:
        return statistics.median(each.per_second for each in measured)

    def cost(measured: list[Measured]) -> float:
        return statistics.median(each.cpu_us for each in measured)

    ratios = (
        ratio(mine.per_second, its.per_second) for its, mine in zip(theirs, ours, strict=True)
    )
    return Cell(
        kind,
        connections,
        (rate(theirs), rate(ours), rate(plain)),
        (cost(theirs), cost(ours)),
        statistics.median(ratios),
    )


def table(cells: list[Cell]) -> str:
    """As Markdown."""
    lines = [
        "| hits | connections | Triton req/s | Naiad req/s | ratio | Triton µs of processor time | Naiad µs | Naiad req/s without a cache |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        theirs, ours, plain = cell.rates
        its_cost, our_cost = cell.costs
        lines.append(
            f"| {cell.kind} | {cell.connections} | {theirs:,.0f} | {ours:,.0f} | **{cell.faster:.2f}** | {its_cost:,.0f} | {our_cost:,.0f} | {plain:,.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    require_tools()
    given = sys.argv[1:]
    print(
        table(
            measure(
                rounds=int(given[0]) if given else 7,
                seconds=float(given[1]) if len(given) > 1 else 2.0,
                only="".join(given[2:]),
            )
        )
    )
