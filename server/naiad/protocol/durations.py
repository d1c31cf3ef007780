"""Counters as pairs of a count and its nanoseconds, by the names that both protocols show them under (rows 8.3 to 8.6). Pure.

What is counted as what is decided here once; `http/models.py` and `grpc/statistics_proto.py` only write it down.
"""

from naiad.metrics.statistics import BatchStatistics, ModelStatistics, ResponseStatistics

Durations = dict[str, tuple[int, int]]
"""Name -> (count, nanoseconds), in the protocol's order."""


def of_model(counted: ModelStatistics) -> Durations:
    """Rows 8.3, 8.4: a successful request was queued once and computed once, since nothing is answered from a cache yet."""
    answered = counted.success_count
    return {
        "success": (answered, counted.success_ns),
        "fail": (counted.fail_count, counted.fail_ns),
        "queue": (answered, counted.queue_ns),
        "compute_input": (answered, counted.compute_input_ns),
        "compute_infer": (answered, counted.compute_infer_ns),
        "compute_output": (answered, counted.compute_output_ns),
        "cache_hit": (0, 0),
        "cache_miss": (0, 0),
    }


def of_batch(counted: BatchStatistics) -> Durations:
    """Row 8.5: executions of one batch size."""
    return {
        "compute_input": (counted.count, counted.compute_input_ns),
        "compute_infer": (counted.count, counted.compute_infer_ns),
        "compute_output": (counted.count, counted.compute_output_ns),
    }


def of_response(counted: ResponseStatistics) -> Durations:
    """Row 8.6: responses of one place. No time is counted for their output: sending them is the protocols' work."""
    computed = counted.success_count + counted.fail_count
    return {
        "compute_infer": (computed, counted.success_ns + counted.fail_ns),
        "compute_output": (computed, 0),
        "success": (counted.success_count, counted.success_ns),
        "fail": (counted.fail_count, counted.fail_ns),
        "empty_response": (counted.empty_count, counted.empty_ns),
        "cancel": (counted.cancel_count, counted.cancel_ns),
    }
