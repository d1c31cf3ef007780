"""Which service is reconciled next, when it is retried, and how many are reconciled at once. Pure: keys, times and outcomes go in, the next key or the time to wait comes out.

There are two priorities. New services, edits and failures have high priority; changes of existing children and the resync have
low priority. When a thousand services are created at once, the children of all of them are created before their statuses are
written. When a low-priority key has waited longer than `QueueConfig.starvation_limit`, the two priorities alternate.

The queue guarantees, with the loop in `queue.loop`:

* Of the keys that are heavy (their services are large) few have a worker at once: each takes much memory, and the others do not wait for them.
* A key has at most one worker, and is in the queue once however often it is added.
* A key that is added while it is being reconciled is reconciled once more afterwards.
* A failure doubles the wait of its own key only, up to a limit; an event for the key does not wait for that backoff.
* After a success the key is reconciled again after the resync period, with jitter, so that services do not all come at once.
* `Deleted` removes a key completely.
* An exception in a worker counts as a failure of its key.
"""

import collections.abc
import dataclasses
import heapq
import math
import typing

from typing_extensions import override


class Key(typing.NamedTuple):
    """The namespace and name of one resource."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The reconcile succeeded.

    Attributes:
        requeue_after: reconcile again after this many seconds; None waits for the resync.
    """

    requeue_after: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Deleted:
    """The resource no longer exists: the queue removes its key."""


@dataclasses.dataclass(frozen=True, slots=True)
class Retry:
    """The reconcile failed.

    Attributes:
        after: the minimum wait in seconds that the API server requested; None leaves the wait to the backoff.
    """

    after: float | None = None


Outcome = Result | Deleted | Retry

_HeapEntry = tuple[float, int, Key]
"""The due time, the sequence number and the key."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """The settings of the queue; times are in seconds.

    Attributes:
        workers: how many keys are reconciled at once.
        heavy_workers: how many heavy ones of these.
        backoff: the wait after a first failure; it doubles with each failure.
        max_backoff: the longest wait after a failure.
        starvation_limit: how long a due low-priority key waits behind high-priority ones; after that the two priorities alternate.
        resync_period: the time between two reconciles of a resource without events; each varies by up to a tenth.
    """

    workers: int = 16
    heavy_workers: int = 2
    backoff: float = 0.25
    max_backoff: float = 60.0
    starvation_limit: float = 60.0
    resync_period: float = 600.0


@dataclasses.dataclass(slots=True)
class _Entry:
    """The state of one key.

    Attributes:
        due: when the key runs next; None when no run is planned.
        working: since when a worker has the key; None when no worker has it.
        failures: the number of failures in a row.
        low_priority: whether the planned run has low priority.
    """

    due: float | None = None
    working: float | None = None
    failures: int = 0
    low_priority: bool = False


class Schedule:
    """Decides which key runs when; see the module docstring.

    Args:
        config: the settings of the queue.
        jitter: returns a random number from 0 to 1, which varies the waits.
        is_heavy: whether reconciling a key takes much memory.
    """

    def __init__(
        self,
        config: QueueConfig,
        *,
        jitter: collections.abc.Callable[[], float],
        is_heavy: collections.abc.Callable[[Key], bool] = lambda _: False,
    ) -> None:
        self._is_heavy = is_heavy
        self._heavy: set[Key] = set()
        self._held: list[tuple[bool, _HeapEntry]] = []
        self._config = config
        self._jitter = jitter
        self._items: dict[Key, _Entry] = {}
        self._high: list[_HeapEntry] = []
        self._low: list[_HeapEntry] = []
        self._took_high = False
        self._last_taken = -math.inf
        self._order = 0
        self._working = 0

    def add(self, key: Key, now: float, *, delay: float = 0.0, low_priority: bool = False) -> None:
        """Plans a run of a key in `delay` seconds, unless an earlier one is planned.

        Args:
            key: the resource.
            now: the current time.
            delay: seconds.
            low_priority: plans the run with low priority. A run that is planned with high priority keeps it.
        """
        item = self._items.setdefault(key, _Entry())
        due = now + delay
        # The earlier time is kept: an event replaces the later time of a retry or resync, and a stream of delayed events
        # cannot postpone a key for ever.
        if item.due is None:
            self._plan(key, item, due, low_priority=low_priority)
        elif due < item.due or (item.low_priority and not low_priority):
            self._plan(
                key, item, min(due, item.due), low_priority=low_priority and item.low_priority
            )

    def take(self, now: float) -> Key | None:
        """Assigns the next due key to a worker and returns it; None when no key is due or all workers are busy."""
        if self._working >= self._config.workers:
            return None
        while (entry := self._pop_due(now)) is not None:
            _, _, key = entry
            item = self._items[key]
            if self._is_heavy(key):
                if len(self._heavy) >= self._config.heavy_workers:
                    self._held.append((item.low_priority, entry))
                    continue
                self._heavy.add(key)
            item.due, item.working = None, now
            self._working += 1
            self._last_taken = now
            return key
        return None

    def _pop_due(self, now: float) -> _HeapEntry | None:
        """The next due entry; None when there is none."""
        high, low = self._first_due(self._high), self._first_due(self._low)
        starved = low is not None and low <= now - self._config.starvation_limit
        if high is not None and high <= now and not (starved and self._took_high):
            heap, self._took_high = self._high, True
        elif low is not None and low <= now:
            heap, self._took_high = self._low, False
        else:
            return None
        return heapq.heappop(heap)

    def finish(self, key: Key, outcome: Outcome, now: float) -> None:
        """Records the outcome of a worker and plans the next run of its key."""
        item = self._items[key]
        item.working = None
        self._working -= 1
        if key in self._heavy:
            self._heavy.remove(key)
            held, self._held = self._held, []
            for low_priority, entry in held:
                heapq.heappush(self._low if low_priority else self._high, entry)
        if isinstance(outcome, Deleted):
            if item.due is None:
                del self._items[key]
                return
            item.failures = 0  # a resource of the same name was created meanwhile
        elif isinstance(outcome, Retry):
            wait = min(self._config.max_backoff, self._config.backoff * 2 ** min(item.failures, 16))
            wait = max(wait * (0.75 + 0.5 * self._jitter()), outcome.after or 0.0)
            item.failures += 1
            self._plan_earlier(item, now + wait, low_priority=False)
        else:
            item.failures = 0
            wait = self._config.resync_period * (0.9 + 0.2 * self._jitter())
            self._plan_earlier(
                item, now + min(wait, outcome.requeue_after or wait), low_priority=True
            )
        if item.due is not None:
            self._plan(key, item, item.due, low_priority=item.low_priority)

    def next_due(self) -> float | None:
        """When the next key is due; None when all workers are busy or no run is planned."""
        if self._working >= self._config.workers:
            return None
        dues = [self._first_due(self._high), self._first_due(self._low)]
        return min((due for due in dues if due is not None), default=None)

    def depth(self, now: float) -> int:
        """The number of keys that are due and wait for a worker."""
        return sum(
            1
            for item in self._items.values()
            if item.working is None and item.due is not None and item.due <= now
        )

    def oldest_wait(self, now: float) -> float:
        """How long the longest-waiting due key has waited for a worker, in seconds."""
        waits = (
            now - item.due
            for item in self._items.values()
            if item.working is None and item.due is not None and item.due <= now
        )
        return max(waits, default=0.0)

    def stalled_for(self, now: float) -> float:
        """How long a key has been due without any key getting a worker, in seconds. A long queue that makes progress is not stalled."""
        return min(self.oldest_wait(now), now - self._last_taken)

    def longest_work(self, now: float) -> tuple[Key | None, float]:
        """The key that has been with its worker for the longest time, and for how many seconds."""
        working = ((now - i.working, k) for k, i in self._items.items() if i.working is not None)
        longest, key = max(working, default=(0.0, None))
        return key, longest

    def failing(self) -> int:
        """The number of keys whose last run failed."""
        return len(self.failing_keys())

    def failing_keys(self) -> list[Key]:
        """The keys whose last run failed."""
        return [key for key, item in self._items.items() if item.failures]

    def known(self, key: Key) -> bool:
        """Whether the schedule has an entry for this key."""
        return key in self._items

    def all_keys(self) -> list[Key]:
        """Every key that has an entry."""
        return list(self._items)

    @property
    def working(self) -> int:
        """The number of keys that have a worker."""
        return self._working

    @staticmethod
    def _plan_earlier(item: _Entry, due: float, *, low_priority: bool) -> None:
        """Plans a run, unless an event has already planned an earlier one."""
        if item.due is None:
            item.due, item.low_priority = due, low_priority
        elif due < item.due:
            item.due, item.low_priority = due, low_priority and item.low_priority

    def _plan(self, key: Key, item: _Entry, due: float, *, low_priority: bool) -> None:
        item.due, item.low_priority = due, low_priority
        self._order += 1
        heapq.heappush(self._low if low_priority else self._high, (due, self._order, key))

    def _first_due(self, heap: "list[_HeapEntry]") -> float | None:
        """When the first valid entry of a heap is due. Removes outdated entries: replanned or removed keys, and keys that have a worker."""
        while heap:
            due, _, key = heap[0]
            item = self._items.get(key)
            if (
                item is not None
                and item.due == due
                and item.working is None
                and item.low_priority is (heap is self._low)
            ):
                return due
            heapq.heappop(heap)
        return None
