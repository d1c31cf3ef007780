"""The counters of one model version: plain integers that the event loop adds to (section 8 of the table of behaviour).

Statistics replies and the metrics page read the same object, so they never disagree. The hot path makes a few integer additions;
formatting happens when the statistics or the metrics page are requested.
"""

import bisect
import collections.abc
import enum

import msgspec

from naiad.core.clock import Clock, SystemClock
from naiad.core.record import Record
from naiad.errors import FailureReason
from naiad.metrics import families
from naiad.metrics.histogram import (
    BATCH_SIZE_BOUNDS,
    FIRST_RESPONSE_BOUNDS_MS,
    NO_BUCKETS,
    Buckets,
    Histogram,
    bounds_ns,
)
from naiad.metrics.memory import MemoryUsage
from naiad.metrics.options import MetricsOptions
from naiad.metrics.queue_state import QueueState
from naiad.metrics.summary import Summaries

MICROSECOND = 1_000
MILLISECOND = 1_000_000

_MAX_RESPONSE_INDEX = 999
"""Responses to one request beyond it share the last counters: a model that responds without end must not fill the memory with counters."""


class CloseReason(enum.Enum):
    """Why a batch was closed and sent."""

    FULL = "full"
    PREFERRED = "preferred"
    DELAY = "delay"
    IDLE = "idle_instance"
    SHAPE = "shape_change"
    STRATEGY = "strategy"
    STOP = "shutdown"
    SINGLE = "no_batching"


class RestartReason(enum.Enum):
    """Why a worker process was restarted (`naiad_worker_restarts_total`)."""

    DIED = "died"
    TIMEOUT = "timeout"
    LOAD = "load"


class SequenceEnd(enum.Enum):
    """Why a sequence was ended before its END (`naiad_sequences_ended_total`)."""

    IDLE = "idle"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INSTANCE = "instance_lost"
    UNLOAD = "unload"


class SequenceCounts(Record, frozen=True):
    """The sequences of a model version now, and those that were ended early.

    Attributes:
        open: those that may get further requests.
        waiting: those that wait for a slot.
        slots: of the instances that run.
        used: slots that a sequence has.
    """

    open: int
    waiting: int
    slots: int
    used: int
    ended: collections.abc.Mapping[SequenceEnd, int]


class BatchTiming(Record, frozen=True):
    """How long the parts of one execution took, in nanoseconds."""

    compute_input_ns: int
    compute_infer_ns: int
    compute_output_ns: int

    def parts(self) -> tuple[int, int, int]:
        """Input, infer, output."""
        return self.compute_input_ns, self.compute_infer_ns, self.compute_output_ns


class BatchStatistics(msgspec.Struct, eq=False, gc=False):
    """The counters of one total batch size: executions and their nanoseconds (row 8.5)."""

    count: int = 0
    compute_input_ns: int = 0
    compute_infer_ns: int = 0
    compute_output_ns: int = 0


class ResponseStatistics(msgspec.Struct, eq=False, gc=False):
    """The counters of one response index, with nanoseconds (row 8.6).

    Each response is counted once: as cancelled, as an error, as empty, or as a success. The protocols send it, so that no time is counted as
    `compute_output`.
    """

    cancel_count: int = 0
    cancel_ns: int = 0
    empty_count: int = 0
    empty_ns: int = 0
    fail_count: int = 0
    fail_ns: int = 0
    success_count: int = 0
    success_ns: int = 0

    def record(self, took_ns: int, *, failed: bool, empty: bool, cancelled: bool) -> None:
        """Count one response that took so long to compute."""
        if cancelled:
            self.cancel_count += 1
            self.cancel_ns += took_ns
        elif failed:
            self.fail_count += 1
            self.fail_ns += took_ns
        elif empty:
            self.empty_count += 1
            self.empty_ns += took_ns
        else:
            self.success_count += 1
            self.success_ns += took_ns


class StepTimes(msgspec.Struct, eq=False, gc=False):
    """What the calls of a step took, in nanoseconds; read by the graph of the ensemble.

    Attributes:
        model: whose name it calls.
        count: calls that ended.
        failures: those of them that failed.
        total_ns: from the call to its final response.
        queue_ns, compute_ns: as the model counts them, of those that it executed.
    """

    model: str = ""
    count: int = 0
    failures: int = 0
    total_ns: int = 0
    queue_ns: int = 0
    compute_ns: int = 0


class ModelStatistics:
    """All counters of one model version since it was loaded (row 8.31).

    Args:
        options: what is counted beside the counters.
        buckets: upper bounds of histograms in place of the usual ones, by family, in its unit (row 8.24).
        clock: of the summaries.

    Attributes:
        first_response: milliseconds to the first response of each request (row 8.23), successful or not; None unless it is asked for.
        summaries: quantiles of durations (row 8.25); None unless they are asked for.
        success_count, success_ns: successful requests, and their time from arrival to response.
        fail_ns: the same of failed ones; their number is the sum over `failures`.
        failures: failed requests by reason (row 8.15).
        queue_ns: time successful requests waited (row 8.4: as many as succeeded).
        compute_input_ns, compute_infer_ns, compute_output_ns: summed over successful requests; each request counts
            its whole batch's time.
        inference_count: sum of batch sizes of successful requests.
        execution_count: model executions that succeeded (row 8.11).
        padding_rows: rows that instances added to batches.
        last_inference_ms: time of the last execution, in milliseconds since 1970; 0 before the first one.
        pending: accepted requests that were not given to a backend yet (row 8.19).
        batches: by total batch size (row 8.5).
        responses: by the index of a response among those to its request (row 8.6); for decoupled models and deferred responses.
        load_ns: how long loading took (row 8.20).
        memory: what loading took, by memory (row 8.7); empty before it is measured.
        steps: the times of the steps of an ensemble; empty for any other model.
        sequences: gives the counts of a model with sequences; None for any other model.
        queue: gives what waits and runs now; None for a model without a queue in front of instances.
        worker_restarts: restarted worker processes, by reason; empty for a model without worker processes.
        streams: whether the model is decoupled: may send many responses to a request.
        first_response_time, response_interval: of requests of such a model; a response without outputs, an error and what comes after a cancel do not count.
        has_strategy: whether a batching strategy of its own forms its batches.
        strategy_failures: exceptions of that.
        strategy_slow: how often the median of a hundred calls of it was above a millisecond.
        caches: whether the model uses the response cache.
        cache_hit_count, cache_hit_ns: requests with a response from the cache, which `success_count` includes, and the time of their look-ups.
        cache_miss_count, cache_miss_ns: requests whose response was put into the cache, and the time of look-up and insertion.
    """

    def __init__(
        self,
        options: MetricsOptions = MetricsOptions(),  # noqa: B008 - it is immutable
        *,
        buckets: Buckets = NO_BUCKETS,
        clock: Clock | None = None,
    ) -> None:
        self.success_count = 0
        self.success_ns = 0
        self.fail_ns = 0
        self.failures = dict.fromkeys(FailureReason, 0)
        self.queue_ns = 0
        self.compute_input_ns = 0
        self.compute_infer_ns = 0
        self.compute_output_ns = 0
        self.inference_count = 0
        self.execution_count = 0
        self.padding_rows = 0
        self.last_inference_ms = 0
        self.pending = 0
        self.batches: dict[int, BatchStatistics] = {}
        self.responses: dict[int, ResponseStatistics] = {}
        self.load_ns = 0
        self.memory: tuple[MemoryUsage, ...] = ()
        self.request_time = Histogram(bounds_ns(buckets, families.REQUEST_TIME))
        self.queue_time = Histogram(bounds_ns(buckets, families.QUEUE_TIME))
        self.compute_time = Histogram(bounds_ns(buckets, families.COMPUTE_TIME))
        self.batch_size = Histogram(buckets.get(families.BATCH_SIZE.name, BATCH_SIZE_BOUNDS))
        self.first_response: Histogram | None = None
        if options.histogram_latencies:
            bounds = buckets.get(families.FIRST_RESPONSE.name, FIRST_RESPONSE_BOUNDS_MS)
            self.first_response = Histogram(bounds)
        self.summaries: Summaries | None = None
        if options.summary_latencies:
            quantiles = (quantile for quantile, _ in options.quantiles)
            self.summaries = Summaries(quantiles, clock or SystemClock())
        self.closes = dict.fromkeys(CloseReason, 0)
        self.worker_restarts: dict[RestartReason, int] = {}
        self.steps: list[StepTimes] = []
        self.sequences: collections.abc.Callable[[], SequenceCounts] | None = None
        self.streams = False
        self.first_response_time = Histogram(bounds_ns(buckets, families.FIRST_RESPONSE_TIME))
        self.response_interval = Histogram(bounds_ns(buckets, families.RESPONSE_INTERVAL))
        self.has_strategy = False
        self.strategy_failures = 0
        self.strategy_slow = 0
        self.queue: collections.abc.Callable[[], QueueState] | None = None
        self.caches = False
        self.cache_hit_count = 0
        self.cache_hit_ns = 0
        self.cache_miss_count = 0
        self.cache_miss_ns = 0

    @property
    def fail_count(self) -> int:
        """Failed requests, for any reason."""
        return sum(self.failures.values())

    def record_successes(
        self, *, rows: int, request_ns: list[int], queue_ns: list[int], timing: BatchTiming
    ) -> None:
        """Count the successful requests of one batch: their rows in all, and the time and queue time of each request."""
        count, total_ns, waited_ns = len(request_ns), sum(request_ns), sum(queue_ns)
        self.success_count += count
        self.inference_count += rows
        self.success_ns += total_ns
        self.queue_ns += waited_ns
        self.compute_input_ns += count * timing.compute_input_ns
        self.compute_infer_ns += count * timing.compute_infer_ns
        self.compute_output_ns += count * timing.compute_output_ns
        if count:
            self.request_time.observe_all(request_ns, total_ns)
            self.queue_time.observe_all(queue_ns, waited_ns)
        if self.summaries is not None:
            for duration, waited in zip(request_ns, queue_ns, strict=True):
                self.summaries.requested(duration, waited)
            self.summaries.computed(*timing.parts(), requests=count)

    def record_alone(
        self,
        *,
        rows: int,
        request_ns: int,
        queue_ns: int,
        timing: BatchTiming,
        wall_ms: int,
        padding_rows: int = 0,
    ) -> None:
        """Count a successful request that is an execution by itself: the only one of its batch, or one of an ensemble (row 14.13)."""
        # As `record_execution` and `record_successes`, without the calls.
        self.execution_count += 1
        self.padding_rows += padding_rows
        self.last_inference_ms = wall_ms
        entry = self.batches.get(rows)
        if entry is None:
            entry = self.batches[rows] = BatchStatistics()
        input_ns, infer_ns = timing.compute_input_ns, timing.compute_infer_ns
        output_ns = timing.compute_output_ns
        entry.count += 1
        entry.compute_input_ns += input_ns
        entry.compute_infer_ns += infer_ns
        entry.compute_output_ns += output_ns
        self.success_count += 1
        self.inference_count += rows
        self.success_ns += request_ns
        self.queue_ns += queue_ns
        self.compute_input_ns += input_ns
        self.compute_infer_ns += infer_ns
        self.compute_output_ns += output_ns
        find = bisect.bisect_left
        histogram = self.compute_time
        total_ns = input_ns + infer_ns + output_ns
        histogram.counts[find(histogram.bounds, total_ns)] += 1
        histogram.total += total_ns
        histogram = self.batch_size
        histogram.counts[find(histogram.bounds, rows)] += 1
        histogram.total += rows
        histogram = self.request_time
        histogram.counts[find(histogram.bounds, request_ns)] += 1
        histogram.total += request_ns
        histogram = self.queue_time
        histogram.counts[find(histogram.bounds, queue_ns)] += 1
        histogram.total += queue_ns
        if self.summaries is not None:
            self.summaries.requested(request_ns, queue_ns)
            self.summaries.computed(*timing.parts(), requests=1)

    def record_cache_hit(self, *, request_ns: int, queue_ns: int, lookup_ns: int) -> None:
        """Count a successful request that was not executed: neither as an inference nor in the times of computing (row 8.4)."""
        self.success_count += 1
        self.success_ns += request_ns
        self.queue_ns += queue_ns
        self.cache_hit_count += 1
        self.cache_hit_ns += lookup_ns
        # As `observe`, without the calls: most hits have waited for nothing.
        find = bisect.bisect_left
        histogram = self.request_time
        histogram.counts[find(histogram.bounds, request_ns)] += 1
        histogram.total += request_ns
        histogram = self.queue_time
        histogram.counts[find(histogram.bounds, queue_ns) if queue_ns else 0] += 1
        histogram.total += queue_ns
        if self.first_response is not None:
            self.first_response.observe(request_ns // MILLISECOND)
        if self.summaries is not None:
            self.summaries.requested(request_ns, queue_ns)
            self.summaries.cache_hit.observe(lookup_ns // MICROSECOND)

    def record_first_response(self, took_ns: int) -> None:
        """Count the first response to a request, which was received so long ago, if such times are kept (row 8.23)."""
        if self.first_response is not None:
            self.first_response.observe(took_ns // MILLISECOND)

    def record_first_responses(self, took_ns: list[int]) -> None:
        """As `record_first_response`, for several requests, if such times are kept."""
        kept = self.first_response
        if kept is None or not took_ns:
            return
        if kept.bounds and max(took_ns) < MILLISECOND * min(
            1, kept.bounds[0]
        ):  # only whole ones count
            kept.counts[0] += len(took_ns)
            return
        milliseconds = [each // MILLISECOND for each in took_ns]
        kept.observe_all(milliseconds, sum(milliseconds))

    def record_cache_miss(self, took_ns: int) -> None:
        """Count a request whose response went into the cache; its time is that of the request, too."""
        self.success_ns += took_ns
        self.cache_miss_count += 1
        self.cache_miss_ns += took_ns
        if self.summaries is not None:
            self.summaries.cache_miss.observe(took_ns // MICROSECOND)

    def record_failure(self, *, reason: FailureReason, request_ns: int) -> None:
        """Count a failed request."""
        self.failures[reason] += 1
        self.fail_ns += request_ns
        self.request_time.observe(request_ns)

    def record_execution(
        self, *, batch_size: int, timing: BatchTiming, wall_ms: int, padding_rows: int = 0
    ) -> None:
        """Count a batch that was executed and did not fail as a whole."""
        self.execution_count += 1
        self.padding_rows += padding_rows
        self.last_inference_ms = wall_ms
        entry = self.batches.get(batch_size)
        if entry is None:
            entry = self.batches[batch_size] = BatchStatistics()
        entry.count += 1
        entry.compute_input_ns += timing.compute_input_ns
        entry.compute_infer_ns += timing.compute_infer_ns
        entry.compute_output_ns += timing.compute_output_ns
        # As `observe`, without the calls.
        total_ns = timing.compute_input_ns + timing.compute_infer_ns + timing.compute_output_ns
        self.compute_time.counts[bisect.bisect_left(self.compute_time.bounds, total_ns)] += 1
        self.compute_time.total += total_ns
        self.batch_size.counts[bisect.bisect_left(self.batch_size.bounds, batch_size)] += 1
        self.batch_size.total += batch_size

    def response(self, index: int) -> ResponseStatistics:
        """The counters of a response index; all beyond the first thousand share the last ones."""
        index = min(index, _MAX_RESPONSE_INDEX)
        counters = self.responses.get(index)
        if counters is None:
            counters = self.responses[index] = ResponseStatistics()
        return counters

    def record_restart(self, reason: RestartReason) -> None:
        """Count a restarted worker process."""
        self.worker_restarts[reason] += 1
