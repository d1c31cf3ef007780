"""The keyed queue: which resource is reconciled next, how soon again, and how many at once.

`Schedule` decides and is plain: keys, times and outcomes in, the next key or the time to wait for out. `Queue` is the loop
around it: it starts one task a key that is due and tells the schedule how it ended.

Two lanes: what a person or a failure asks for, and, behind it, news of what was made already and the resync. When a thousand services come at
once all of them are made before their statuses are written; what waits there for longer than `Pace.patience` takes turns with the first.

What holds: a key has at most one worker, and is in the queue once however often it is added; a key that is added while it is
worked on runs once more afterwards; a failure doubles the wait of its own key only, up to a bound, and an event for it does
not wait for that; a success comes round again after the resync period, spread so that a thousand services do not come
together; a key leaves by `forget`, and nothing of it stays. A worker that dies of a bug counts as a failure of its key.
"""

import asyncio
import collections.abc
import contextlib
import dataclasses
import heapq
import logging
import math
import random
import typing

from typing_extensions import override

_log = logging.getLogger(__name__)


class Key(typing.NamedTuple):
    """One resource."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """It went well.

    Attributes:
        again: look again after so many seconds; None leaves it to the resync.
    """

    again: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Forget:
    """The resource is gone: nothing is to be remembered of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Retry:
    """It did not work out.

    Attributes:
        after: at least so many seconds, as the API server asked; None leaves it to the backoff.
    """

    after: float | None = None


Outcome = Done | Forget | Retry

_Planned = tuple[float, int, Key]
"""When, in which order of asking, which."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast things go, in seconds.

    Attributes:
        workers: keys worked on at once.
        backoff: the wait after a first failure; it doubles with each.
        backoff_most: the longest wait.
        patience: how long keys of the second lane that are due let all of the first pass; after that the lanes take turns.
        resync: between looks at a resource when nothing happens; each waits up to a tenth more or less.
    """

    workers: int = 16
    backoff: float = 0.25
    backoff_most: float = 60.0
    patience: float = 60.0
    resync: float = 600.0


@dataclasses.dataclass(slots=True)
class _Item:
    """What is known of a key.

    Attributes:
        due: when it runs next; None while nothing is planned.
        working: since when a worker has it.
        failures: in a row.
        behind: whether it is planned in the second lane.
    """

    due: float | None = None
    working: float | None = None
    failures: int = 0
    behind: bool = False


class Schedule:
    """Decides; see the module's docstring.

    Args:
        pace: see there.
        spread: gives a number from 0 to 1, by which waits differ from each other.
    """

    def __init__(self, pace: Pace, *, spread: collections.abc.Callable[[], float]) -> None:
        self._pace = pace
        self._spread = spread
        self._items: dict[Key, _Item] = {}
        self._first: list[_Planned] = []
        self._second: list[_Planned] = []
        self._passed = False
        self._taken = -math.inf
        self._order = 0
        self._working = 0

    def add(self, key: Key, now: float, *, delay: float = 0.0, behind: bool = False) -> None:
        """Something happened to a key: it is due in `delay` seconds, unless it is due earlier anyway.

        Args:
            key: which.
            now: the time.
            delay: seconds.
            behind: in the second lane. A key that has a place in the first keeps it.
        """
        item = self._items.setdefault(key, _Item())
        due = now + delay
        # A retry's or a resync's later time gives way; an event's own delay is kept, so that a stream of events cannot push
        # a key away for ever.
        if item.due is None:
            self._plan(key, item, due, behind=behind)
        elif due < item.due or (item.behind and not behind):
            self._plan(key, item, min(due, item.due), behind=behind and item.behind)

    def take(self, now: float) -> Key | None:
        """The key to work on now, which then counts as worked on; None if none is due or all workers are busy."""
        if self._working >= self._pace.workers:
            return None
        first, second = self._due_of(self._first), self._due_of(self._second)
        late = second is not None and second <= now - self._pace.patience
        if first is not None and first <= now and not (late and self._passed):
            lane, self._passed = self._first, True
        elif second is not None and second <= now:
            lane, self._passed = self._second, False
        else:
            return None
        _, _, key = heapq.heappop(lane)
        item = self._items[key]
        item.due, item.working = None, now
        self._working += 1
        self._taken = now
        return key

    def finish(self, key: Key, outcome: Outcome, now: float) -> None:
        """A worker has ended; plans when the key comes next."""
        item = self._items[key]
        item.working = None
        self._working -= 1
        if isinstance(outcome, Forget):
            if item.due is None:
                del self._items[key]
                return
            item.failures = 0  # made again under the same name meanwhile
        elif isinstance(outcome, Retry):
            wait = min(self._pace.backoff_most, self._pace.backoff * 2 ** min(item.failures, 16))
            wait = max(wait * (0.75 + 0.5 * self._spread()), outcome.after or 0.0)
            item.failures += 1
            self._sooner(item, now + wait, behind=False)
        else:
            item.failures = 0
            wait = self._pace.resync * (0.9 + 0.2 * self._spread())
            self._sooner(item, now + min(wait, outcome.again or wait), behind=True)
        if item.due is not None:
            self._plan(key, item, item.due, behind=item.behind)

    def next_due(self) -> float | None:
        """When `take` will have something, as far as is known; None while workers are all busy or nothing is planned."""
        if self._working >= self._pace.workers:
            return None
        dues = [self._due_of(self._first), self._due_of(self._second)]
        return min((due for due in dues if due is not None), default=None)

    def depth(self, now: float) -> int:
        """Keys that are due and wait for a worker."""
        return sum(
            1
            for item in self._items.values()
            if item.working is None and item.due is not None and item.due <= now
        )

    def oldest_wait(self, now: float) -> float:
        """How long the longest waiting of them has been due."""
        waits = (
            now - item.due
            for item in self._items.values()
            if item.working is None and item.due is not None and item.due <= now
        )
        return max(waits, default=0.0)

    def standstill(self, now: float) -> float:
        """How long a key has been due while no key at all got a worker: many that wait are no trouble as long as it goes on."""
        return min(self.oldest_wait(now), now - self._taken)

    def longest_work(self, now: float) -> tuple[Key | None, float]:
        """The key that has had its worker for longest, and for how long."""
        working = ((now - i.working, k) for k, i in self._items.items() if i.working is not None)
        longest, key = max(working, default=(0.0, None))
        return key, longest

    def failing(self) -> int:
        """Keys whose last try failed."""
        return sum(1 for item in self._items.values() if item.failures)

    def known(self, key: Key) -> bool:
        """Whether anything is remembered of a key."""
        return key in self._items

    def everyone(self) -> list[Key]:
        """Every key that has not been forgotten."""
        return list(self._items)

    @property
    def working(self) -> int:
        """Keys that have a worker."""
        return self._working

    @staticmethod
    def _sooner(item: _Item, due: float, *, behind: bool) -> None:
        """Plans, unless an event that came meanwhile asks for an earlier time."""
        if item.due is None:
            item.due, item.behind = due, behind
        elif due < item.due:
            item.due, item.behind = due, behind and item.behind

    def _plan(self, key: Key, item: _Item, due: float, *, behind: bool) -> None:
        item.due, item.behind = due, behind
        self._order += 1
        heapq.heappush(self._second if behind else self._first, (due, self._order, key))

    def _due_of(self, lane: "list[_Planned]") -> float | None:
        """When the first key of a lane is due; drops what was planned otherwise since, forgotten, or is worked on and will be planned again."""
        while lane:
            due, _, key = lane[0]
            item = self._items.get(key)
            if (
                item is not None
                and item.due == due
                and item.working is None
                and item.behind is (lane is self._second)
            ):
                return due
            heapq.heappop(lane)
        return None


Work = collections.abc.Callable[[Key], collections.abc.Awaitable[Outcome]]


class Queue:
    """Runs work for keys as a `Schedule` says.

    Args:
        work: reconciles a key. An exception is logged and counts as `Retry`.
        pace: see there.
    """

    def __init__(self, work: Work, pace: Pace) -> None:
        self._work = work
        self.schedule = Schedule(pace, spread=random.random)
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def add(self, key: Key, *, delay: float = 0.0, behind: bool = False) -> None:
        """Asks for a key to be worked on; see `Schedule.add`."""
        self.schedule.add(key, self._now(), delay=delay, behind=behind)
        self._wake.set()

    async def run(self) -> None:
        """Works until it is cancelled or drained."""
        while not self._stopping:
            self._wake.clear()
            now = self._now()
            while (key := self._next(now)) is not None:
                task = asyncio.create_task(self._one(key), name=f"reconcile {key}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            due = self.schedule.next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._wake.wait()

    async def drain(self, seconds: float) -> int:
        """Takes no more keys, and waits for the ones being worked on.

        Returns:
            How many had to be cancelled because they did not end in time.
        """
        self._stopping = True
        self._wake.set()
        if not self._tasks:
            return 0
        _, late = await asyncio.wait(set(self._tasks), timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)

    def stuck(self, *, waiting: float, working: float) -> str:
        """Why the queue does not move, in words; "" while it does.

        Args:
            waiting: seconds after which, while keys are due, some key should have got a worker.
            working: seconds after which a worker should have ended.
        """
        now = self._now()
        key, worked = self.schedule.longest_work(now)
        if worked > working:
            return f"{key} has been worked on for {worked:.0f} s"
        waited = self.schedule.standstill(now)
        if waited > waiting:
            return f"a resource waits for a worker, and for {waited:.0f} s nobody got one"
        return ""

    def _next(self, now: float) -> Key | None:
        return None if self._stopping else self.schedule.take(now)

    async def _one(self, key: Key) -> None:
        outcome: Outcome = Retry()
        try:
            outcome = await self._work(key)
        except Exception:  # noqa: BLE001 - a bug in one service's reconcile must not stop the others
            _log.exception("reconciling %s ended in a bug of the operator's", key)
        finally:
            self.schedule.finish(key, outcome, self._now())
            self._wake.set()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
