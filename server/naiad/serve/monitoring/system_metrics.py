"""Measures CPU, memory and GPUs every `--metrics-interval-ms`, away from the event loop; the metrics page shows the last values.

One timer, and one measurement at a time: with a slow driver the values are older.
"""

import asyncio
import collections.abc
import contextlib
import logging

from naiad.metrics.devices import GpuMonitor, ProcessorMeter, gpu_series
from naiad.metrics.exposition import Series

log = logging.getLogger("naiad.metrics")


class SystemMetrics:
    """The system metrics, measured in the background.

    Args:
        gpus: measured in every interval; None leaves GPUs out.
        cpu: whether CPU and memory are measured.
        interval_seconds: between two measurements.
    """

    def __init__(self, *, gpus: GpuMonitor | None, cpu: bool, interval_seconds: float) -> None:
        self._gpus = gpus
        self._cpu = ProcessorMeter() if cpu else None
        self._interval = interval_seconds
        self._series: collections.abc.Sequence[Series] = ()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Measure once, then go on in the background."""
        if self._cpu is not None or self._gpus is not None:
            self._series = await asyncio.to_thread(self._measure)
            self._task = asyncio.get_running_loop().create_task(self._run())

    def series(self) -> collections.abc.Sequence[Series]:
        """The last values."""
        return self._series

    async def stop(self) -> None:
        """Measure no more. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                self._series = await asyncio.to_thread(self._measure)
            except (
                OSError
            ) as error:  # no descriptor is free, most likely: it will say so in other lines too
                log.warning(
                    "measuring the machine failed (%s); the metrics page shows older values", error
                )
            except Exception:
                log.exception("measuring the machine failed; the metrics page shows older values")

    def _measure(self) -> list[Series]:
        series = [] if self._cpu is None else self._cpu.series()
        if self._gpus is not None:
            series += gpu_series(self._gpus.read())
        return series
