"""Admits services that replace their pods because of a new operator: a few at a time, and for a limited time none while one does not become ready.

`decide` is pure. `UpgradeScheduler` keeps what the reconciles observed of the Deployments, which is rebuilt after a restart of the operator: none
is admitted until every service has been reconciled once.
"""

import collections
import collections.abc
import dataclasses

from naiad_operator.queue import Key
from naiad_operator.upgrade.turn import ORDINARY, Hold, Turn


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A service that waits for its new template.

    Attributes:
        serves: whether a pod is available. Such a service takes one of the places until its pods are ready again.
        stuck: whether its pods did not become ready in their time, or none serves and none may become ready. Such a service is admitted, and
            is not waited for.
        turn: whether it is held, and its place among the others.
    """

    serves: bool
    stuck: bool
    turn: Turn = ORDINARY


@dataclasses.dataclass(frozen=True, slots=True)
class Upgrading:
    """A service whose pods are being replaced.

    Attributes:
        is_blocked: whether they do not become ready.
        is_overdue: whether that takes longer than others wait for it.
    """

    is_blocked: bool = False
    is_overdue: bool = False


State = Waiting | Upgrading


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """Who may start.

    Attributes:
        starts: the services that are admitted.
        paused_by: the first service that does not become ready, and for which the others wait; None when there is none.
    """

    starts: frozenset[Key] = frozenset()
    paused_by: Key | None = None


def decide(states: collections.abc.Mapping[Key, State], limit: int) -> Decision:
    """The services that may start now: by the place of their namespace, then within it by their own place and name.

    A service without an available pod that may still become ready is passed over: its pods are starting. One that is overdue is
    not waited for, and takes no place.
    """
    awaited = {
        key: state
        for key, state in states.items()
        if isinstance(state, Upgrading) and not state.is_overdue
    }
    blocked = sorted(key for key, state in awaited.items() if state.is_blocked)
    if blocked:
        return Decision(paused_by=blocked[0])
    free = limit - len(awaited)
    waiting = {key: state for key, state in states.items() if isinstance(state, Waiting)}
    starts = set[Key]()
    for key in sorted(waiting, key=lambda one: _place(one, waiting[one])):
        state = waiting[key]
        if free <= 0:
            break
        if state.turn.hold is not Hold.NONE:
            continue
        if state.serves or state.stuck:
            starts.add(key)
            free -= state.serves
    return Decision(frozenset(starts))


def _place(key: Key, state: Waiting) -> tuple[int, str, int, str]:
    """By namespaces first, so that the place that a service has itself moves none of another namespace."""
    return state.turn.rank, key.namespace, state.turn.order, key.name


class UpgradeScheduler:
    """Admits services.

    Args:
        limit: how many services replace their pods at a time.
        time_limit_s: how long others wait for a service that does not become ready. The reconciles say when that is over.
        wake: called with a service that is admitted, or whose condition changes.

    Attributes:
        limit: as in the arguments.
        time_limit_s: as in the arguments.
        is_open: whether every service has been reconciled since the start. Before, none is admitted, and nothing is known of a pause.
    """

    def __init__(
        self,
        *,
        limit: int,
        wake: collections.abc.Callable[[Key], None],
        time_limit_s: float = 1800.0,
    ) -> None:
        self.limit = limit
        self.time_limit_s = time_limit_s
        self._wake = wake
        self._states: dict[Key, State] = {}
        self.is_open = False
        self._decision = Decision()

    @property
    def paused_by(self) -> Key | None:
        """The service because of which no other is admitted."""
        return self._decision.paused_by

    def open(self) -> None:
        """Begins to admit, and wakes the services that wait: what their conditions say was kept until now."""
        if self.is_open:
            return
        self.is_open = True
        self._decision = decide(self._states, self.limit)
        for key in sorted(key for key, state in self._states.items() if isinstance(state, Waiting)):
            self._wake(key)

    def admit(self, key: Key, waiting: Waiting) -> bool:
        """Whether the service may replace its pods, which then counts as begun."""
        if isinstance(self._states.get(key), Upgrading):
            return True
        self.observe(key, waiting)
        if key not in self._decision.starts:
            return False
        if waiting.serves:
            self.observe(key, Upgrading())
        return True

    def observe(self, key: Key, state: State | None) -> None:
        """Takes in the state of a service after a reconcile; None when nothing is left to do."""
        if state == self._states.get(key):
            return
        if state is None:
            del self._states[key]
        else:
            self._states[key] = state
        self._decide()

    def counts(self) -> dict[str, int]:
        """The number of services by state, for the metrics."""
        is_paused = self.paused_by is not None
        counts = collections.Counter(_name_of(state, is_paused) for state in self._states.values())
        return {name: counts[name] for name in ("waiting", "paused", "upgrading", "failed")}

    def blocked(self) -> list[Key]:
        """The services whose new pods do not become ready, or take longer than others wait for them."""
        return sorted(
            key
            for key, state in self._states.items()
            if isinstance(state, Upgrading) and (state.is_blocked or state.is_overdue)
        )

    def _decide(self) -> None:
        if not self.is_open:
            return
        before, self._decision = self._decision, decide(self._states, self.limit)
        wake = set(self._decision.starts - before.starts)
        if self._decision.paused_by != before.paused_by:
            wake |= {key for key, state in self._states.items() if isinstance(state, Waiting)}
        for key in sorted(wake):
            self._wake(key)


def _name_of(state: State, is_paused: bool) -> str:  # noqa: FBT001 - of the whole upgrade
    """The name of a state in the metrics."""
    if isinstance(state, Waiting):
        return "paused" if is_paused or state.turn.hold is not Hold.NONE else "waiting"
    return "failed" if state.is_blocked else "upgrading"
