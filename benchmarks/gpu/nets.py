"""Networks as TorchScript, with and without CUDA graphs, beside the bare loop: rows per second inside the instance at 32 rows, and one client over HTTP at one row."""

import functools
import statistics

import numpy as np

from benchmarks.gpu import ways
from benchmarks.gpu.bare import Bare, bare
from benchmarks.gpu.rows import Array, Client, in_turns, row
from tests.gpu import repositories
from tests.gpu.bench import Bench, expect
from tests.reference.process import ServerProcess

_CONFIG = """platform: "pytorch_libtorch"
max_batch_size: 32
input {{ name: "INPUT__0" data_type: {datatype} dims: {dims} }}
output {{ name: "OUTPUT__0" data_type: TYPE_FP32 dims: {out} }}
instance_group {{ kind: KIND_GPU count: 1 gpus: 0 }}
"""
_GRAPHS = """optimization {
  cuda { graphs: true graph_spec { batch_size: 1 } graph_spec { batch_size: 32 } }
}
"""
_SHAPES = {
    "resnet": ("UINT8", (3, 224, 224), 1000, 256),
    "encoder": ("INT64", (128,), 8, 30522),
}
"""Of each network: datatype and dims of its input, the width of its output, and below what its values are."""
_CAPTURED = 2
"""Graphs, of one row and of 32."""
_ROUNDS = 15
_LARGE, _SMALL = 20, 30
"""Requests of a round, of 32 rows and of one."""


def encoder(bench: Bench) -> str:
    """The encoder."""
    return _net(bench, "encoder")


def resnet(bench: Bench) -> str:
    """The convolutional network."""
    return _net(bench, "resnet")


def _net(bench: Bench, net: str) -> str:
    datatype, dims, out, _ = _SHAPES[net]
    config = _CONFIG.format(datatype=f"TYPE_{datatype}", dims=list(dims), out=out)
    with bare("benchmarks.gpu.networks", net, bench.folder, errors=bench.folder / "bare") as loop:
        loop.wait()
        content = (bench.folder / "model.pt").read_bytes()
        for name, more in (("script", ""), ("graph", _GRAPHS)):
            path = repositories.model(bench.models, name, config + more, "model.pt")
            path.write_bytes(content)
        ways.write(bench.models, "INPUT__0", datatype, dims)
        with bench.server() as server:
            for kind in ("script", "graph"):
                bench.step(
                    f"{net}, {kind}", functools.partial(_kind, bench, server, loop, net, kind)
                )
            asked = {kind: _client(server, kind, net, 1) for kind in ("script", "graph")}
            ways.show(bench, server, f"{net}, 1 row", asked, functools.partial(_given, net, 1))
    captured = bench.log.count("captured CUDA graph")
    expect(captured == _CAPTURED, f"{captured} graphs were captured, and {_CAPTURED} are expected")
    return ""


def _kind(bench: Bench, server: ServerProcess, loop: Bare, net: str, kind: str) -> str:
    large, small = (_client(server, kind, net, count) for count in (32, 1))
    for client in (large, small):
        client.times(12)
    computing: list[float] = []

    def inside() -> float:
        computing.append(large.inside(_LARGE)[1])
        return computing[-1]

    batch = in_turns(_ROUNDS, {"bare": lambda: loop.ms(kind, 32, _LARGE), "inside": inside})
    spread = statistics.quantiles(computing, n=10)
    ratio = batch["bare"] / batch["inside"]
    row(bench, f"{net}, {kind}, 32 rows: compute_infer beside the bare loop", bare_ms=batch["bare"], inside_ms=batch["inside"],
        bare_rows_s=32e3 / batch["bare"], inside_rows_s=32e3 / batch["inside"],
        inside_p10_ms=spread[0], inside_p90_ms=spread[-1], ratio=ratio, aim="ratio at least 0.8")  # fmt: skip
    single = in_turns(
        _ROUNDS,
        {"bare": lambda: loop.ms(kind, 1, _SMALL), "http": lambda: small.inside(_SMALL)[0]},
    )
    more = single["http"] - single["bare"]
    row(bench, f"{net}, {kind}, 1 row over HTTP", bare_ms=single["bare"], http_ms=single["http"],
        inside_ms=small.inside(_SMALL)[1], above_ms=more, aim="at most 0.5 ms above")  # fmt: skip
    return f"{ratio:.2f} of the bare loop at 32 rows ({batch['inside']:.2f} ms), {more:.2f} ms above it at one ({single['http']:.2f} ms)"


def _client(server: ServerProcess, model: str, net: str, rows: int) -> Client:
    return _given(net, rows, Client(server, model))


def _given(net: str, rows: int, client: Client) -> Client:
    datatype, dims, _, below = _SHAPES[net]
    numbers = np.random.default_rng(rows).integers(0, below, (rows, *dims))
    values: Array = numbers.astype(np.uint8 if datatype == "UINT8" else np.int64)
    return client.binary("INPUT__0", datatype, values)
