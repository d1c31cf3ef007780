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
from naiad.metrics.exposition import Labels, Rendered, exemplar_text, labels_text, number
from naiad.metrics.families import Family
from naiad.metrics.histogram import Histogram
from naiad.metrics.queue_state import QueueState
from naiad.metrics.statistics import (
    CloseReason,
    ModelStatistics,
    RestartReason,
    SequenceCounts,
    SequenceEnd,
    StepTimes,
)
from naiad.metrics.summary import Summaries, Summary

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

_Values = collections.abc.Callable[[ModelStatistics], tuple[_Value, ...]]

_Shows = collections.abc.Callable[[ModelStatistics], bool]
"""Whether a model has a family."""


class _Lines(msgspec.Struct, frozen=True):
    """The lines of one family for a model version.

    Attributes:
        text: the lines, with places for labels and values, of a model version with these counters.
        values: the current values, in the same order.
        with_exemplars: the same with the exemplars of a histogram, for OpenMetrics.
    """

    family: Family
    text: collections.abc.Callable[[ModelStatistics], str]
    values: _Values
    with_exemplars: _Values | None = None


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
    family: Family,
    pick: collections.abc.Callable[[ModelStatistics], Histogram | None],
    *,
    unit: float,
) -> _Lines:
    """The lines of a histogram, if the model has it; bounds and sum are shown divided by `unit`."""
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

    def shown(statistics: ModelStatistics) -> str:
        observed = pick(statistics)
        return "" if observed is None else text(observed.bounds)

    def values(statistics: ModelStatistics) -> tuple[_Value, ...]:
        observed = pick(statistics)
        if observed is None:
            return ()
        running = tuple(itertools.accumulate(observed.counts))
        return (*running, number(observed.total / unit), running[-1])

    def with_exemplars(statistics: ModelStatistics) -> tuple[_Value, ...]:
        found = list(values(statistics))
        observed = pick(statistics)
        for bucket, exemplar in () if observed is None else observed.exemplars.items():
            found[bucket] = f"{found[bucket]}{exemplar_text(exemplar, unit)}"
        return tuple(found)

    return _Lines(family, shown, values, with_exemplars)


def _quantiles(
    family: Family, pick: collections.abc.Callable[[Summaries], Summary], *, of: _Shows
) -> _Lines:
    """The lines of a summary, where a model has it."""
    name, labels = family.name, f"{_MODEL},{_VERSION}"

    @functools.cache
    def text(wanted: tuple[float, ...]) -> str:
        return "".join(
            (
                f"{name}_count{{{labels}}}{_VALUE}",
                f"{name}_sum{{{labels}}}{_VALUE}",
                *(f'{name}{{{labels},quantile="{number(each)}"}}{_VALUE}' for each in wanted),
            )
        )

    def values(statistics: ModelStatistics) -> tuple[_Value, ...]:
        summaries = statistics.summaries
        if summaries is None or not of(statistics):
            return ()
        summary = pick(summaries)
        found = map(number, summary.quantiles(summaries.wanted))
        return (summary.count, summary.total, *found)

    def shown(statistics: ModelStatistics) -> str:
        summaries = statistics.summaries
        return "" if summaries is None or not of(statistics) else text(summaries.wanted)

    return _Lines(family, shown, values)


def _of_every(_statistics: ModelStatistics) -> bool:
    return True


def _with_cache(statistics: ModelStatistics) -> bool:
    return statistics.caches


def _without_cache(statistics: ModelStatistics) -> bool:
    return not statistics.caches


def _of_streams(
    family: Family, pick: collections.abc.Callable[[ModelStatistics], Histogram]
) -> _Lines:
    """The lines of a histogram of seconds of a decoupled model, none of any other."""
    return _distribution(family, lambda s: pick(s) if s.streams else None, unit=_NS_PER_SECOND)


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
    _distribution(families.FIRST_RESPONSE, lambda s: s.first_response, unit=1),
    # The reference leaves it out where a hit would count as a request.
    _quantiles(families.REQUEST_SUMMARY, lambda s: s.request, of=_without_cache),
    _quantiles(families.QUEUE_SUMMARY, lambda s: s.queue, of=_of_every),
    _quantiles(families.COMPUTE_INPUT_SUMMARY, lambda s: s.compute_input, of=_of_every),
    _quantiles(families.COMPUTE_INFER_SUMMARY, lambda s: s.compute_infer, of=_of_every),
    _quantiles(families.COMPUTE_OUTPUT_SUMMARY, lambda s: s.compute_output, of=_of_every),
    _quantiles(families.CACHE_HIT_SUMMARY, lambda s: s.cache_hit, of=_with_cache),
    _quantiles(families.CACHE_MISS_SUMMARY, lambda s: s.cache_miss, of=_with_cache),
    _one(families.MODEL_LOAD_DURATION, lambda s: number(s.load_ns / _NS_PER_SECOND)),
    _distribution(families.REQUEST_TIME, lambda s: s.request_time, unit=_NS_PER_SECOND),
    _of_streams(families.FIRST_RESPONSE_TIME, lambda s: s.first_response_time),
    _of_streams(families.RESPONSE_INTERVAL, lambda s: s.response_interval),
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

_STEP_FAMILIES: tuple[tuple[Family, collections.abc.Callable[[StepTimes], _Value]], ...] = (
    (families.STEP_CALLS, lambda step: step.count),
    (families.STEP_FAILURES, lambda step: step.failures),
    (families.STEP_DURATION, lambda step: number(step.total_ns / _NS_PER_SECOND)),
)
"""Of each step of an ensemble."""

_FROZEN_WITHOUT_LATENCIES = frozenset(
    (families.REQUEST_SUCCESS, families.INFERENCE_COUNT, families.EXEC_COUNT)
)


def model_series(
    counted: collections.abc.Sequence[Counted],
    *,
    counter_latencies: bool = True,
    exemplars: bool = False,
) -> collections.abc.Iterator[Rendered]:
    """The families that every model version has, each written when the iterator reaches it.

    Without `counter_latencies` the latency families are left out, and the counters of successes, inferences and executions stay at 0, as in
    the reference (row 8.18). `exemplars`: of histograms that have some, which only OpenMetrics can show.
    """
    labels = [
        (labels_text(rest), labels_text((version,)))
        for *rest, version in (model.labels() for model in counted)
    ]
    for lines in _FAMILIES:
        family = lines.family
        if family in families.LATENCY_COUNTERS and not counter_latencies:
            continue
        values = lines.values
        if exemplars and lines.with_exemplars is not None:
            values = lines.with_exemplars
        frozen = family in _FROZEN_WITHOUT_LATENCIES and not counter_latencies
        parts: list[str] = []
        for one, (model, version) in zip(counted, labels, strict=True):
            statistics = one.statistics
            text = lines.text(statistics) % ((0,) if frozen else values(statistics))
            # The model's labels last: they may hold any character.
            parts.append(text.replace(_VERSION, version).replace(_MODEL, model))
        yield Rendered(family, "".join(parts))
    yield from _queue_series(counted, labels)
    yield from _step_series(counted, labels)


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


def _step_series(
    counted: collections.abc.Sequence[Counted],
    labels: collections.abc.Sequence[tuple[str, str]],
) -> collections.abc.Iterator[Rendered]:
    for family, value in _STEP_FAMILIES:
        lines = [
            f"{family.name}{{{model},{labels_text((('step', str(index)), ('step_model', step.model)))},{version}}} {value(step)}\n"
            for one, (model, version) in zip(counted, labels, strict=True)
            for index, step in enumerate(one.statistics.steps)
        ]
        yield Rendered(family, "".join(lines))
