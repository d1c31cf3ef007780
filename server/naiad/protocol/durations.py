"""Counters as pairs of a count and its nanoseconds, by the names that both protocols give them (rows 8.3 to 8.6). Pure.

`http/admin/models.py` and `grpc/control.py` only write them.
"""

from naiad.metrics.statistics import BatchStatistics, ModelStatistics, ResponseStatistics

Durations = dict[str, tuple[int, int]]
"""Name -> (count, nanoseconds), in the protocol's order."""


def of_model(counted: ModelStatistics) -> Durations:
    """The counters of a model version (rows 8.3, 8.4). A successful request was queued once, and computed once unless its response was in the cache."""
    succeeded = counted.success_count
    computed = succeeded - counted.cache_hit_count
    return {
        "success": (succeeded, counted.success_ns),
        "fail": (counted.fail_count, counted.fail_ns),
        "queue": (succeeded, counted.queue_ns),
        "compute_input": (computed, counted.compute_input_ns),
        "compute_infer": (computed, counted.compute_infer_ns),
        "compute_output": (computed, counted.compute_output_ns),
        "cache_hit": (counted.cache_hit_count, counted.cache_hit_ns),
        "cache_miss": (counted.cache_miss_count, counted.cache_miss_ns),
    }


def of_batch(counted: BatchStatistics) -> Durations:
    """The counters of one batch size's executions (row 8.5)."""
    return {
        "compute_input": (counted.count, counted.compute_input_ns),
        "compute_infer": (counted.count, counted.compute_infer_ns),
        "compute_output": (counted.count, counted.compute_output_ns),
    }


def of_response(counted: ResponseStatistics) -> Durations:
    """The counters of the responses at one index (row 8.6). No time is counted for their output: the protocols send them."""
    computed = counted.success_count + counted.fail_count
    return {
        "compute_infer": (computed, counted.success_ns + counted.fail_ns),
        "compute_output": (computed, 0),
        "success": (counted.success_count, counted.success_ns),
        "fail": (counted.fail_count, counted.fail_ns),
        "empty_response": (counted.empty_count, counted.empty_ns),
        "cancel": (counted.cancel_count, counted.cancel_ns),
    }
