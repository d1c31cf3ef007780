"""What the engine costs over a bare `session.run`: interleaved pairs of the same batch, through both, in one process.

The engine here is everything from a decoded request to the callback with its response: rules, scheduler, hand-over, batch,
statistics. Both run the very same session: two would each have a thread pool, whose idle threads spin for a while and take
the processors from each other, which doubles a run on two of them.
"""

import asyncio
import dataclasses
import functools
import pathlib
import statistics
import tempfile
import time
import typing
import unittest.mock

import numpy as np
import uvloop

from benchmarks import models
from naiad.backends.onnxruntime import backend as onnxruntime_backend
from naiad.backends.onnxruntime.runner import SessionRunner
from naiad.backends.registry import Registry
from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.engine.bls.model_calls import ModelCalls
from naiad.engine.loader import Loader
from naiad.engine.model import Model
from naiad.hosts.host import ClosedRpcHandler
from naiad.scheduling.factory import SchedulerFactory
from naiad.scheduling.instances.resources import UnlimitedResources
from naiad.serve import interpreter

_NS_A_US = 1e3


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Medians in microseconds, and the median of the differences pair by pair."""

    model: str
    batch: int
    bare_us: float
    engine_us: float
    more_us: float

    @property
    def more_percent(self) -> float:
        """The difference as a share of the bare run."""
        return 100 * self.more_us / self.bare_us


def measure(*, pairs: int) -> list[Cost]:
    """A convolution net, magika and a net of one addition, each at a batch of one."""
    return uvloop.run(_measure(pairs))


def table(costs: list[Cost]) -> str:
    """As Markdown."""
    lines = [
        "| model | batch | bare `session.run` µs | through the engine µs | more µs | more |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {cost.model} | {cost.batch} | {cost.bare_us:,.0f} | {cost.engine_us:,.0f} | {cost.more_us:,.0f} | {cost.more_percent:.1f} % |"
        for cost in costs
    ]
    return "\n".join(lines)


async def _measure(pairs: int) -> list[Cost]:
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        repository = pathlib.Path(folder)
        models.convolution(repository / "convolution")
        models.magika(repository)
        models.tiny_onnx(repository)
        return [
            await _compare(
                repository / "convolution",
                Tensor("x", datatypes.FP32, (1, *models.CONVOLUTION_SHAPE), rng.random((1, *models.CONVOLUTION_SHAPE), np.float32)),
                pairs=max(5, pairs // 4),
            ),
            await _compare(
                repository / "magika",
                Tensor("bytes", datatypes.INT32, (1, 2048), rng.integers(0, 256, (1, 2048), np.int32)),
                pairs=pairs,
            ),
            await _compare(
                repository / "tiny",
                Tensor("x", datatypes.FP32, (1, models.WIDTH), rng.random((1, models.WIDTH), np.float32)),
                pairs=pairs * 4,
            ),
        ]  # fmt: skip


async def _compare(folder: pathlib.Path, tensor: Tensor, *, pairs: int) -> Cost:
    clock = SystemClock()
    loader = Loader(
        registry=Registry(clock=clock), backend_options={}, config_name="", auto_complete=True, gpus=(), threads=1, make_scheduler=SchedulerFactory(resources=UnlimitedResources(), clock=clock), submit=ModelCalls(clock=clock).submit, rpc_handler_of=lambda _model, _instance: ClosedRpcHandler(), clock=clock,
    )  # fmt: skip
    plan = await loader.plan(folder)
    sessions: list[typing.Any] = []
    with unittest.mock.patch.object(
        onnxruntime_backend, "SessionRunner", functools.partial(_noting, sessions)
    ):
        model = await loader.load(plan.versions[0])
    interpreter.settle()
    session = sessions[-1]
    bare, through = [], []
    for turn in range(pairs + 3):
        before = time.perf_counter_ns()
        session.run(None, {tensor.name: tensor.array})
        between = time.perf_counter_ns()
        after = await _infer(model, tensor)
        if turn >= 3:  # noqa: PLR2004 - the first ones warm both up
            bare.append(between - before)
            through.append(after - between)
    await model.stop()
    loader.close()
    return Cost(
        folder.name,
        1,
        statistics.median(bare) / _NS_A_US,
        statistics.median(through) / _NS_A_US,
        statistics.median(b - a for a, b in zip(bare, through, strict=True)) / _NS_A_US,
    )


def _noting(
    sessions: list[typing.Any], session: typing.Any, *rest: typing.Any, **named: typing.Any
) -> SessionRunner:
    sessions.append(session)
    return SessionRunner(session, *rest, **named)


async def _infer(model: Model, tensor: Tensor) -> int:
    """Returns when the response was there."""
    done: asyncio.Future[InferResponse] = asyncio.get_running_loop().create_future()
    answered: list[int] = []

    def answer(response: InferResponse) -> None:
        answered.append(time.perf_counter_ns())
        done.set_result(response)

    model.infer(InferRequest(model.config.name, LATEST, "", [tensor], [], {}), answer)
    response = await done
    if response.error is not None:
        raise response.error
    return answered[0]
