"""Keeps the loaded models within `--model-memory-limit`: a load that would not fit waits until other models are unloaded for it.

`room.py` decides which ones. What a version takes is what its last load took, before the first one the size of its files times 1.2. Every wait ends:
with room, with the reason why there will be none, or with the end of the server. All of it belongs to the event loop.
"""

import asyncio
import collections.abc
import functools
import logging
import weakref

from naiad.core.clock import Clock
from naiad.engine.instances.factory import InThread
from naiad.engine.memory.room import Candidate, Sizes, missing, to_unload, total
from naiad.engine.memory.sizes import Place, expected, file_bytes
from naiad.engine.model import Model
from naiad.errors import InferenceError, unavailable
from naiad.metrics.memory import MemoryUsage
from naiad.repository.lifecycle import State
from naiad.repository.loading.progress import Phase, enter
from naiad.repository.loading.slots import LoadSlots
from naiad.repository.manager import LoadListener, Repository, VersionState
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.requests.namespaces import qualified

log = logging.getLogger("naiad.memory")

UNLOAD_SECONDS = 60.0
"""How long a load waits for models that are unloaded for it and still have requests, if nothing else is in progress."""

_KNOWN = 1_000
"""Versions whose measured sizes are kept."""

_NS_PER_MS = 1_000_000
_BYTES_PER_MB = 1e6

_Key = tuple[str, int]
"""A version: the model's name with its namespace, and the number."""

Load = collections.abc.Callable[[VersionPlan], collections.abc.Awaitable[Model]]


class MemoryPool:
    """Wraps the load functions of the repositories, and implements their `LoadListener`, whose changes it passes on.

    Args:
        limits: bytes by memory.
        progress: shows changes of state.
        slots: of the loads; one that waits for memory releases its own.
        clock: gives the times of loads.
        in_thread: runs what may block, such as reads of a mount that hangs.
    """

    def __init__(
        self,
        *,
        limits: Sizes,
        progress: LoadListener,
        slots: LoadSlots,
        clock: Clock,
        in_thread: InThread,
    ) -> None:
        self._slots = slots
        self._limits = limits
        self._progress = progress
        self._clock = clock
        self._in_thread = in_thread
        self._repositories: dict[str, Repository[Model]] = {}
        """By what precedes their models' names."""
        self._loading: dict[_Key, Sizes] = {}
        """Loads that have room, until they are READY or have failed."""
        self._waiting: dict[asyncio.Future[None], str] = {}
        self._loaded_ms = weakref.WeakKeyDictionary[Model, int]()
        """When each version was loaded (Unix time), for as long as there is one."""
        self._known: dict[_Key, tuple[int, Sizes]] = {}
        """Bytes of the files, and what the last load took."""

    def open(self, repository: Repository[Model], *, namespace: str = "") -> None:
        """Take a repository whose models are unloaded; before the first load."""
        self._repositories[qualified(namespace, "")] = repository
        repository.evictions.watch(self._wake)

    def waits(self, load: Load, *, namespace: str = "") -> Load:
        """A load function of a repository that loads a version once there is room for it.

        It raises an UNAVAILABLE error if there will be none.
        """
        return functools.partial(self._load, load, namespace)

    async def _load(self, load: Load, namespace: str, plan: VersionPlan) -> Model:
        key = qualified(namespace, plan.config.name), plan.version
        size = await self._in_thread(file_bytes, plan)
        known_size, known = self._known.get(key, (-1, {}))
        needed = known if known_size == size else expected(plan.config, size)
        await self._admit(key, needed, plan.config.name)
        try:
            model = await load(plan)
        except BaseException:
            del self._loading[key]
            self._wake()
            raise
        self._known.pop(key, None)
        self._known[key] = size, _sizes(model.memory)
        self._loaded_ms[model] = self._clock.wall_ns() // _NS_PER_MS
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return model

    def starting(self, models: collections.abc.Collection[str]) -> None:
        """See `LoadListener`."""
        self._progress.starting(models)

    def planned(self, plan: ModelPlan) -> None:
        """See `LoadListener`."""
        self._progress.planned(plan)

    def changed(self, state: VersionState) -> None:
        """See `LoadListener`."""
        self._progress.changed(state)
        if state.version is not None and state.state is State.READY:
            self._loading.pop((state.name, state.version), None)
            self._keep_limits(state)
        self._wake()

    async def _admit(self, key: _Key, needed: Sizes, lock: str) -> None:
        """Wait until a load fits, and count it from then on.

        Args:
            key: what is loaded.
            needed: by the load.
            lock: the name by which operations on the model exclude each other.
        """
        name, _ = key
        evictions = [repository.evictions for repository in self._repositories.values()]
        is_new, unloading_until = True, 0.0
        loop = asyncio.get_running_loop()
        while missing(needed, used=self._used(), limits=self._limits):
            names = self._evict(needed)
            waiting = {lock, *self._waiting.values()}
            if any(one.may_change(waiting) for one in evictions):
                unloading_until = 0.0
            elif not any(one.is_unloading() for one in evictions):
                raise self._no_room(name, needed)
            elif not unloading_until:
                unloading_until = loop.time() + UNLOAD_SECONDS
            woken = loop.create_future()
            self._waiting[woken] = lock
            if is_new:
                log.info("loading %s waits for memory%s", name, _of(names))
                enter(Phase.WAITING)
            is_new = False
            try:
                timeout = unloading_until - loop.time() if unloading_until else None
                async with self._slots.released():
                    await asyncio.wait({woken}, timeout=timeout)
            finally:
                del self._waiting[woken]
            if not woken.done():
                raise self._no_room(name, needed)
        self._loading[key] = needed
        enter(Phase.LOADING)

    def _evict(self, needed: Sizes) -> list[str]:
        """Unload models until a load fits, once what is being unloaded now is gone; none if that is not enough."""
        names = to_unload(
            needed,
            used=self._used(with_unloading=False),
            limits=self._limits,
            candidates=self._candidates(),
        )
        for name in names or ():
            self._remember(name)
            repository, own_name = self._holders()[name]
            repository.evictions.evict(own_name)
        return names or []

    def _holders(self) -> dict[str, tuple[Repository[Model], str]]:
        """The repositories of the models that may be unloaded, and the names without namespaces."""
        return {
            prefix + name: (repository, name)
            for prefix, repository in self._repositories.items()
            for name in repository.evictions.candidates()
        }

    def _served(self) -> list[tuple[str, int, Model]]:
        return [
            (prefix + name, version, model)
            for prefix, repository in self._repositories.items()
            for name, version, model in repository.served()
        ]

    def _remember(self, name: str) -> None:
        """What a model takes may be better known now than when its load ended."""
        for served_name, version, model in self._served():
            known = self._known.get((served_name, version))
            if served_name == name and known is not None:
                self._known[name, version] = known[0], _sizes(model.memory)

    def _keep_limits(self, state: VersionState) -> None:
        """A load took more than was expected: unload others."""
        over = missing({}, used=self._used(with_unloading=False), limits=self._limits)
        if not over:
            return
        names = self._evict({})
        if not names:
            log.warning(
                "%s is loaded and memory is over --model-memory-limit by %s; no other model may be unloaded: raise the limit",
                state.name,
                _in_words(over),
            )

    def _candidates(self) -> list[Candidate]:
        served: dict[str, list[Model]] = {}
        for name, _, model in self._served():
            served.setdefault(name, []).append(model)
        return [
            Candidate(
                name=name,
                sizes=total(_sizes(model.memory) for model in served[name]),
                in_use=any(model.inflight() for model in served[name]),
                last_use_ms=max(
                    max(self._loaded_ms.get(model, 0), model.statistics.last_inference_ms)
                    for model in served[name]
                ),
            )
            for name in self._holders()
        ]

    def _used(self, *, with_unloading: bool = True) -> Sizes:
        models = [model for _, _, model in self._served()]
        if with_unloading:
            for repository in self._repositories.values():
                models += repository.unloading()
        return total([*(_sizes(model.memory) for model in models), *self._loading.values()])

    def _wake(self) -> None:
        """Let every load that waits look again."""
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)

    def _no_room(self, name: str, needed: Sizes) -> InferenceError:
        over = missing(needed, used=self._used(), limits=self._limits)
        held = ", ".join(sorted({name for name, _, _ in self._served()})) or "none"
        return unavailable(
            f"not enough memory within --model-memory-limit: model '{name}' needs {_in_words(needed)}, {_in_words(over)} more than is free, and no "
            f"other loaded model may be unloaded for it now (loaded: {held}): unload one, or raise the limit"
        )


def _sizes(memory: collections.abc.Iterable[MemoryUsage]) -> Sizes:
    return {(usage.type, usage.id): usage.byte_size for usage in memory}


def _in_words(sizes: Sizes) -> str:
    return " and ".join(
        f"{size / _BYTES_PER_MB:.1f} MB{_place(place)}" for place, size in sizes.items()
    )


def _place(place: Place) -> str:
    kind, number = place
    return "" if kind == "CPU" else f" of GPU {number}"


def _of(names: collections.abc.Collection[str]) -> str:
    return f" of {', '.join(names)}" if names else ""
