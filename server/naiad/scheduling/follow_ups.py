"""Whether the only instance of a model waits for the next requests of the clients that it has just answered.

Clients that each send a request, wait for its response and send the next one split into two halves at an instance that begins with what waits: while
it runs the requests of one half, those of the other half wait. Where a batch of all of them takes hardly longer than one of half of them, that
is half of the throughput. To wait for the follow-ups of a batch that came back saves a batch, and with it the part of its duration that does not grow
with its rows; it costs the time until they are there. Both are measured here all the time, unless batches are too short for a wait: the durations of batches by their rows, and when the
follow-ups of each batch arrived, whether they were waited for or not.

Pure: it reads the queue, and knows neither a clock nor an instance. It decides for batches that nothing else holds or closes: models whose config
says when a batch is to wait (a delay, preferred sizes) are left alone.
"""

import itertools

from naiad.core.inference import Inference
from naiad.hosts.host import BatchOutcome
from naiad.scheduling.batching import BatchingPolicy, WaitUntil
from naiad.scheduling.queue import InferenceQueue

_WEIGHT = 1 / 64
"""The weight of the last batch in the averages over durations and rows."""

_WARM_UP = 8
"""Batches before the first that counts: a model's first ones load code and caches."""

_LONGEST = 1.5
"""A batch counts at most this many times as long as expected: a processor that was taken away for a moment tells nothing of the model."""

_FOLLOW_WEIGHT = 1 / 8
"""The weight of the last batch in the average over the arrival of follow-ups."""

_LEAST_SPREAD = 0.1
"""Rows of batches that differ by less than this part of their mean tell little of how durations grow with rows."""

_MOST = 7 / 8
"""The part of the follow-ups whose arrival is measured: some clients have no next request, or are late."""

_WORTH_IT = 2
"""A wait must save this many times what it costs."""

_SHORT_NS = 200_000
"""Batches that take less than this, on average, are never waited for: the next requests take as long to come."""

_SAMPLE_EVERY = 16
"""Of batches that short, only so many are looked at: measuring each would cost a small request a twentieth of its time."""

_TRY_EVERY = 32
"""Batches from one attempt to the next where batches of one size tell nothing of larger ones; an attempt costs at most a quarter of a batch."""


class Durations:
    """The part of a batch's duration in the model that does not grow with its rows, from a line through the last batches.

    Where these were nearly of the same size, a duration is taken to grow with the rows, so that nothing is gained by larger batches.

    Attributes:
        mean_ns: of the last batches; 0 before there are any.
    """

    __slots__ = ("_covariance", "_mean_rows", "_seen", "_variance", "mean_ns")

    def __init__(self) -> None:
        self.mean_ns = 0.0
        self._mean_rows = 0.0
        self._variance = 0.0
        self._covariance = 0.0
        self._seen = -_WARM_UP

    def add(self, rows: int, duration_ns: int) -> None:
        """A batch took so long."""
        self._seen += 1
        if self._seen <= 0:
            return
        if not self._mean_rows:
            self._mean_rows, self.mean_ns = float(rows), float(duration_ns)
            return
        weight = max(_WEIGHT, 1 / self._seen)
        more_rows = rows - self._mean_rows
        expected = self.mean_ns + self._per_row() * more_rows
        longer = min(duration_ns, _LONGEST * expected) - self.mean_ns
        self._mean_rows += weight * more_rows
        self.mean_ns += weight * longer
        self._variance = (1 - weight) * (self._variance + weight * more_rows * more_rows)
        self._covariance = (1 - weight) * (self._covariance + weight * more_rows * longer)

    @property
    def fixed_ns(self) -> float:
        """What one batch less saves, if its rows run in another one."""
        if not self._mean_rows:
            return 0.0
        return max(self.mean_ns - self._per_row() * self._mean_rows, 0.0)

    def _per_row(self) -> float:
        in_proportion = self.mean_ns / self._mean_rows
        doubt = (_LEAST_SPREAD * self._mean_rows) ** 2
        return max((self._covariance + doubt * in_proportion) / (self._variance + doubt), 0.0)


class FollowUps:
    """What the scheduler of one instance has measured, and its decision.

    Args:
        queue: the model's; only read.
        policy: the model's.

    Attributes:
        is_active: whether batches are long enough for a wait; while they are not, only `came_back` is to be called.
        durations: of its batches.
        within_ns: how long after a batch most of the follow-ups have arrived; 0 if that is not known.
    """

    __slots__ = (
        "_answered_ns", "_answered_rows", "_at_the_end", "_expected", "_left", "_max_rows", "_measured", "_queue", "_skipped", "_turn",
        "durations", "is_active", "within_ns",
    )  # fmt: skip

    def __init__(self, queue: InferenceQueue, policy: BatchingPolicy) -> None:
        self._queue = queue
        self._max_rows = policy.max_rows
        self._at_the_end = policy.append_only and not policy.times_out
        self.is_active = True
        self.durations = Durations()
        self.within_ns = 0
        self._skipped = 0
        self._answered_ns = self._answered_rows = self._expected = 0
        self._left = 0
        self._measured = True
        self._turn = 0

    def taken(self, count: int) -> None:
        """The first requests of the queue, which are still there, are about to be taken out as a batch."""
        if not self._measured:
            self._measure()
        self._left -= count

    def came_back(self, outcome: BatchOutcome, now: int) -> None:
        """A batch came back; its responses are sent now."""
        if not self.is_active and not self._is_long_again(outcome):
            return
        if len(outcome.batch) == 1 and not self._queue.size and self._measured:
            # A client alone, for whom nothing waits: measuring would cost it more than all the rest of this.
            self._expected = self._left = 0
            return
        if not self._measured and not self._measure():
            self._arrived_within(now - self._answered_ns)
        rows, execution = sum([each.batch_size for each in outcome.batch]), outcome.execution
        if execution is not None:
            self.durations.add(rows, execution.output_start_ns - execution.input_end_ns)
            if 0 < self.durations.mean_ns < _SHORT_NS:
                self.is_active = False
                self._expected = self._left = 0
                self._measured = True
                return
        self._answered_ns, self._answered_rows = now, rows
        self._expected, self._left = len(outcome.batch), self._queue.size
        self._measured = False
        self._turn = (self._turn + 1) % _TRY_EVERY

    def wait(self, rows: int, now: int) -> WaitUntil | None:
        """How long the instance waits before it begins with all that is queued, of which it could run more; None: not at all.

        Args:
            rows: batch rows of the queue.
            now: monotonic nanoseconds.
        """
        missing = self._expected - (self._queue.size - self._left)
        if missing <= 0 or now >= self._answered_ns + 2 * self.within_ns:
            return None
        missing_rows = -(-missing * self._answered_rows // self._expected)
        if rows + missing_rows > self._max_rows:
            return None  # it would take a second batch anyway
        saved = self.durations.fixed_ns if self._turn else self.durations.mean_ns / 2
        longest = int(saved / _WORTH_IT)
        until = self._answered_ns + min(2 * self.within_ns, longest)
        if self.within_ns > longest or until <= now:
            return None
        deadline = self._queue.next_deadline()
        if 0 < deadline <= until:
            return None
        return WaitUntil(until, rows + missing_rows if self._at_the_end else 0)

    def _is_long_again(self, outcome: BatchOutcome) -> bool:
        """Whether a batch is looked at and is not short, so that all are measured again."""
        self._skipped += 1
        if self._skipped % _SAMPLE_EVERY:
            return False
        execution = outcome.execution
        if execution is None or execution.output_start_ns - execution.input_end_ns < _SHORT_NS:
            return False
        self.durations = Durations()
        self.is_active = True
        return True

    def _measure(self) -> bool:
        """Note when most of the follow-ups arrived; False if they have not."""
        last = self._left + int(self._expected * _MOST + 0.5) - 1
        if not 0 <= last < self._queue.size:
            return False
        inference: Inference = next(itertools.islice(self._queue, last, None))
        self._arrived_within(inference.queued_ns - self._answered_ns)
        return True

    def _arrived_within(self, ns: int) -> None:
        self._measured = True
        before = self.within_ns or ns
        self.within_ns = max(int(before + (ns - before) * _FOLLOW_WEIGHT), 1)
