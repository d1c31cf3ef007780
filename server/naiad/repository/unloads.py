"""Unloads versions: they take no new request, finish those in flight, and release what they hold (rows 7.9, 7.10).

Each version is unloaded in a task of its own, so that the caller need not wait for requests in flight. All state belongs to the event loop;
blocking calls (measuring and releasing memory) run in threads. The repository decides which version serves instead.
"""

import asyncio
import collections.abc
import functools
import logging
import typing

from naiad.repository.agents.actions import AgentEvent
from naiad.repository.lifecycle import Event
from naiad.repository.model_table import ModelTable
from naiad.repository.plan import VersionPlan
from naiad.repository.version import EVICTED, UNLOADED, LoadListener, S, Version

log = logging.getLogger("naiad.repository")


class Memory(typing.Protocol):
    """The memory of the server and its workers, to report what an unload frees. Every method may block."""

    def resident(self) -> int:
        """Resident memory in bytes."""
        ...

    def expect(self) -> None:
        """Announce that much memory is about to be freed; `give_back` follows."""
        ...

    def give_back(self, *, collect: bool) -> None:
        """Return unused memory to the system; `collect`: run the garbage collector before."""
        ...


GpuMemory = collections.abc.Callable[[int], int]
_InUse = tuple[int, dict[int, int]]


class Unloads(typing.Generic[S]):
    """The versions that are being unloaded.

    Args:
        table: of all models; keeps only the state of a version that is unloaded.
        progress: gets every change of state.
        memory: to report what each unload frees; None if not needed.
        gpu_memory: gives the bytes of a GPU that are in use; blocking. None where that is not known.
    """

    def __init__(
        self,
        *,
        table: ModelTable[S],
        progress: LoadListener,
        memory: Memory | None,
        gpu_memory: GpuMemory | None = None,
    ) -> None:
        self._table = table
        self._progress = progress
        self._memory = memory
        self._gpu_memory = gpu_memory
        self._tasks: dict[asyncio.Task[None], S | None] = {}

    def start(
        self, versions: collections.abc.Iterable[Version[S]], *, reason: str = UNLOADED
    ) -> set[asyncio.Task[None]]:
        """Begin to unload READY versions. They are UNLOADING at once, and UNAVAILABLE for this reason when their task is done.

        Returns:
            The task of each version, which never fails.
        """
        tasks = set[asyncio.Task[None]]()
        for version in versions:
            served = version.served
            assert served is not None, "only READY versions are unloaded"
            version.apply(Event.UNLOAD, reason=EVICTED if reason == EVICTED else "")
            version.served = None
            self._progress.changed(version.snapshot())
            task = asyncio.get_running_loop().create_task(self._unload(version, served, reason))
            self._tasks[task] = served
            task.add_done_callback(functools.partial(self._done, version))
            tasks.add(task)
        return tasks

    @property
    def in_progress(self) -> bool:
        """Whether any is in progress, the release of its memory included."""
        return bool(self._tasks)

    def unloading(self) -> list[S]:
        """The versions that finish their requests in flight."""
        return [served for served in self._tasks.values() if served is not None]

    def skip_memory(self) -> None:
        """Report no freed memory from now on: the process ends."""
        self._memory = None

    async def join(self) -> None:
        """Wait until every unload is done."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, version: Version[S], task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._table.drop_unloaded(version)

    async def _unload(self, version: Version[S], served: S, reason: str) -> None:
        memory = self._memory
        before: _InUse = 0, {}
        if memory is not None:
            before = await asyncio.to_thread(self._in_use, memory, version.plan)
            memory.expect()
        try:
            await version.copy.notify(AgentEvent.UNLOAD)
            await served.stop()
        except Exception:
            plan = version.plan
            log.exception("unloading %s version %d failed", plan.config.name, plan.version)
        version.copy.release()
        leaves_cycles = served.leaves_cycles
        # A reference would keep its memory while `give_back` runs.
        del served
        task = asyncio.current_task()
        assert task is not None, "runs in a task"
        self._tasks[task] = None
        if memory is not None:
            await asyncio.to_thread(memory.give_back, collect=leaves_cycles)
            after = await asyncio.to_thread(self._in_use, memory, version.plan)
            version.resident = before[0], after[0]
            version.gpu_memory = {
                gpu: (size, after[1].get(gpu, 0)) for gpu, size in before[1].items()
            }
        version.apply(Event.UNLOADED, reason=reason)
        self._progress.changed(version.snapshot())

    def _in_use(self, memory: Memory, plan: VersionPlan) -> _InUse:
        """Resident memory, and the memory of the GPUs that a version's instances are on; blocking."""
        of_gpu = self._gpu_memory
        if of_gpu is None:
            return memory.resident(), {}
        gpus = sorted({gpu for group in plan.config.instance_groups for gpu in group.gpus})
        return memory.resident(), {gpu: size for gpu in gpus if (size := of_gpu(gpu))}
