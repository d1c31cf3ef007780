"""The life of a worker process and of those that replace it as a table: (state, event) -> (state, actions); and the errors that clients get when a worker ends.

The table is pure and is the only place that says which state follows; `supervisor.py` carries the actions out. docs/hosts.md draws it.
"""

import enum

from naiad.errors import FailureReason, InferenceError, internal, unavailable
from naiad.hosts.host import Limit
from naiad.hosts.link.link import SegmentLostError
from naiad.hosts.link.segments import SHORTAGES
from naiad.hosts.process.output_log import Identity


class State(enum.Enum):
    """The states of a host and its worker."""

    DOWN = "down"
    LOADING = "loading"
    SERVING = "serving"
    DYING = "dying"
    STUCK = "stuck"
    DRAINING = "draining"
    ENDING = "ending"
    KILLING = "killing"
    CLOSED = "closed"


class Event(enum.Enum):
    """The events in the life of a host and its worker."""

    START = "a process starts"
    LOADED = "it has loaded its model"
    LOAD_FAILED = "its load failed, or is not wanted any more"
    LATE = "it exceeds a time limit"
    ENDS = "it ends by itself"
    EXITED = "it has exited"
    CLOSE = "the host is closed"
    IDLE = "it has no batch"


class Action(enum.Enum):
    """What the host does."""

    SERVE = "note when it began to serve"
    STOP_BATCHES = "give it no more batches"
    FAIL_LOAD = "fail its load"
    FAIL_REQUESTS = "fail its requests"
    COUNT_DEATH = "count a death"
    COUNT_TIMEOUT = "count a timeout"
    RESTART = "restart it"
    KILL = "kill it"


_S, _E, _A = State, Event, Action

TRANSITIONS: dict[tuple[State, Event], tuple[State, tuple[Action, ...]]] = {
    (_S.DOWN, _E.START): (_S.LOADING, ()),
    (_S.LOADING, _E.LOADED): (_S.SERVING, (_A.SERVE,)),
    (_S.LOADING, _E.LOAD_FAILED): (_S.DOWN, (_A.KILL,)),
    (_S.LOADING, _E.EXITED): (_S.DOWN, (_A.FAIL_LOAD,)),
    (_S.SERVING, _E.LATE): (_S.STUCK, (_A.STOP_BATCHES, _A.FAIL_REQUESTS)),
    (_S.SERVING, _E.ENDS): (_S.DYING, (_A.STOP_BATCHES,)),
    (_S.SERVING, _E.EXITED): (
        _S.DOWN,
        (_A.COUNT_DEATH, _A.RESTART, _A.STOP_BATCHES, _A.FAIL_REQUESTS),
    ),
    (_S.DYING, _E.LATE): (_S.STUCK, (_A.FAIL_REQUESTS,)),
    (_S.DYING, _E.EXITED): (_S.DOWN, (_A.COUNT_DEATH, _A.RESTART, _A.FAIL_REQUESTS)),
    (_S.DYING, _E.CLOSE): (_S.DRAINING, ()),
    (_S.STUCK, _E.EXITED): (_S.DOWN, (_A.COUNT_TIMEOUT, _A.RESTART)),
    (_S.DOWN, _E.CLOSE): (_S.CLOSED, ()),
    (_S.LOADING, _E.CLOSE): (_S.KILLING, (_A.KILL,)),
    (_S.SERVING, _E.CLOSE): (_S.DRAINING, ()),
    (_S.STUCK, _E.CLOSE): (_S.KILLING, ()),
    (_S.DRAINING, _E.IDLE): (_S.ENDING, ()),
    (_S.DRAINING, _E.LATE): (_S.KILLING, (_A.STOP_BATCHES, _A.FAIL_REQUESTS)),
    (_S.DRAINING, _E.EXITED): (_S.CLOSED, (_A.COUNT_DEATH, _A.STOP_BATCHES, _A.FAIL_REQUESTS)),
    (_S.ENDING, _E.EXITED): (_S.CLOSED, ()),
    (_S.KILLING, _E.EXITED): (_S.CLOSED, (_A.FAIL_LOAD,)),
}

NO_EFFECT: frozenset[tuple[State, Event]] = frozenset(
    {
        # A worker that is being killed, or has a batch that fails anyway, may still be found late.
        *((state, _E.LATE) for state in (_S.DOWN, _S.STUCK, _S.ENDING, _S.KILLING, _S.CLOSED)),
        # Only one that serves gets batches; one that loads fails its load with its exit.
        *((state, _E.ENDS) for state in _S if state is not _S.SERVING),
        # It exited first, or the host was closed meanwhile: the load notices that later.
        *((state, _E.LOAD_FAILED) for state in (_S.DOWN, _S.KILLING, _S.CLOSED)),
        # It was killed after its load failed.
        (_S.DOWN, _E.EXITED),
        (_S.CLOSED, _E.EXITED),
    }
)
"""Events that change nothing."""


def after(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """The state that follows, and what to do.

    Raises:
        ValueError: the table has no such row: a defect of the server.
    """
    following = TRANSITIONS.get((state, event))
    if following is not None:
        return following
    if (state, event) in NO_EFFECT:
        return state, ()
    raise ValueError(f"a worker that is {state.value} cannot get the event '{event.value}'")


def not_started(identity: Identity, error: OSError | MemoryError) -> InferenceError:
    """The system started no process."""
    return unavailable(f"{identity}: no worker process could be started: {error}")


def not_loaded(identity: Identity, how: str, output_tail: str) -> InferenceError:
    """It ended before it had loaded the model; `how` follows "its worker process "."""
    return unavailable(
        # Triton's words, which scripts look for in its log.
        f"{identity}: Stub process '{identity.instance}' is not healthy. Its worker process {how} while it loaded the model{output_tail}"
    )


def not_extended(identity: Identity) -> InferenceError:
    """It does not serve, so that it can make no further instance."""
    return unavailable(
        f"{identity}: its worker process is being restarted, so that no instance can be added to it: send the request again once the model is ready"
    )


def not_added_in_time(identity: Identity, name: str, limit: Limit) -> InferenceError:
    """A further instance took too long; a thread cannot be ended, so it is closed when it is made."""
    return unavailable(
        f"{identity}: instance '{name}' was not made within {limit.parameter} ({limit.seconds:g} s); the others serve on"
    )


def not_reached(identity: Identity) -> InferenceError:
    """It closed the link of an instance that it was to make."""
    return unavailable(
        f"{identity}: its worker process has no file descriptor left for the instance to add: close files in the model, or give it a higher limit (ulimit -n)"
    )


def is_down(identity: Identity, how: str) -> InferenceError:
    """It serves no batches; `how` follows "its worker process "."""
    return unavailable(
        f"{identity}: its worker process {how}; it is being restarted: send the request again, or to another server",
        reason=FailureReason.BACKEND,
    )


def not_handed_over(identity: Identity, error: Exception) -> InferenceError:
    """A batch did not reach it: no memory or descriptor, or something that JSON does not have."""
    if is_shortage(error):
        return unavailable(
            f"{identity}: the batch could not be handed over: {error}. Send the request again; if this happens often, give the "
            "server a higher limit of open files (ulimit -n) or more memory.",
            reason=FailureReason.BACKEND,
        )
    return internal(f"{identity}: the batch could not be handed over: {error}")


def is_shortage(error: Exception) -> bool:
    """Whether the server has no memory or descriptor left, so that the same may work later."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in SHORTAGES
    )


def not_received(identity: Identity, lost: SegmentLostError) -> InferenceError:
    """It sent tensors that the server could not take."""
    return unavailable(
        f"{identity}: the model's answer of {lost.size} bytes could not be received: {lost}. Send the request again; if this "
        "happens often, give the server a higher limit of open files (ulimit -n) or more memory.",
        reason=FailureReason.BACKEND,
    )
