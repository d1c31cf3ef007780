"""A TensorRT plan beside the bare loop over TensorRT: rows per second inside the instance at 32 rows, and one client over HTTP at one row; with and without CUDA graphs."""

import functools

import numpy as np

from benchmarks import models
from benchmarks.gpu.bare import Bare, bare
from benchmarks.gpu.rows import Client, in_turns, row
from tests.gpu import repositories
from tests.gpu.bench import Bench
from tests.reference.process import ServerProcess

_SHAPE = (3, 112, 112)
_CHANNELS = (64,) + (128,) * 9
_GRAPHS = """backend: "tensorrt"
max_batch_size: 32
instance_group { kind: KIND_GPU count: 1 gpus: 0 }
optimization { cuda { graphs: true graph_spec { batch_size: 1 } graph_spec { batch_size: 32 } } }
"""


def plan(bench: Bench) -> str:
    """The convolutional network of the filled batches."""
    models.convolution(bench.folder / "net", _SHAPE, _CHANNELS)
    source = bench.folder / "net" / "1" / "model.onnx"
    made = bench.folder / "model.plan"
    with bare("benchmarks.gpu.plan_loop", source, made, errors=bench.folder / "bare") as loop:
        loop.wait()
        for name, config in (("plain", ""), ("graph", _GRAPHS)):
            path = repositories.model(bench.models, name, config, "model.plan")
            path.write_bytes(made.read_bytes())
        with bench.server() as server:
            for kind in ("plain", "graph"):
                bench.step(kind, functools.partial(_kind, bench, server, loop, kind))
    return ""


def _kind(bench: Bench, server: ServerProcess, loop: Bare, kind: str) -> str:
    large, small = (
        Client(server, kind).binary(
            "x", "FP32", np.random.default_rng(rows).random((rows, *_SHAPE), np.float32)
        )
        for rows in (32, 1)
    )
    for client in (large, small):
        client.times(10)
    batch = in_turns(
        7, {"bare": lambda: loop.ms(kind, 32, 12), "inside": lambda: large.inside(12)[1]}
    )
    single = in_turns(
        7, {"bare": lambda: loop.ms(kind, 1, 30), "http": lambda: small.inside(30)[0]}
    )
    ratio, more = batch["bare"] / batch["inside"], single["http"] - single["bare"]
    row(bench, f"plan, {kind}, 32 rows: compute_infer beside the bare loop", bare_ms=batch["bare"], inside_ms=batch["inside"],
        ratio=ratio, aim="ratio at least 0.8")  # fmt: skip
    row(bench, f"plan, {kind}, 1 row over HTTP", bare_ms=single["bare"], http_ms=single["http"], above_ms=more,
        aim="at most 0.5 ms above")  # fmt: skip
    return f"{ratio:.2f} of the bare loop at 32 rows, {more:.2f} ms above it at one"
