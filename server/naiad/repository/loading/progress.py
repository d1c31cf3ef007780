"""Every load as data: its phase, its bytes and its times, per model and version (`GET /v2/repository/progress`).

`LoadTable` stands between the repository and the `LoadListener` that shows changes of state: it records them, and passes them on. All of it
belongs to the event loop, except that a checkout reports its bytes from a thread, and a terminal reads `snapshot` from one.
"""

import collections
import collections.abc
import contextvars
import enum

import msgspec

from naiad.core.clock import Clock
from naiad.repository.lifecycle import State
from naiad.repository.plan import ModelPlan
from naiad.repository.version import UNLOADED_REASONS, LoadListener, VersionState

KEPT_RESULTS = 1_000
"""Loads that have ended, the last ones; a server may load ever new names."""

_NS_PER_SECOND = 1e9


class Phase(enum.Enum):
    """What a load does now, or how it ended; in this order, but for reloads that skip phases."""

    WAITING = "waiting"
    """For one of the loads that run at the same time to end, or for memory."""

    FETCHING = "fetching"
    AGENTS = "agents"
    READING_CONFIG = "reading_config"
    LOADING = "loading"
    WARMING = "warming"
    """Its instances run the samples of `model_warmup`."""

    LOADED = "loaded"
    FAILED = "failed"


_ENDED = frozenset((Phase.LOADED, Phase.FAILED))
_PHASES = {
    State.LOADING: Phase.LOADING,
    State.READY: Phase.LOADED,
    State.UNAVAILABLE: Phase.FAILED,
}


class LoadProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One load at one moment.

    Attributes:
        name: the model.
        version: None until its config is read.
        phase: the current one.
        bytes_done: of the files that are fetched.
        bytes_total: 0 while it is not known, and for a model that is not fetched.
        elapsed_seconds: since the load began, until it ended.
        reason: why it failed; "" otherwise.
        warmups_begun: iterations of warmup samples that its instances have begun.
        warmups_total: of so many; 0 for a model without any, and before they begin.
    """

    name: str
    version: int | None
    phase: Phase
    bytes_done: int
    bytes_total: int
    elapsed_seconds: float
    reason: str
    warmups_begun: int = 0
    warmups_total: int = 0

    @property
    def warming(self) -> str:
        """`warming 3/10`: the third iteration of a warmup sample runs, of ten; "" in another phase."""
        if self.phase is not Phase.WARMING:
            return ""
        return f"{self.phase.value} {self.warmups_begun}/{self.warmups_total}"

    @property
    def is_over(self) -> bool:
        """Whether the load has ended."""
        return self.phase in _ENDED


class Load:
    """A load in progress, or its result. The repository enters its phases.

    Args:
        name: the model.
        version: None until its config is read.
        started_ns: monotonic.
    """

    __slots__ = (
        "_bytes", "_warmups", "ended_ns", "name", "phase", "reason", "started_ns", "version",
    )  # fmt: skip

    def __init__(self, name: str, version: int | None, *, started_ns: int) -> None:
        self.name = name
        self.version = version
        self.phase = Phase.WAITING
        self.reason = ""
        self.started_ns = started_ns
        self.ended_ns = 0
        self._bytes = (0, 0)
        self._warmups = (0, 0)

    def begin_warmup(self, total: int) -> None:
        """Its instances are being made, and run so many iterations of warmup samples."""
        self._warmups = (0, total)

    def on_warming(self) -> None:
        """One more iteration begins. From any thread, one at a time."""
        done, total = self._warmups
        self._warmups = (done + 1, total)
        self.phase = Phase.WARMING

    def on_bytes(self, done: int, total: int) -> None:
        """So many bytes are fetched, of so many (0: not known). From any thread."""
        self._bytes = (done, total)

    def of_version(self, version: int) -> "Load":
        """The load of a version, once the config is read: it began with the model's."""
        load = Load(self.name, version, started_ns=self.started_ns)
        load._bytes = self._bytes
        return load

    def snapshot(self, now_ns: int) -> LoadProgress:
        """Its progress. From any thread."""
        done, total = self._bytes
        warmed, warmups = self._warmups
        return LoadProgress(
            name=self.name,
            version=self.version,
            phase=self.phase,
            bytes_done=done,
            bytes_total=total,
            warmups_begun=warmed,
            warmups_total=warmups,
            elapsed_seconds=((self.ended_ns or now_ns) - self.started_ns) / _NS_PER_SECOND,
            reason=self.reason,
        )


_CURRENT = contextvars.ContextVar[Load]("current load")


def enter(phase: Phase) -> None:
    """The load in whose task this is called enters a phase; without one nothing happens."""
    load = _CURRENT.get(None)
    if load is not None:
        load.phase = phase


def warmup(total: int) -> collections.abc.Callable[[], None]:
    """The load in whose task this is called is about to run so many iterations of warmup samples: call the result as each one begins."""
    load = _CURRENT.get(None)
    if load is None:
        return _no_load
    load.begin_warmup(total)
    return load.on_warming


def _no_load() -> None:
    """Nothing shows it."""


class LoadTable:
    """Implements `LoadListener`: records the loads and passes every change on.

    Args:
        progress: shows them.
        clock: measures how long they take.
    """

    def __init__(self, progress: LoadListener, *, clock: Clock) -> None:
        self._progress = progress
        self._now = clock.monotonic_ns
        self._running: dict[tuple[str, int | None], Load] = {}
        self._ended = collections.OrderedDict[tuple[str, int | None], Load]()

    def snapshot(self) -> list[LoadProgress]:
        """The loads in progress, then the last result of each version, by name and version. From any thread."""
        now = self._now()
        loads = [*tuple(self._running.values()), *tuple(self._ended.values())]
        loads.sort(key=lambda load: (load.phase in _ENDED, load.name, load.version or 0))
        return [load.snapshot(now) for load in loads]

    def begin(self, name: str) -> Load:
        """The current task is about to fetch a model and read its config: see `enter`."""
        load = Load(name, None, started_ns=self._now())
        self._running[name, None] = load
        _CURRENT.set(load)
        return load

    def starting(self, models: collections.abc.Collection[str]) -> None:
        """See `LoadListener`."""
        self._progress.starting(models)

    def planned(self, plan: ModelPlan) -> None:
        """See `LoadListener`."""
        self._progress.planned(plan)

    def begin_versions(self, name: str, versions: collections.abc.Iterable[int]) -> None:
        """A model's config is read; these versions are loaded next."""
        model = self._running.pop((name, None), None)
        if model is None:
            return
        self._ended.pop((name, None), None)
        for version in versions:
            self._running[name, version] = model.of_version(version)

    def changed(self, state: VersionState) -> None:
        """See `LoadListener`."""
        # The version that a reload replaces may be unloaded during the next reload.
        phase = _PHASES.get(state.state)
        if phase is Phase.FAILED and state.reason in UNLOADED_REASONS:
            phase = None
        key = (state.name, state.version)
        if phase is Phase.LOADING and key in self._ended:
            self._running.setdefault(key, self._ended.pop(key))  # a retry
        load = self._running.get(key)
        if load is not None and phase is not None:
            load.phase, load.reason, load.ended_ns = phase, state.reason, 0
            _CURRENT.set(load)
            if phase in _ENDED:
                self._end(key, load)
        self._progress.changed(state)

    def _end(self, key: tuple[str, int | None], load: Load) -> None:
        del self._running[key]
        load.ended_ns = self._now()
        self._ended[key] = load
        self._ended.move_to_end(key)
        if len(self._ended) > KEPT_RESULTS:
            self._ended.popitem(last=False)
