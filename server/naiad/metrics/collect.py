"""Writes the lines of the metrics page for every model version, from its counters. Pure.

A model version has about a hundred lines, and a server may have hundreds of models. So the lines of a family are written once, with
places for the values and for a model's labels; for each model version these are filled in, which costs 25 microseconds for all families.
"""

import collections.abc
import functools
import itertools
import math
import typing

import msgspec

from naiad.errors import FailureReason
from naiad.metrics import families
from naiad.metrics.exposition import Labels, Rendered, labels_text, number
from naiad.metrics.families import Family
from naiad.metrics.queue_state import QueueState
from naiad.metrics.statistics import (
    CloseReason,
    Histogram,
    ModelStatistics,
    RestartReason,
    SequenceCounts,
    SequenceEnd,
)

_NS_PER_US = 1_000
_NS_PER_SECOND = 1e9


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A model version whose counters are shown.

    Attributes:
        tags: the config's metric_tags; each is a label `_<key>` (row 8.30).
        namespace: the model's; "" without namespaces (row 7.37).
        gpu_uuids: of its GPU instances; empty on CPU. With several, the counters, which are the model's, have the label of the first one.
    """

    name: str
    version: int
    statistics: ModelStatistics
    tags: collections.abc.Mapping[str, str]
    namespace: str = ""
    gpu_uuids: tuple[str, ...] = ()

    def labels(self) -> Labels:
        """The labels, sorted by name as the reference prints them: `version` is the last one, and a `reason` is before it (row 8.30)."""
        labels = {f"_{key}": value for key, value in self.tags.items()}
        if self.gpu_uuids:
            labels["gpu_uuid"] = self.gpu_uuids[0]
        if self.namespace:
            labels["namespace"] = self.namespace
        return tuple(sorted({**labels, "model": self.name, "version": str(self.version)}.items()))


_MODEL = "\1"
"""In a line: the labels up to the model's name."""

_VERSION = "\2"
"""In a line: the label `version`."""

_VALUE = " %s\n"

_Value = float | str


class _Lines(msgspec.Struct, frozen=True):
    """The lines of one family for a model version.

    Attributes:
        text: the lines, with places for labels and values, of a model version with these counters.
        values: the current values, in the same order.
    """

    family: Family
    text: collections.abc.Callable[[ModelStatistics], str]
    values: collections.abc.Callable[[ModelStatistics], tuple[_Value, ...]]


def _one(family: Family, value: collections.abc.Callable[[ModelStatistics], _Value]) -> _Lines:
    """One line with the model's own labels."""
    text = f"{family.name}{{{_MODEL},{_VERSION}}}{_VALUE}"
    return _Lines(family, lambda _: text, lambda s: (value(s),))


def _of_sequences(
    family: Family, value: collections.abc.Callable[[SequenceCounts], _Value]
) -> _Lines:
    """One line of a model with sequences."""
    line = f"{family.name}{{{_MODEL},{_VERSION}}}{_VALUE}"
    return _Lines(
        family,
        lambda s: "" if s.sequences is None else line,
        lambda s: () if s.sequences is None else (value(s.sequences()),),
    )


def _of_cache(family: Family, value: collections.abc.Callable[[ModelStatistics], _Value]) -> _Lines:
    """One line of a model that uses the response cache, none of any other (row 8.22)."""
    text = f"{family.name}{{{_MODEL},{_VERSION}}}{_VALUE}"
    return _Lines(
        family, lambda s: text if s.caches else "", lambda s: (value(s),) if s.caches else ()
    )


def _of_strategy(
    family: Family, value: collections.abc.Callable[[ModelStatistics], _Value]
) -> _Lines:
    """One line of a model with a batching strategy of its own."""
    text = f"{family.name}{{{_MODEL},{_VERSION}}}{_VALUE}"
    return _Lines(
        family,
        lambda s: text if s.has_strategy else "",
        lambda s: (value(s),) if s.has_strategy else (),
    )


_Reason = typing.TypeVar("_Reason", FailureReason, CloseReason, RestartReason, SequenceEnd)


def _by_reason(
    family: Family,
    pick: collections.abc.Callable[[ModelStatistics], collections.abc.Mapping[_Reason, int]],
) -> _Lines:
    """One line per reason."""

    @functools.cache
    def text(*reasons: _Reason) -> str:
        return "".join(
            f'{family.name}{{{_MODEL},reason="{reason.value}",{_VERSION}}}{_VALUE}'
            for reason in reasons
        )

    return _Lines(family, lambda s: text(*pick(s)), lambda s: tuple(pick(s).values()))


def _memory() -> _Lines:
    """One line per memory that the model takes."""
    family = families.MODEL_MEMORY

    def text(statistics: ModelStatistics) -> str:
        return "".join(
            f'{family.name}{{estimated="{str(usage.estimated).lower()}",id="{usage.id}",{_MODEL},type="{usage.type}",{_VERSION}}}{_VALUE}'
            for usage in statistics.memory
        )

    return _Lines(family, text, lambda s: tuple(usage.byte_size for usage in s.memory))


def _distribution(
    family: Family, pick: collections.abc.Callable[[ModelStatistics], Histogram], *, unit: float
) -> _Lines:
    """The lines of a histogram whose bounds and sum are shown divided by `unit`."""
    name, labels = family.name, f"{_MODEL},{_VERSION}"

    @functools.cache
    def text(bounds: tuple[float, ...]) -> str:
        return "".join(
            (
                *(
                    f'{name}_bucket{{{labels},le="{number(bound / unit)}"}}{_VALUE}'
                    for bound in (*bounds, math.inf)
                ),
                f"{name}_sum{{{labels}}}{_VALUE}",
                f"{name}_count{{{labels}}}{_VALUE}",
            )
        )

    def values(statistics: ModelStatistics) -> tuple[_Value, ...]:
        observed = pick(statistics)
        running = tuple(itertools.accumulate(observed.counts))
        return (*running, number(observed.total / unit), running[-1])

    return _Lines(family, lambda s: text(pick(s).bounds), values)


_FAMILIES: tuple[_Lines, ...] = (
    _one(families.REQUEST_SUCCESS, lambda s: s.success_count),
    _by_reason(families.REQUEST_FAILURE, lambda s: s.failures),
    _one(families.INFERENCE_COUNT, lambda s: s.inference_count),
    _one(families.EXEC_COUNT, lambda s: s.execution_count),
    _one(families.REQUEST_DURATION, lambda s: s.success_ns // _NS_PER_US),
    _one(families.QUEUE_DURATION, lambda s: s.queue_ns // _NS_PER_US),
    _one(families.COMPUTE_INPUT_DURATION, lambda s: s.compute_input_ns // _NS_PER_US),
    _one(families.COMPUTE_INFER_DURATION, lambda s: s.compute_infer_ns // _NS_PER_US),
    _one(families.COMPUTE_OUTPUT_DURATION, lambda s: s.compute_output_ns // _NS_PER_US),
    _one(families.PENDING, lambda s: s.pending),
    _of_cache(families.CACHE_HITS, lambda s: s.cache_hit_count),
    _of_cache(families.CACHE_MISSES, lambda s: s.cache_miss_count),
    _of_cache(families.CACHE_HIT_DURATION, lambda s: s.cache_hit_ns // _NS_PER_US),
    _of_cache(families.CACHE_MISS_DURATION, lambda s: s.cache_miss_ns // _NS_PER_US),
    _one(families.MODEL_LOAD_DURATION, lambda s: number(s.load_ns / _NS_PER_SECOND)),
    _distribution(families.REQUEST_TIME, lambda s: s.request_time, unit=_NS_PER_SECOND),
    _distribution(families.QUEUE_TIME, lambda s: s.queue_time, unit=_NS_PER_SECOND),
    _distribution(families.COMPUTE_TIME, lambda s: s.compute_time, unit=_NS_PER_SECOND),
    _distribution(families.BATCH_SIZE, lambda s: s.batch_size, unit=1),
    _one(families.PADDING_ROWS, lambda s: s.padding_rows),
    _by_reason(families.BATCH_CLOSED, lambda s: s.closes),
    _of_strategy(families.STRATEGY_FAILURES, lambda s: s.strategy_failures),
    _of_strategy(families.STRATEGY_SLOW, lambda s: s.strategy_slow),
    _memory(),
    _by_reason(families.WORKER_RESTARTS, lambda s: s.worker_restarts),
    _of_sequences(families.SEQUENCES_OPEN, lambda counts: counts.open),
    _of_sequences(families.SEQUENCES_WAITING, lambda counts: counts.waiting),
    _of_sequences(families.SEQUENCE_SLOTS, lambda counts: counts.slots),
    _of_sequences(families.SEQUENCE_SLOTS_USED, lambda counts: counts.used),
    _by_reason(
        families.SEQUENCES_ENDED, lambda s: {} if s.sequences is None else s.sequences().ended
    ),
)
_Samples = collections.abc.Callable[[QueueState], collections.abc.Iterable[tuple[str, _Value]]]

_QUEUE_FAMILIES: tuple[tuple[Family, _Samples], ...] = (
    (
        families.QUEUE_REQUESTS,
        lambda state: (
            (f'priority="{each}",', level.waiting) for each, level in state.levels.items()
        ),
    ),
    (families.QUEUE_OLDEST, lambda state: (("", state.oldest_wait_ns / _NS_PER_SECOND),)),
    (
        families.QUEUE_ESTIMATE,
        lambda state: (
            ("", wait_ns / _NS_PER_SECOND)
            for wait_ns in (state.levels[state.default_level].estimated_wait_ns,)
            if wait_ns is not None
        ),
    ),
    (families.INSTANCES, lambda state: (("", state.instances),)),
    (families.INSTANCES_BUSY, lambda state: (("", state.busy),)),
)
"""Of a model with a queue: label and value of each line. They share the state of the queue, which takes ten microseconds to make."""

_FROZEN_WITHOUT_LATENCIES = frozenset(
    (families.REQUEST_SUCCESS, families.INFERENCE_COUNT, families.EXEC_COUNT)
)


def model_series(
    counted: collections.abc.Sequence[Counted], *, counter_latencies: bool
) -> collections.abc.Iterator[Rendered]:
    """The families that every model version has, each written when the iterator reaches it.

    Without `counter_latencies` the latency families are left out, and the counters of successes, inferences and executions stay at 0, as in
    the reference (row 8.18).
    """
    labels = [
        (labels_text(rest), labels_text((version,)))
        for *rest, version in (model.labels() for model in counted)
    ]
    for lines in _FAMILIES:
        family = lines.family
        if family in families.LATENCY_COUNTERS and not counter_latencies:
            continue
        frozen = family in _FROZEN_WITHOUT_LATENCIES and not counter_latencies
        parts: list[str] = []
        for one, (model, version) in zip(counted, labels, strict=True):
            statistics = one.statistics
            text = lines.text(statistics) % ((0,) if frozen else lines.values(statistics))
            # The model's labels last: they may hold any character.
            parts.append(text.replace(_VERSION, version).replace(_MODEL, model))
        yield Rendered(family, "".join(parts))
    yield from _queue_series(counted, labels)


def _queue_series(
    counted: collections.abc.Sequence[Counted],
    labels: collections.abc.Sequence[tuple[str, str]],
) -> collections.abc.Iterator[Rendered]:
    queues = [one.statistics.queue for one in counted]
    states = [None if queue is None else queue() for queue in queues]
    for family, samples in _QUEUE_FAMILIES:
        lines = [
            f"{family.name}{{{model},{label}{version}}} {value}\n"
            for state, (model, version) in zip(states, labels, strict=True)
            if state is not None
            for label, value in samples(state)
        ]
        yield Rendered(family, "".join(lines))
