"""One version of a model: its state, and the snapshot of it that others get."""

import collections.abc
import dataclasses
import typing

import msgspec

from naiad.metrics.memory import MemoryUsage
from naiad.repository.lifecycle import Event, State, after
from naiad.repository.plan import ModelPlan, VersionPlan
from naiad.repository.reading.reader import LocalCopy

UNLOADED = "unloaded"

EVICTED = "evicted"
"""The reason of a version that makes or made room for another model, until it is loaded again."""

REMOVED = "removed from the model repository"
"""The reason of a version of a model that no repository has any more. The index does not show it."""

UNLOADED_REASONS = frozenset((UNLOADED, EVICTED))
"""The reasons of versions that are not READY on purpose: the server is ready without them."""


class Update(typing.Protocol):
    """A change of a served version that is prepared."""

    def commit(self) -> str:
        """Apply it, in one step; returns what changed, in words for the log, "" for nothing."""
        ...

    async def discard(self) -> None:
        """Drop it; nothing changes."""
        ...


class Served(typing.Protocol):
    """A loaded version, as far as the repository uses it.

    Attributes:
        leaves_cycles: whether its objects form reference cycles after `stop`, which only the garbage collector frees.
    """

    leaves_cycles: bool

    @property
    def memory(self) -> tuple[MemoryUsage, ...]:
        """What loading it took, as far as that is known now."""
        ...

    async def prepare(self, plan: VersionPlan) -> Update:
        """Prepare what a config asks for that needs no reload (row 7.24).

        Raises:
            InferenceError: it cannot be done; nothing changes.
        """
        ...

    async def stop(self) -> None:
        """Finish the requests in flight and release every resource. Idempotent."""
        ...


S = typing.TypeVar("S", bound=Served)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Version(typing.Generic[S]):
    """A version and its state.

    Attributes:
        plan: what to load.
        copy: the local folder that it is loaded from; it has a use of it while it is LOADING, READY or UNLOADING.
        served: set exactly while it is READY.
        replaces: whether it is loaded beside versions that serve.
        was_evicted: whether the one of the same number before it made room for other models.
    """

    plan: VersionPlan
    copy: LocalCopy
    state: State = State.UNKNOWN
    reason: str = ""
    served: S | None = None
    load_ns: int = 0
    resident: tuple[int, int] | None = None
    gpu_memory: collections.abc.Mapping[int, tuple[int, int]] = dataclasses.field(
        default_factory=dict
    )
    replaces: bool = False
    was_evicted: bool = False

    def apply(self, event: Event, *, reason: str = "") -> None:
        """Enter the state that follows `event`."""
        self.state = after(self.state, event)
        self.reason = reason

    def _shown_reason(self) -> str:
        if self.state is State.LOADING and self.was_evicted:
            return EVICTED
        if self.state is State.READY and not self.reason:
            return self.plan.remark
        return self.reason

    def snapshot(self) -> "VersionState":
        """Its state as a caller sees it."""
        return VersionState(
            name=self.plan.config.name,
            version=self.plan.version,
            state=self.state,
            reason=self._shown_reason(),
            load_ns=self.load_ns,
            resident=self.resident,
            gpu_memory=self.gpu_memory,
            replaces=self.replaces,
            memory=() if self.served is None else self.served.memory,
        )


class VersionState(msgspec.Struct, frozen=True, kw_only=True):
    """A version's state as a caller sees it. `version` is None for a model whose config cannot be used.

    Attributes:
        resident: the process's resident memory in bytes before and after the version was unloaded; None before that.
        gpu_memory: the same of each GPU that its instances were on, by its number.
        replaces: whether it is, or was to be, loaded beside versions that serve, which go on serving if it fails.
        memory: what loading it took; empty if it is not READY.
        updated: what just changed without a load, in words; "" if nothing did.
    """

    name: str
    version: int | None
    state: State
    reason: str
    load_ns: int = 0
    details: str = ""
    resident: tuple[int, int] | None = None
    gpu_memory: collections.abc.Mapping[int, tuple[int, int]] = {}
    replaces: bool = False
    memory: tuple[MemoryUsage, ...] = ()
    updated: str = ""


def failed_plan_state(plan: ModelPlan, *, replaces: bool = False) -> VersionState:
    """The state of a model whose config cannot be used."""
    return VersionState(
        name=plan.name,
        version=None,
        state=State.UNAVAILABLE,
        reason=plan.reason,
        details=plan.details,
        replaces=replaces,
    )


class LoadListener(typing.Protocol):
    """Shows the progress of loads and unloads; one line per model on a terminal."""

    def starting(self, models: collections.abc.Collection[str]) -> None:
        """The server starts with these models."""
        ...

    def planned(self, plan: ModelPlan) -> None:
        """The config of a model is read; it is loaded next."""
        ...

    def changed(self, state: VersionState) -> None:
        """A version entered a state."""
        ...
