"""Versions on their way out: nobody finds them any more, they finish what they have, and give back what they held (rows 7.9, 7.10).

Each goes in a task of its own, so that whoever unloads need not wait for requests in flight. All state belongs to the event loop; what
blocks (looking at memory, giving it back) runs in threads. It does not know who serves in their place: that is the repository's matter.
"""

import asyncio
import collections.abc
import logging
import typing

from naiad.repository.lifecycle import Event
from naiad.repository.memory import Memory
from naiad.repository.version import UNLOADED, Progress, S, Version

log = logging.getLogger("naiad.repository")


class Departures(typing.Generic[S]):
    """The versions that leave.

    Args:
        progress: told of every step.
        memory: for what each frees; None where nobody asks.
    """

    def __init__(self, *, progress: Progress, memory: Memory | None) -> None:
        self._progress = progress
        self._memory = memory
        self._under_way: dict[asyncio.Task[None], S | None] = {}

    def retire(self, versions: collections.abc.Iterable[Version[S]]) -> set[asyncio.Task[None]]:
        """Take READY versions out of service: they are UNLOADING at once, and unloaded when their task is done.

        Returns:
            The task of each, which never fails.
        """
        tasks = set[asyncio.Task[None]]()
        for version in versions:
            served = version.served
            assert served is not None, "only READY versions are unloaded"
            version.tell(Event.UNLOAD)
            version.served = None
            self._progress.changed(version.told())
            task = asyncio.get_running_loop().create_task(self._see_off(version, served))
            self._under_way[task] = served
            task.add_done_callback(self._gone)
            tasks.add(task)
        return tasks

    def leaving(self) -> list[S]:
        """Those that still finish what they have."""
        return [served for served in self._under_way.values() if served is not None]

    def skip_memory(self) -> None:
        """The process ends: what those that leave from now on free is nobody's concern."""
        self._memory = None

    async def all_gone(self) -> None:
        """Wait until nobody leaves any more."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)

    async def _see_off(self, version: Version[S], served: S) -> None:
        memory = self._memory
        before = 0
        if memory is not None:
            before = await asyncio.to_thread(memory.resident)
            memory.expect()
        try:
            await served.stop()
        except Exception:
            plan = version.plan
            log.exception("unloading %s version %d failed", plan.config.name, plan.version)
        leaves_cycles = served.leaves_cycles
        # Or its memory would still be held while it is given back.
        del served
        task = asyncio.current_task()
        assert task is not None, "runs in a task"
        self._under_way[task] = None
        if memory is not None:
            await asyncio.to_thread(memory.give_back, collect=leaves_cycles)
            version.resident = (before, await asyncio.to_thread(memory.resident))
        version.tell(Event.UNLOADED, reason=UNLOADED)
        self._progress.changed(version.told())
