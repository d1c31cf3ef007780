"""Counters as both protocols show them."""

from naiad.errors import FailureReason
from naiad.metrics.statistics import BatchTiming, ModelStatistics
from naiad.protocol import durations

TIMING = BatchTiming(1, 20, 3)


def test_every_answered_request_was_queued_and_computed_once() -> None:
    counted = ModelStatistics()
    counted.record_successes(rows=5, request_ns=[40, 60], queue_ns=[7, 8], timing=TIMING)
    counted.record_failure(reason=FailureReason.OTHER, request_ns=9)
    assert durations.of_model(counted) == {
        "success": (2, 100),
        "fail": (1, 9),
        "queue": (2, 15),
        "compute_input": (2, 2),
        "compute_infer": (2, 40),
        "compute_output": (2, 6),
        "cache_hit": (0, 0),
        "cache_miss": (0, 0),
    }


def test_a_batch_counts_its_executions() -> None:
    counted = ModelStatistics()
    for _ in range(3):
        counted.record_execution(batch_size=4, timing=TIMING, wall_ms=1)
    assert durations.of_batch(counted.batches[4]) == {
        "compute_input": (3, 3),
        "compute_infer": (3, 60),
        "compute_output": (3, 9),
    }


def test_a_failed_response_was_computed_and_a_cancelled_one_was_not() -> None:
    counted = ModelStatistics().response(0)
    counted.record(5, failed=False, empty=False, cancelled=False)
    counted.record(6, failed=True, empty=False, cancelled=False)
    counted.record(7, failed=False, empty=False, cancelled=True)
    counted.record(8, failed=False, empty=True, cancelled=False)
    assert durations.of_response(counted) == {
        "compute_infer": (2, 11),
        "compute_output": (2, 0),
        "success": (1, 5),
        "fail": (1, 6),
        "empty_response": (1, 8),
        "cancel": (1, 7),
    }


def test_a_hit_succeeds_and_waits_but_is_not_computed() -> None:
    counted = ModelStatistics()
    counted.record_successes(rows=5, request_ns=[40], queue_ns=[7], timing=TIMING)
    counted.record_cache_miss(30)
    counted.record_cache_hit(request_ns=10, queue_ns=2, lookup_ns=1)
    assert durations.of_model(counted) == {
        "success": (2, 80),
        "fail": (0, 0),
        "queue": (2, 9),
        "compute_input": (1, 1),
        "compute_infer": (1, 20),
        "compute_output": (1, 3),
        "cache_hit": (1, 1),
        "cache_miss": (1, 30),
    }
    assert counted.inference_count == 5
