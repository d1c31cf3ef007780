"""What /healthz and /readyz say. Unhealthy means that a restart would help; not ready, that services are not reconciled yet.

A kind that cannot be watched makes neither fail unless every service needs it: the text names it.
"""

import collections.abc
import dataclasses

from naiad_operator.queue import Key, Queue
from naiad_operator.reconcile.stores.profile_store import ProfileStore
from naiad_operator.runtime.leadership import Leadership
from naiad_operator.runtime.tasks import Tasks
from naiad_operator.runtime.watches import Watches

_STUCK_WAITING_S = 120.0
_STUCK_WORKING_S = 180.0


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The response of a probe.

    Attributes:
        ok: whether the probe succeeds.
        text: why not, or "ok" and what else there is to know.
    """

    ok: bool
    text: str


class Health:
    """The health of the operator's parts.

    Args:
        watches: the watches.
        profiles: the NaiadProfiles.
        queue: the work queue.
        tasks: the tasks that must not end.
        leadership: whether this process writes.
        is_stopping: whether the process is ending.

    Attributes:
        synced: whether the first lists are complete.
        initial_keys: the services that existed at the start and were not reconciled since.
    """

    def __init__(
        self,
        *,
        watches: Watches,
        profiles: ProfileStore,
        queue: Queue,
        tasks: Tasks,
        leadership: Leadership,
        is_stopping: collections.abc.Callable[[], bool],
    ) -> None:
        self._watches = watches
        self._profiles = profiles
        self._queue = queue
        self._tasks = tasks
        self._leadership = leadership
        self._is_stopping = is_stopping
        self.synced = False
        self.initial_keys: set[Key] = set()

    def liveness(self) -> Report:
        """Whether this process works, or should be restarted."""
        problem = self._liveness_problem()
        return Report(ok=False, text=problem) if problem else self._fine()

    def readiness(self) -> Report:
        """Whether every service has been reconciled once since the start."""
        problem = self._readiness_problem()
        return Report(ok=False, text=problem) if problem else self._fine()

    def _fine(self) -> Report:
        notes = [problem.message for problem in self._watches.all_problems()]
        if self._profiles.unreadable:
            notes.append(f"NaiadProfiles cannot be read: {self._profiles.unreadable}")
        return Report(ok=True, text="\n".join(("ok", *notes)))

    def _liveness_problem(self) -> str:
        if self._is_stopping():
            return ""
        ended = self._tasks.ended()
        if ended:
            return f"the task {ended!r} has ended"
        if not self._leadership.leads:
            return ""  # waiting for the Lease is healthy
        if not self.synced:
            return ""  # waiting for the API server: a restart would not help
        return self._queue.stall_reason(waiting=_STUCK_WAITING_S, working=_STUCK_WORKING_S)

    def _readiness_problem(self) -> str:
        blocking = self._watches.blocking() or self._profiles.blocking()
        if blocking:
            return blocking
        if not self._leadership.leads:
            return ""
        pending = sum(1 for key in self.initial_keys if self._queue.schedule.known(key))
        return f"{pending} services have not been reconciled since the start" if pending else ""
