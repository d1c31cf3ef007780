"""Counters on the wire."""

from naiad.core.messages import service_pb2
from naiad.engine.api import ModelVersionStatistics
from naiad.errors import FailureReason
from naiad.metrics.memory import MemoryUsage
from naiad.metrics.statistics import BatchTiming, ModelStatistics
from naiad.protocol.grpc import control


def test_counters_reach_their_fields() -> None:
    counted = ModelStatistics()
    timing = BatchTiming(compute_input_ns=1, compute_infer_ns=20, compute_output_ns=300)
    counted.record_execution(batch_size=4, timing=timing, wall_ms=1234)
    counted.record_execution(batch_size=1, timing=timing, wall_ms=5678)
    counted.record_successes(rows=3, request_ns=[1000], queue_ns=[50], timing=timing)
    counted.record_failure(reason=FailureReason.BACKEND, request_ns=7)
    counted.memory = (MemoryUsage(type="GPU", id=1, byte_size=1 << 40, estimated=True),)
    body = control.statistics([ModelVersionStatistics(name="m", version=2, statistics=counted)])
    (found,) = service_pb2.ModelStatisticsResponse.FromString(body).model_stats
    assert (found.name, found.version) == ("m", "2")
    assert (found.last_inference, found.inference_count, found.execution_count) == (5678, 3, 2)
    total = found.inference_stats
    assert {field.name: (value.count, value.ns) for field, value in total.ListFields()} == {
        "success": (1, 1000),
        "fail": (1, 7),
        "queue": (1, 50),
        "compute_input": (1, 1),
        "compute_infer": (1, 20),
        "compute_output": (1, 300),
        "cache_hit": (0, 0),
        "cache_miss": (0, 0),
    }
    assert [
        (part.batch_size, part.compute_infer.count, part.compute_infer.ns)
        for part in found.batch_stats
    ] == [(1, 1, 20), (4, 1, 20)]
    assert not found.response_stats
    (memory,) = found.memory_usage
    assert (memory.type, memory.id, memory.byte_size) == ("GPU", 1, 1 << 40)


def test_responses_are_counted_by_their_place() -> None:
    counters = ModelStatistics()
    counters.response(0).record(7, failed=False, empty=False, cancelled=False)
    counters.response(0).record(8, failed=True, empty=False, cancelled=False)
    counters.response(1).record(9, failed=False, empty=True, cancelled=False)
    body = control.statistics([ModelVersionStatistics(name="m", version=1, statistics=counters)])
    (found,) = service_pb2.ModelStatisticsResponse.FromString(body).model_stats
    first, second = found.response_stats["0"], found.response_stats["1"]
    assert (first.compute_infer.count, first.compute_infer.ns) == (2, 15)
    assert (first.success.ns, first.fail.ns, first.cancel.count) == (7, 8, 0)
    assert (second.empty_response.count, second.empty_response.ns) == (1, 9)
