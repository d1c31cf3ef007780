"""System metrics while they cannot be measured: the last values stay, and the log says why in one line."""

import asyncio
import logging

import pytest

from naiad.metrics.devices import ProcessorMeter, SystemMetrics
from tests.support.waiting import wait_until


async def test_metrics_that_cannot_be_read_leave_the_last_ones_and_one_line_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = SystemMetrics(gpus=None, cpu=True, interval_seconds=0.01)
    await metrics.start()
    before = metrics.series()
    assert before

    def no_descriptor(meter: ProcessorMeter) -> None:
        raise OSError(24, "Too many open files", "/proc/meminfo")

    monkeypatch.setattr(ProcessorMeter, "series", no_descriptor)
    with caplog.at_level(logging.WARNING, logger="naiad.metrics"):
        await asyncio.to_thread(wait_until, lambda: bool(caplog.records))
    await metrics.stop()
    assert metrics.series() is before
    first = caplog.records[0]
    assert "Too many open files" in first.getMessage()
    assert first.exc_info is None
