"""The loop around a `Schedule`: it starts one task per key that is due and reports the outcome to the schedule."""

import asyncio
import collections.abc
import contextlib
import logging
import random

from naiad_operator.queue.schedule import Key, Outcome, QueueConfig, Retry, Schedule

_log = logging.getLogger(__name__)

Work = collections.abc.Callable[[Key], collections.abc.Awaitable[Outcome]]


class Queue:
    """Runs `work` for keys in the order of a `Schedule`.

    Args:
        work: reconciles a key. An exception is logged and counts as `Retry`.
        config: the settings of the queue.
        is_heavy: see `Schedule`.
    """

    def __init__(
        self,
        work: Work,
        config: QueueConfig,
        *,
        is_heavy: collections.abc.Callable[[Key], bool] = lambda _: False,
    ) -> None:
        self._work = work
        self.schedule = Schedule(config, jitter=random.random, is_heavy=is_heavy)
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def add(self, key: Key, *, delay: float = 0.0, low_priority: bool = False) -> None:
        """Plans a run of a key; see `Schedule.add`."""
        self.schedule.add(key, self._now(), delay=delay, low_priority=low_priority)
        self._wake.set()

    async def run(self) -> None:
        """Runs the queue until it is cancelled or drained."""
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
        """Takes no more keys, and waits for the running workers.

        Returns:
            How many workers were cancelled because they did not end in time.
        """
        self._stopping = True
        self._wake.set()
        if not self._tasks:
            return 0
        _, unfinished = await asyncio.wait(set(self._tasks), timeout=seconds)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        return len(unfinished)

    def stall_reason(self, *, waiting: float, working: float) -> str:
        """Why the queue makes no progress, as a message; "" while it does.

        Args:
            waiting: the longest time, in seconds, for which keys may be due without any key getting a worker.
            working: the longest time, in seconds, that a worker may take.
        """
        now = self._now()
        key, worked = self.schedule.longest_work(now)
        if worked > working:
            return f"{key} has been worked on for {worked:.0f} s"
        waited = self.schedule.stalled_for(now)
        if waited > waiting:
            return f"resources wait for a worker, and no worker was free for {waited:.0f} s"
        return ""

    def _next(self, now: float) -> Key | None:
        return None if self._stopping else self.schedule.take(now)

    async def _one(self, key: Key) -> None:
        outcome: Outcome = Retry()
        try:
            outcome = await self._work(key)
        except Exception:  # noqa: BLE001 - a bug in one service's reconcile must not stop the others
            _log.exception("reconciling %s failed because of a bug in the operator", key)
        finally:
            self.schedule.finish(key, outcome, self._now())
            self._wake.set()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
