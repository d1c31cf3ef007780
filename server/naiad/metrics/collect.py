"""From counters to metric series: what the page shows of every model version. Pure."""

import collections.abc

import msgspec

from naiad.errors import FailureReason
from naiad.metrics import families
from naiad.metrics.exposition import Labels, Sample, Series, histogram
from naiad.metrics.families import Family
from naiad.metrics.statistics import CloseReason, Histogram, ModelStatistics

_NS_A_US = 1_000
_NS_A_SECOND = 1e9


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A model version whose counters are shown.

    Attributes:
        name: the model.
        version: its number.
        statistics: its counters.
        tags: the config's metric_tags; each is a label `_<key>` (row 8.30).
        gpu_uuids: of its GPU instances; empty on CPU. With several, counters stand at the first one (they are the model's).
    """

    name: str
    version: int
    statistics: ModelStatistics
    tags: collections.abc.Mapping[str, str]
    gpu_uuids: tuple[str, ...] = ()

    def labels(self) -> Labels:
        """Row 8.30, sorted by name as the reference prints them."""
        labels = {f"_{key}": value for key, value in self.tags.items()}
        if self.gpu_uuids:
            labels["gpu_uuid"] = self.gpu_uuids[0]
        return tuple(sorted({**labels, "model": self.name, "version": str(self.version)}.items()))

    def labels_with_reason(self, reason: str) -> Labels:
        """The same with the label `reason` in its place."""
        return tuple(sorted((*self.labels(), ("reason", reason))))


_PLAIN: tuple[tuple[Family, collections.abc.Callable[[ModelStatistics], float]], ...] = (
    (families.INFERENCE_COUNT, lambda s: s.inference_count),
    (families.EXEC_COUNT, lambda s: s.execution_count),
    (families.REQUEST_DURATION, lambda s: s.success_ns // _NS_A_US),
    (families.QUEUE_DURATION, lambda s: s.queue_ns // _NS_A_US),
    (families.COMPUTE_INPUT_DURATION, lambda s: s.compute_input_ns // _NS_A_US),
    (families.COMPUTE_INFER_DURATION, lambda s: s.compute_infer_ns // _NS_A_US),
    (families.COMPUTE_OUTPUT_DURATION, lambda s: s.compute_output_ns // _NS_A_US),
    (families.PENDING, lambda s: s.pending),
    (families.MODEL_LOAD_DURATION, lambda s: s.load_ns / _NS_A_SECOND),
)
_FROZEN_WITHOUT_LATENCIES = frozenset(
    (families.REQUEST_SUCCESS, families.INFERENCE_COUNT, families.EXEC_COUNT)
)


def model_series(
    counted: collections.abc.Sequence[Counted], *, counter_latencies: bool
) -> list[Series]:
    """The families that every model version has.

    Args:
        counted: what to show.
        counter_latencies: row 8.18: without them their families are gone, and (the reference's own slip, kept) the
            counters of successes, inferences and executions stay at 0.
    """
    found = [
        Series(
            families.REQUEST_SUCCESS,
            tuple(
                Sample(one.labels(), one.statistics.success_count if counter_latencies else 0)
                for one in counted
            ),
        ),
        Series(families.REQUEST_FAILURE, tuple(_failures(counted))),
    ]
    for family, value in _PLAIN:
        if family in families.LATENCY_COUNTERS and not counter_latencies:
            continue
        frozen = family in _FROZEN_WITHOUT_LATENCIES and not counter_latencies
        found.append(
            Series(
                family,
                tuple(
                    Sample(one.labels(), 0 if frozen else value(one.statistics)) for one in counted
                ),
            )
        )
    found.extend(
        (
            _durations(families.REQUEST_TIME, counted, lambda s: s.request_time),
            _durations(families.QUEUE_TIME, counted, lambda s: s.queue_time),
            _durations(families.COMPUTE_TIME, counted, lambda s: s.compute_time),
            _sizes(counted),
            Series(families.BATCH_CLOSED, tuple(_closes(counted))),
        )
    )
    restarts = tuple(_restarts(counted))
    if restarts:
        found.append(Series(families.WORKER_RESTARTS, restarts))
    return found


def _failures(counted: collections.abc.Sequence[Counted]) -> collections.abc.Iterator[Sample]:
    for one in counted:
        for reason in FailureReason:
            yield Sample(one.labels_with_reason(reason.value), one.statistics.failures[reason])


def _closes(counted: collections.abc.Sequence[Counted]) -> collections.abc.Iterator[Sample]:
    for one in counted:
        for reason in CloseReason:
            yield Sample(one.labels_with_reason(reason.value), one.statistics.closes[reason])


def _restarts(counted: collections.abc.Sequence[Counted]) -> collections.abc.Iterator[Sample]:
    for one in counted:
        for reason, count in one.statistics.worker_restarts.items():
            yield Sample(one.labels_with_reason(reason.value), count)


def _durations(
    family: Family,
    counted: collections.abc.Sequence[Counted],
    pick: collections.abc.Callable[[ModelStatistics], Histogram],
) -> Series:
    samples: list[Sample] = []
    for one in counted:
        observed = pick(one.statistics)
        samples.extend(
            histogram(
                one.labels(),
                bounds=[bound / _NS_A_SECOND for bound in observed.bounds],
                counts=observed.counts,
                total=observed.total / _NS_A_SECOND,
            )
        )
    return Series(family, tuple(samples))


def _sizes(counted: collections.abc.Sequence[Counted]) -> Series:
    samples: list[Sample] = []
    for one in counted:
        observed = one.statistics.batch_size
        samples.extend(
            histogram(
                one.labels(), bounds=observed.bounds, counts=observed.counts, total=observed.total
            )
        )
    return Series(families.BATCH_SIZE, tuple(samples))
