"""One version of a model: where it is in its life, and how that is told to others."""

import collections.abc
import dataclasses
import typing

import msgspec

from naiad.repository.lifecycle import Event, State, after
from naiad.repository.plan import ModelPlan, VersionPlan

UNLOADED = "unloaded"


class Served(typing.Protocol):
    """What the repository asks of a loaded version.

    Attributes:
        leaves_cycles: whether only the garbage collector frees what is left of it after `stop`.
    """

    leaves_cycles: bool

    async def stop(self) -> None:
        """Finish what is in flight, give everything back. Idempotent."""
        ...


S = typing.TypeVar("S", bound=Served)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Version(typing.Generic[S]):
    """A version and where it is in its life. `served` is set exactly while it is READY; `replaces`: it is loaded beside what serves."""

    plan: VersionPlan
    state: State = State.UNKNOWN
    reason: str = ""
    served: S | None = None
    load_ns: int = 0
    resident: tuple[int, int] | None = None
    replaces: bool = False

    def tell(self, event: Event, *, reason: str = "") -> None:
        """Move on to the state that follows `event`, for this reason."""
        self.state = after(self.state, event)
        self.reason = reason

    def told(self) -> "VersionState":
        """Its state as a caller sees it."""
        return VersionState(
            name=self.plan.config.name,
            version=self.plan.version,
            state=self.state,
            reason=self.reason,
            load_ns=self.load_ns,
            resident=self.resident,
            replaces=self.replaces,
        )


class VersionState(msgspec.Struct, frozen=True, kw_only=True):
    """A version's state as a caller sees it. `version` is None for a model that could not even be planned.

    Attributes:
        resident: the process's resident memory in bytes before and after the version was unloaded; None before that.
        replaces: whether it is, or was to be, loaded beside versions that serve, which go on serving if it fails.
    """

    name: str
    version: int | None
    state: State
    reason: str
    load_ns: int = 0
    details: str = ""
    resident: tuple[int, int] | None = None
    replaces: bool = False


def refusal(plan: ModelPlan, *, replaces: bool = False) -> VersionState:
    """The state of a model that could not be planned."""
    return VersionState(
        name=plan.name,
        version=None,
        state=State.UNAVAILABLE,
        reason=plan.reason,
        details=plan.details,
        replaces=replaces,
    )


class Progress(typing.Protocol):
    """Is told of every step of loading; one line a model on a terminal."""

    def planned(self, plans: collections.abc.Sequence[ModelPlan]) -> None:
        """All configs are read; this is what will be loaded."""
        ...

    def changed(self, state: VersionState) -> None:
        """A version entered a state."""
        ...
