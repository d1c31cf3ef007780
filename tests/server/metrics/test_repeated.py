"""Many equal executions counted at once are counted as one after the other."""

import pytest

from naiad.metrics.options import MetricsOptions
from naiad.metrics.repeated import record_repeated
from naiad.metrics.statistics import BatchTiming, ModelStatistics

ONE = BatchTiming(2_000, 300_000, 5_000)


def numbers(statistics: ModelStatistics) -> list[object]:
    """Every counter that an execution changes."""
    assert statistics.summaries is not None
    histograms = (statistics.compute_time, statistics.batch_size, statistics.request_time, statistics.queue_time)  # fmt: skip
    shown = vars(statistics.summaries).values()
    return [
        statistics.execution_count, statistics.success_count, statistics.inference_count, statistics.success_ns, statistics.queue_ns,
        statistics.compute_input_ns, statistics.compute_infer_ns, statistics.compute_output_ns, statistics.last_inference_ms,
        {rows: (each.count, each.compute_input_ns, each.compute_infer_ns, each.compute_output_ns) for rows, each in statistics.batches.items()},
        [(each.counts, each.total) for each in histograms],
        [(each.count, each.total, each.quantiles((0.5,))) for each in shown if hasattr(each, "quantiles")],
    ]  # fmt: skip


@pytest.mark.parametrize("rows", [1, 3])
def test_many_equal_executions_at_once_are_as_many_one_by_one(rows: int) -> None:
    options = MetricsOptions(summary_latencies=True)
    singly, at_once = ModelStatistics(options), ModelStatistics(options)
    times, took = 50, sum(ONE.parts())
    for _ in range(times):
        singly.record_execution(batch_size=rows, timing=ONE, wall_ms=7)
        singly.record_successes(rows=rows, request_ns=[took] * rows, queue_ns=[0] * rows, timing=ONE)  # fmt: skip
    total = BatchTiming(*(times * part for part in ONE.parts()))
    record_repeated(at_once, rows=rows, times=times, total=total, wall_ms=7)
    assert numbers(at_once) == numbers(singly)
    billions = 4_000_000_000
    total = BatchTiming(*(billions * part for part in ONE.parts()))
    record_repeated(at_once, rows=rows, times=billions, total=total, wall_ms=8)
    assert at_once.execution_count == billions + times
