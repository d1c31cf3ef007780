"""Counters as a ModelStatisticsResponse (rows 8.2-8.7, 10.41). Pure."""

import collections.abc
import typing

from naiad.core.messages import service_pb2
from naiad.engine.api import ModelVersionStatistics
from naiad.metrics.statistics import ModelStatistics
from naiad.protocol import durations
from naiad.protocol.durations import Durations


def encode(entries: collections.abc.Iterable[ModelVersionStatistics]) -> bytes:
    """The response's bytes, entries in the order they are given.

    Durations without a count are present with zeros. Cache counters stay zero (no response cache yet), as does
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
    _write(message.inference_stats, durations.of_model(counted))
    for batch_size, batch in sorted(counted.batches.items()):
        _write(message.batch_stats.add(batch_size=batch_size), durations.of_batch(batch))
    for index, response in sorted(counted.responses.items()):
        _write(message.response_stats[str(index)], durations.of_response(response))


def _write(message: typing.Any, counters: Durations) -> None:
    for name, (count, ns) in counters.items():
        duration = getattr(message, name)
        duration.count = count
        duration.ns = ns
