"""Admits services that replace their pods because of a new operator: a few at a time, and none while one does not become ready.

`decide` is pure. `UpgradeScheduler` keeps what the reconciles observed of the Deployments, which is rebuilt after a restart of the operator: none
is admitted until every service has been reconciled once.
"""

import collections
import collections.abc
import dataclasses

from naiad_operator.queue import Key


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A service that waits for its new template.

    Attributes:
        serves: whether a pod is available. Such a service takes one of the places until its pods are ready again.
        stuck: whether its pods did not become ready in their time, or none serves and none may become ready. Such a service is admitted, and
            is not waited for.
    """

    serves: bool
    stuck: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Upgrading:
    """A service whose pods are being replaced; `is_blocked` when they do not become ready."""

    is_blocked: bool = False


State = Waiting | Upgrading


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """Who may start.

    Attributes:
        starts: the services that are admitted.
        paused_by: the first service that does not become ready; None when there is none.
    """

    starts: frozenset[Key] = frozenset()
    paused_by: Key | None = None


def decide(states: collections.abc.Mapping[Key, State], limit: int) -> Decision:
    """The services that may start now, in the order of their names.

    A service without an available pod that may still become ready is passed over: its pods are starting.
    """
    upgrading = {key: state for key, state in states.items() if isinstance(state, Upgrading)}
    blocked = sorted(key for key, state in upgrading.items() if state.is_blocked)
    if blocked:
        return Decision(paused_by=blocked[0])
    free = limit - len(upgrading)
    starts = set[Key]()
    for key in sorted(states.keys() - upgrading.keys()):
        state = states[key]
        assert isinstance(state, Waiting)
        if free <= 0:
            break
        if state.serves or state.stuck:
            starts.add(key)
            free -= state.serves
    return Decision(frozenset(starts))


class UpgradeScheduler:
    """Admits services.

    Args:
        limit: how many services replace their pods at a time.
        wake: called with a service that is admitted, or whose condition changes.

    Attributes:
        limit: as in the arguments.
        is_open: whether every service has been reconciled since the start. Before, none is admitted, and nothing is known of a pause.
    """

    def __init__(self, *, limit: int, wake: collections.abc.Callable[[Key], None]) -> None:
        self.limit = limit
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
        counts = collections.Counter(
            "waiting"
            if isinstance(state, Waiting)
            else "failed"
            if state.is_blocked
            else "upgrading"
            for state in self._states.values()
        )
        if self.paused_by is not None:
            counts["paused"] = counts.pop("waiting", 0)
        return {name: counts[name] for name in ("waiting", "paused", "upgrading", "failed")}

    def _decide(self) -> None:
        if not self.is_open:
            return
        before, self._decision = self._decision, decide(self._states, self.limit)
        wake = set(self._decision.starts - before.starts)
        if self._decision.paused_by != before.paused_by:
            wake |= {key for key, state in self._states.items() if isinstance(state, Waiting)}
        for key in sorted(wake):
            self._wake(key)
