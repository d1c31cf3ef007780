"""The instances that a worker process makes: those of its start, and further ones while it serves.

Each load ends once: when the process says that it has made the instance, or why not; or when the server finds that it will not.
"""

import asyncio
import collections.abc

from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.core.record import Record
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.host import Limit, WorkerInstance
from naiad.hosts.link import codec, kinds
from naiad.hosts.process import worker_life
from naiad.hosts.process.output_log import Identity
from naiad.hosts.process.spawn import order
from naiad.hosts.process.watchdogs import Watchdog
from naiad.hosts.process.worker_process import WorkerProcess
from naiad.hosts.warmup import Warmup

_LOST_S = 0.3


class Loaded(Record, frozen=True):
    """What a worker says of a model that it has loaded.

    Attributes:
        threads: the system's ids of the threads that it started for further instances.
        prefetches: see `Instance`; of all its instances.
        gathers_inputs: see `Instance`; of any of its instances.
        warmup: the batches of warmup samples that were executed: the numbers of each `WarmupBatch`.
    """

    threads: list[int]
    prefetches: bool
    gathers_inputs: bool
    warmup: list[list[int]]


class Loading:
    """A load in progress; only its first end counts. All methods are called on the event loop.

    Args:
        loop: the event loop.

    Attributes:
        ended: done when the worker said so, or the server found that it will not load.
    """

    __slots__ = ("ended",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ended: asyncio.Future[Loaded] = loop.create_future()

    def take(self, kind: int, header: bytes | bytearray) -> bool:
        """A message of the worker came; returns whether it was this load's end.

        Raises:
            Exception: it is an invalid message.
        """
        if self.ended.done() or kind not in (kinds.LOADED, kinds.REFUSED):
            return False
        if kind == kinds.LOADED:
            loaded = codec.read_json(header)
            threads = list(map(int, loaded.get("threads", ())))
            warmup = [_six(numbers) for numbers in loaded.get("warmup", ())]
            self.ended.set_result(
                Loaded(
                    threads,
                    loaded.get("prefetches") is True,
                    loaded.get("gathers_inputs") is not False,
                    warmup,
                )
            )
        else:
            code, message = codec.read_json(header)
            self.ended.set_exception(InferenceError(ErrorCode[code], message))
        return True

    def fail(self, error: InferenceError) -> None:
        """It will not load."""
        if not self.ended.done():
            self.ended.set_exception(error)


def _six(numbers: collections.abc.Iterable[object]) -> list[int]:
    rows, begun, input_end, output_start, ended, times = (int(str(number)) for number in numbers)
    return [rows, begun, input_end, output_start, ended, times]


class InstanceLoads:
    """The loads of one process and of those that take its place. All methods are called on the event loop.

    Args:
        identity: of the process, for the log.
        limit: how long a load may take.
        warmup: what each instance runs first; None for nothing.
        loop: the event loop.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        limit: Limit,
        warmup: Warmup | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._identity = identity
        self._limit = limit
        self._warmup = warmup
        self._loop = loop
        self._watchdog = Watchdog(identity, loop=loop)
        self._first = Loading(loop)
        self._further: dict[int, Loading] = {}

    @property
    def places(self) -> collections.abc.Collection[int]:
        """Those of the further instances that are being made."""
        return self._further

    async def first(
        self,
        worker: WorkerProcess,
        plan: WorkerPlan,
        specs: collections.abc.Mapping[int, InstanceSpec],
    ) -> Loaded:
        """Have a new process make its first instances.

        Args:
            worker: it has a link for each of them.
            plan: with these instances.
            specs: of each place.

        Raises:
            InferenceError: it cannot, or what `fail` was called with.
        """
        self._first = Loading(self._loop)
        places = tuple(specs)
        try:
            worker.instances.send(
                places[0], kinds.LOAD, order(plan, places, warms_up=bool(self._warmup))
            )
            for place, spec in specs.items():
                self._send_warmup(worker, place, spec)
            if self._limit.seconds:
                self._watchdog.watch(worker, "its load", self._limit, _ignore)
            return await self._first.ended
        except (OSError, MemoryError) as error:  # for a message
            raise worker_life.not_started(self._identity, error) from error
        finally:
            self._watchdog.cancel()

    async def further(
        self,
        worker: WorkerProcess,
        identity: Identity,
        place: int,
        spec: InstanceSpec,
        instance: WorkerInstance,
    ) -> Loaded:
        """Have a process that serves make another instance; one that is not wanted any more is closed once it is made.

        Args:
            worker: the process.
            identity: of it, for messages.
            place: where no instance is.
            spec: of the instance.
            instance: called with what comes on its link.

        Raises:
            InferenceError: it cannot, not in time, or the process ended meanwhile.
        """
        loading = self._further[place] = Loading(self._loop)
        fields = {"place": place, "instance": spec.to_map(), "warms_up": bool(self._warmup)}
        try:
            worker.instances.add(place, instance, codec.to_json(fields).encode())
            self._send_warmup(worker, place, spec)
            limit = self._limit
            await asyncio.wait({loading.ended}, timeout=limit.seconds or None)
            if not loading.ended.done():
                raise worker_life.not_added_in_time(identity, spec.name, limit)  # noqa: TRY301 - as one that failed
            return loading.ended.result()
        except (OSError, MemoryError) as error:
            worker.instances.ask_to_close(place)  # it may be there, and wait for its samples
            raise worker_life.not_started(identity, error) from error
        except BaseException:
            worker.instances.ask_to_close(place)  # once it is made
            raise
        finally:
            del self._further[place]

    def take(self, worker: WorkerProcess, place: int, kind: int, header: bytes | bytearray) -> bool:
        """A message of the instance at a place came; returns whether it was the end of its load.

        Raises:
            Exception: it is an invalid message.
        """
        if not self._further.get(place, self._first).take(kind, header):
            return False
        if kind == kinds.REFUSED and place in self._further:
            worker.instances.drop(place)
        return True

    def lost(self, worker: WorkerProcess, place: int, kind: int, error: InferenceError) -> None:
        """A message of the instance at a place came without its content: if the instance was being made, its load fails."""
        if kind == kinds.REFUSED and place in self._further:
            # Not at once: the link goes on to read.
            self._loop.call_soon(worker.instances.drop, place)
        self._further.get(place, self._first).fail(error)

    def unreachable(self, identity: Identity, place: int) -> bool:
        """The link of an instance is closed; returns whether it was being made beside others: its load fails soon, unless the process ends meanwhile."""
        loading = self._further.get(place)
        if loading is not None:
            # If the process ends, that is the reason.
            self._loop.call_later(_LOST_S, loading.fail, worker_life.not_reached(identity))
        return loading is not None

    def fail(self, error: InferenceError) -> None:
        """The first instances will not be made."""
        self._first.fail(error)

    def fail_further(self, error: InferenceError) -> None:
        """No further instance will be made: the process has ended."""
        for loading in self._further.values():
            loading.fail(error)

    def on_warming(self) -> None:
        """An instance that loads begins one more iteration of a warmup sample."""
        if self._warmup:
            self._warmup.advance()

    def count_warmup(self, loaded: Loaded) -> None:
        """These instances serve: what they ran first counts."""
        if self._warmup:
            self._warmup.ran(loaded.warmup)

    def _send_warmup(self, worker: WorkerProcess, place: int, spec: InstanceSpec) -> None:
        if self._warmup and not spec.passive:
            worker.instances.send(place, kinds.WARM_UP, *self._warmup.message())


def _ignore(what: object) -> None:
    """A load that exceeds its limit fails when the process has ended."""
