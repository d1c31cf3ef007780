"""What it is worth that an ONNX model's only instance has its next batch while it executes one: requests per second, with and without.

Clients call the engine directly, each with its next request when it has its response. The same model is loaded twice, once without; slices
of both take turns, and medians of the ratios are shown, beside the ratio of two slices without, which shows what is noise. It means something
on a quiet machine only: `python -m benchmarks.server.prefetch`.
"""

import asyncio
import collections.abc
import contextlib
import dataclasses
import pathlib
import statistics
import tempfile
import typing
import unittest.mock

import numpy as np
import uvloop

from benchmarks import models
from benchmarks.server.engine_load import make_loader, rate
from naiad.core import datatypes
from naiad.core.tensor import Tensor
from naiad.engine.model import Model
from naiad.hosts.process.process_host import ProcessHost
from naiad.hosts.thread_host import ThreadHost
from naiad.serve import interpreter

_CASES = (
    ("nothing but an addition", 4, 0, False),
    ("0.2 ms", 64, 1_200, False),
    ("0.2 ms, batches of 8", 64, 1_200, True),
    ("several ms", 64, 6_000, False),
    ("an addition of 8 MB", 2_097_152, 0, False),
)
"""A name, elements of a request, the width of the model's layer, and whether it has a dynamic batcher."""

_CLIENTS = {False: 8, True: 48}
_SLICE_S = 0.2


@dataclasses.dataclass(frozen=True, slots=True)
class Gain:
    """Requests per second without, the ratio with it, and the ratio of two slices without."""

    host: str
    what: str
    per_second: float
    ratio: float
    noise: float


async def _measure(slices: int) -> list[Gain]:
    gains: list[Gain] = []
    for host in ("process", "thread"):
        for what, width, hidden, batches in _CASES:
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name) / "layers"
                models.layers_onnx(folder, width=width, hidden=hidden, batches=batches)
                async with _loaded(folder, host) as (without, with_it):
                    values = np.ones((1, width), np.float32)
                    tensor = Tensor("x", datatypes.FP32, values.shape, values)
                    rates = [
                        [
                            await rate(model, tensor, clients=_CLIENTS[batches], seconds=_SLICE_S)
                            for model in (without, with_it, without)
                        ]
                        for _ in range(slices + 1)
                    ][1:]
            gains.append(
                Gain(
                    host,
                    what,
                    statistics.median(first for first, _, _ in rates),
                    statistics.median(ahead / first for first, ahead, _ in rates),
                    statistics.median(again / first for first, _, again in rates),
                )
            )
    return gains


@contextlib.asynccontextmanager
async def _loaded(
    folder: pathlib.Path, host: str
) -> collections.abc.AsyncIterator[tuple[Model, Model]]:
    """The model without and with it."""
    loader = make_loader({"host": host})
    plan = await loader.plan(folder)
    with (
        unittest.mock.patch.object(ProcessHost, "prefetches", new=False),
        unittest.mock.patch.object(ThreadHost, "prefetches", new=False),
    ):
        without = await loader.load(plan.versions[0])
    with_it = await loader.load(plan.versions[0])
    interpreter.settle()
    yield without, with_it
    await without.stop()
    await with_it.stop()
    loader.close()


def measure(*, slices: int) -> list[Gain]:
    """Measure every case in both hosts."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(slices))


def table(gains: typing.Iterable[Gain]) -> str:
    """As Markdown."""
    lines = ["| host | model | req/s without | with it | noise |", "|---|---|---|---|---|"]
    lines += [
        f"| {gain.host} | {gain.what} | {gain.per_second:,.0f} | {gain.ratio:.2f} | {gain.noise:.2f} |"
        for gain in gains
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(measure(slices=25)))
