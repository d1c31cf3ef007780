"""The life of a model version as a table: (state, event) -> state. Nothing else decides what may follow what.

A version that was never touched has no state at all (row 7.2 lists it by name only); `UNKNOWN` is the name of that. A
version that failed to load may be unloaded too: then nobody wants it any more.
"""

import enum


class State(enum.Enum):
    """The states of row 7.3, with the names that the index shows."""

    UNKNOWN = "UNKNOWN"
    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


class Event(enum.Enum):
    """What happens to a version."""

    LOAD = "load"
    LOADED = "loaded"
    FAILED = "failed"
    UNLOAD = "unload"
    UNLOADED = "unloaded"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.UNKNOWN, Event.LOAD): State.LOADING,
    (State.UNAVAILABLE, Event.LOAD): State.LOADING,
    (State.LOADING, Event.LOADED): State.READY,
    (State.LOADING, Event.FAILED): State.UNAVAILABLE,
    (State.READY, Event.UNLOAD): State.UNLOADING,
    (State.UNLOADING, Event.UNLOADED): State.UNAVAILABLE,
    (State.UNAVAILABLE, Event.UNLOADED): State.UNAVAILABLE,
}


class IllegalTransition(Exception):  # noqa: N818 - it is a mistake in the server, named for what happened
    """An event came in a state that has no row for it."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"a version that is {state.value} cannot be told '{event.value}'")
        self.state = state
        self.event = event


def after(state: State, event: Event) -> State:
    """The state that follows.

    Raises:
        IllegalTransition: the table has no such row; nothing changes.
    """
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise IllegalTransition(state, event)
    return following
