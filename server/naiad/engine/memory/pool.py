"""Keeps the loaded models within `--model-memory-limit`: a load that would not fit waits until other models are unloaded for it.

`room.py` decides which ones. What a version takes is what its last load took, before the first one the size of its files times 1.2. Every wait ends:
with room, with the reason why there will be none, or with the end of the server. All of it belongs to the event loop.
"""

import asyncio
import collections.abc
import logging

from naiad.core.clock import Clock
from naiad.engine.memory.room import Candidate, Sizes, missing, to_unload, total
from naiad.engine.memory.sizes import Place, expected, file_bytes
from naiad.engine.model import Model
from naiad.errors import InferenceError, unavailable
from naiad.metrics.memory import MemoryUsage
from naiad.repository.lifecycle import State
from naiad.repository.loading.progress import Phase, enter
from naiad.repository.manager import Progress, Repository, VersionState
from naiad.repository.plan import ModelPlan, VersionPlan

log = logging.getLogger("naiad.memory")

UNLOAD_SECONDS = 60.0
"""How long a load waits for models that are unloaded for it and still have requests, if nothing else is in progress."""

_KNOWN = 1_000
"""Versions whose measured sizes are kept."""

_NS_PER_MS = 1_000_000
_BYTES_PER_MB = 1e6

_Key = tuple[str, int]
"""A version: the model's name, and the number."""


class MemoryPool:
    """Wraps the load function of the repository, and implements its `Progress`, whose changes it passes on.

    Args:
        load: loads a version.
        limits: bytes by memory.
        progress: shows changes of state.
        clock: gives the times of loads.
    """

    def __init__(
        self,
        load: collections.abc.Callable[[VersionPlan], collections.abc.Awaitable[Model]],
        *,
        limits: Sizes,
        progress: Progress,
        clock: Clock,
    ) -> None:
        self._load = load
        self._limits = limits
        self._progress = progress
        self._clock = clock
        self._repository: Repository[Model] | None = None
        self._loading: dict[_Key, Sizes] = {}
        """Loads that have room, until they are READY or have failed."""
        self._waiting: dict[asyncio.Future[None], str] = {}
        self._loaded_ms: dict[str, int] = {}
        self._known: dict[_Key, tuple[int, Sizes]] = {}
        """Bytes of the files, and what the last load took."""

    def open(self, repository: Repository[Model]) -> None:
        """Take the repository whose models are unloaded; before the first load."""
        self._repository = repository
        repository.evictions.watch(self._wake)

    async def load(self, plan: VersionPlan) -> Model:
        """Load a version once there is room for it.

        Raises:
            InferenceError: UNAVAILABLE: there is none; or it cannot be loaded.
        """
        key = plan.config.name, plan.version
        size = await asyncio.to_thread(file_bytes, plan)
        known_size, known = self._known.get(key, (-1, {}))
        await self._admit(key, known if known_size == size else expected(plan.config, size))
        try:
            model = await self._load(plan)
        except BaseException:
            del self._loading[key]
            self._wake()
            raise
        self._known.pop(key, None)
        self._known[key] = size, _sizes(model.memory)
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]
        return model

    def planned(self, plans: collections.abc.Sequence[ModelPlan]) -> None:
        """See `Progress`."""
        self._progress.planned(plans)

    def changed(self, state: VersionState) -> None:
        """See `Progress`."""
        self._progress.changed(state)
        if state.version is not None and state.state is State.READY:
            self._loading.pop((state.name, state.version), None)
            self._loaded_ms[state.name] = self._clock.wall_ns() // _NS_PER_MS
            self._keep_limits(state)
        self._wake()

    async def _admit(self, key: _Key, needed: Sizes) -> None:
        """Wait until a load fits, and count it from then on."""
        name, _ = key
        evictions = self._opened.evictions
        is_new, unloading_until = True, 0.0
        loop = asyncio.get_running_loop()
        while missing(needed, used=self._used(), limits=self._limits):
            names = self._evict(needed)
            waiting = {name, *self._waiting.values()}
            if evictions.may_change(waiting):
                unloading_until = 0.0
            elif not evictions.is_unloading():
                raise self._no_room(name, needed)
            elif not unloading_until:
                unloading_until = loop.time() + UNLOAD_SECONDS
            woken = loop.create_future()
            self._waiting[woken] = name
            if is_new:
                log.info("loading %s waits for memory%s", name, _of(names))
                enter(Phase.WAITING)
            is_new = False
            try:
                timeout = unloading_until - loop.time() if unloading_until else None
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
            self._opened.evictions.evict(name)
            self._loaded_ms.pop(name, None)
        return names or []

    def _remember(self, name: str) -> None:
        """What a model takes may be better known now than when its load ended."""
        for served_name, version, model in self._opened.served():
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
        for name, _, model in self._opened.served():
            served.setdefault(name, []).append(model)
        return [
            Candidate(
                name=name,
                sizes=total(_sizes(model.memory) for model in served[name]),
                in_use=any(model.inflight() for model in served[name]),
                last_use_ms=max(
                    self._loaded_ms.get(name, 0),
                    *(model.statistics.last_inference_ms for model in served[name]),
                ),
            )
            for name in self._opened.evictions.candidates()
        ]

    def _used(self, *, with_unloading: bool = True) -> Sizes:
        repository = self._opened
        models = [model for _, _, model in repository.served()]
        if with_unloading:
            models += repository.unloading()
        return total([*(_sizes(model.memory) for model in models), *self._loading.values()])

    @property
    def _opened(self) -> Repository[Model]:
        assert self._repository is not None, "opened before the first load"
        return self._repository

    def _wake(self) -> None:
        """Let every load that waits look again."""
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)

    def _no_room(self, name: str, needed: Sizes) -> InferenceError:
        over = missing(needed, used=self._used(), limits=self._limits)
        held = ", ".join(sorted({name for name, _, _ in self._opened.served()})) or "none"
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
