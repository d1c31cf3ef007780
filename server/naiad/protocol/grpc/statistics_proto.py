"""Counters as a ModelStatisticsResponse (rows 8.2-8.7, 10.41). Pure."""

import collections.abc
import typing

from naiad.core.messages import service_pb2
from naiad.engine.api import ModelVersionStatistics
from naiad.metrics.statistics import ModelStatistics, ResponseStatistics


def encode(entries: collections.abc.Iterable[ModelVersionStatistics]) -> bytes:
    """The response's bytes, entries in the order they are given.

    Durations that nothing was counted for are there with zeros. Cache counters stay zero (no response cache yet), as does
    memory usage (row 8.7).
    """
    response = service_pb2.ModelStatisticsResponse()
    for entry in entries:
        _fill(
            response.model_stats.add(name=entry.name, version=str(entry.version)), entry.statistics
        )
    return typing.cast("bytes", response.SerializeToString())


def _fill(message: typing.Any, counted: ModelStatistics) -> None:
    message.last_inference = counted.last_inference_ms
    message.inference_count = counted.inference_count
    message.execution_count = counted.execution_count
    total = message.inference_stats
    answered = counted.success_count
    _duration(total.success, answered, counted.success_ns)
    _duration(total.fail, counted.fail_count, counted.fail_ns)
    # Row 8.4: as many as were answered, because nothing is answered from a cache.
    _duration(total.queue, answered, counted.queue_ns)
    _duration(total.compute_input, answered, counted.compute_input_ns)
    _duration(total.compute_infer, answered, counted.compute_infer_ns)
    _duration(total.compute_output, answered, counted.compute_output_ns)
    _duration(total.cache_hit, 0, 0)
    _duration(total.cache_miss, 0, 0)
    for batch_size, batch in sorted(counted.batches.items()):
        part = message.batch_stats.add(batch_size=batch_size)
        _duration(part.compute_input, batch.count, batch.compute_input_ns)
        _duration(part.compute_infer, batch.count, batch.compute_infer_ns)
        _duration(part.compute_output, batch.count, batch.compute_output_ns)

    for place, response in sorted(counted.responses.items()):
        _fill_response(message.response_stats[str(place)], response)


def _fill_response(message: typing.Any, counted: ResponseStatistics) -> None:
    """Row 8.6."""
    computed = counted.success_count + counted.fail_count
    _duration(message.compute_infer, computed, counted.success_ns + counted.fail_ns)
    _duration(message.compute_output, computed, 0)
    _duration(message.success, counted.success_count, counted.success_ns)
    _duration(message.fail, counted.fail_count, counted.fail_ns)
    _duration(message.empty_response, counted.empty_count, counted.empty_ns)
    _duration(message.cancel, counted.cancel_count, counted.cancel_ns)


def _duration(message: typing.Any, count: int, ns: int) -> None:
    message.count = count
    message.ns = ns
