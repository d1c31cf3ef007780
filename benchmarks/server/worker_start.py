"""How late the event loop is while worker processes start, in a server process with 1 GB of memory in use.

A timer of 1 ms on the loop, 40 starts of a worker; the delays of the timer less the time for which the loop's thread waited for a processor, which is the machine's.
`python -m benchmarks.server.worker_start [MEGABYTES] [STARTS]`; PYTHONPATH=DIR/server measures another checkout.
"""

import asyncio
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

import numpy as np
import uvloop

from benchmarks import models
from benchmarks.server.engine_load import make_loader
from naiad.serve.heartbeat.loop_lag import RunDelay

_TICK_S = 0.001


class _Ticks:
    """How late a timer was, in ms, since `worst_ms` was called last."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._delay = RunDelay(threading.get_native_id())
        self._worst_ns = 0
        self._set()

    def worst_ms(self) -> float:
        worst, self._worst_ns = self._worst_ns, 0
        return worst / 1e6

    def _set(self) -> None:
        self._due_ns = time.monotonic_ns() + int(_TICK_S * 1e9)
        self._starved_ns = self._delay.read_ns()
        self._loop.call_later(_TICK_S, self._beat)

    def _beat(self) -> None:
        late = time.monotonic_ns() - self._due_ns - (self._delay.read_ns() - self._starved_ns)
        self._worst_ns = max(self._worst_ns, late)
        self._set()


async def _measure(megabytes: int, starts: int) -> None:
    held = np.ones(megabytes << 17, np.float64)  # every page is there
    ticks = _Ticks(asyncio.get_running_loop())
    idle: list[float] = []
    starting: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models.python_identity(folder, "identity")
        loader = make_loader({"host": "process"})
        plan = await loader.plan(folder / "identity")
        await (await loader.load(plan.versions[0])).stop()  # imports what a start needs
        for _ in range(starts):
            ticks.worst_ms()
            await asyncio.sleep(0.3)
            idle.append(ticks.worst_ms())
            model = await loader.load(plan.versions[0])
            starting.append(ticks.worst_ms())
            await model.stop()
        loader.close()
    print(
        f"{held.nbytes >> 20} MB in use, {starts} starts, load of the machine {os.getloadavg()[0]:.1f}: the loop was late by at most {_shown(starting)} ms, "
        f"while nothing started by {_shown(idle)}"
    )


def _shown(delays: list[float]) -> str:
    nine_of_ten = statistics.quantiles(delays, n=10)[-1]
    return f"{statistics.median(delays):.2f} (9 of 10: {nine_of_ten:.2f}, all: {max(delays):.2f})"


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_measure(given[0] if given else 1024, given[1] if len(given) > 1 else 40))
