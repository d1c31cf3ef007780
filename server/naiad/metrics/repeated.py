"""Counts many equal executions at once: those of a warmup, of which there may be billions."""

import bisect

from naiad.metrics.statistics import BatchStatistics, BatchTiming, ModelStatistics


def record_repeated(
    statistics: ModelStatistics, *, rows: int, times: int, total: BatchTiming, wall_ms: int
) -> None:
    """Count executions as `record_execution` and `record_successes` count each of them; in histograms and summaries each takes the mean.

    Args:
        statistics: where to.
        rows: of each execution, which are requests of one row that waited for nothing.
        times: how many executions, at least one.
        total: the parts of all of them together.
        wall_ms: when the last one was.
    """
    requests, took = rows * times, sum(total.parts())
    statistics.execution_count += times
    statistics.success_count += requests
    statistics.inference_count += requests
    statistics.success_ns += rows * took
    statistics.compute_input_ns += rows * total.compute_input_ns
    statistics.compute_infer_ns += rows * total.compute_infer_ns
    statistics.compute_output_ns += rows * total.compute_output_ns
    statistics.last_inference_ms = wall_ms
    entry = statistics.batches.setdefault(rows, BatchStatistics())
    entry.count += times
    entry.compute_input_ns += total.compute_input_ns
    entry.compute_infer_ns += total.compute_infer_ns
    entry.compute_output_ns += total.compute_output_ns
    for histogram, value, count in (
        (statistics.compute_time, took / times, times),
        (statistics.batch_size, rows, times),
        (statistics.request_time, took / times, requests),
        (statistics.queue_time, 0, requests),
    ):
        histogram.counts[bisect.bisect_left(histogram.bounds, value)] += count
    statistics.compute_time.total += took
    statistics.batch_size.total += requests
    statistics.request_time.total += rows * took
    if (summaries := statistics.summaries) is not None:
        summaries.requested(took // times, 0, times=requests)
        summaries.computed(*(part // times for part in total.parts()), requests=requests)
