"""When a service is reconciled next, by what a reconcile has found and written. Pure."""

import collections.abc
import datetime as dt

from naiad_operator.api.parsing.service import InferenceService, Manifest
from naiad_operator.queue import Outcome, Result, Retry
from naiad_operator.status import Observed
from naiad_operator.status.canary import next_change, without_node
from naiad_operator.status.conditions import PROGRESSING, reason_of
from naiad_operator.upgrade.turn import remaining

CREATED_S = 1.0
"""The wait after children were created; their own first events usually cause an earlier reconcile."""

LARGE_S = 0.01
"""The wait after a service has turned out to be large: the queue reconciles only few of those at once."""

_CONFLICT_S = 30.0
"""The wait after a conflict: the object that is in the way may be deleted without an event that the operator receives."""

_TERMINATING_S = 5.0
"""The wait while a child is being deleted; its last event causes an earlier reconcile, unless it has lost the operator's labels."""

_KEPT_S = 5.0
"""The wait while a child is kept for a route; the route's new status usually causes an earlier reconcile."""

_ROUNDING_S = 1.0
"""Times in statuses are whole seconds."""


def outcome(
    service: InferenceService,
    observed: Observed,
    status: Manifest,
    *,
    kept: bool,
    now: dt.datetime,
    next_look: collections.abc.Callable[[str], float],
) -> Outcome:
    """When the service is reconciled next, after its status was written.

    Args:
        service: the service.
        observed: what the status was made from.
        status: its status.
        kept: whether a child is kept for a route.
        now: the time.
        next_look: seconds until an autoscaler's Events of a pod without a node are read again.
    """
    if observed.errors:
        return Retry()
    if observed.terminating:
        return Result(requeue_after=_TERMINATING_S)
    if observed.conflicts:
        return Result(requeue_after=_CONFLICT_S)
    change = next_change(service, observed, now)
    delays = [max((change - now).total_seconds(), 0) + _ROUNDING_S] if change else []
    upgrade = observed.upgrade
    if upgrade is not None and upgrade.is_awaited_by_others:
        # Then other services no longer wait for this one.
        delays.append(remaining(upgrade.since, now, upgrade.time_limit_s) + _ROUNDING_S)
    if kept:
        delays.append(_KEPT_S)
    if reason_of(status, PROGRESSING) == "WaitingForNode":
        # An autoscaler of nodes writes Events, which are not watched.
        delays += [next_look(pod) for pod in without_node(observed.pods)]
    return Result(requeue_after=min(delays)) if delays else Result()


def was_complete(service: InferenceService) -> bool:
    """Whether the current spec was applied before without a conflict or a refusal."""
    if not service.is_observed:
        return False
    reasons = {condition.get("reason") for condition in service.status.get("conditions") or ()}
    return not reasons & {
        "ResourceConflict",
        "ApplyFailed",
        "BeingDeleted",
        "InvalidSpec",
        "ProfileNotFound",
        "OperatorError",
        "WatchFailed",
    }
