"""The life cycle of a model version as a table: (state, event) -> state. Nothing else decides which state follows.

`UNKNOWN` stands for a version that was never loaded, of which the index has no state (row 7.2). A version that failed to load can be
unloaded as well.
"""

import enum


class State(enum.Enum):
    """The states of a version, with the names that the index shows (row 7.3)."""

    UNKNOWN = "UNKNOWN"
    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


class Event(enum.Enum):
    """The events in the life of a version."""

    LOAD = "load"
    LOADED = "loaded"
    FAILED = "failed"
    UPDATE = "update"
    UNLOAD = "unload"
    UNLOADED = "unloaded"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.UNKNOWN, Event.LOAD): State.LOADING,
    (State.UNAVAILABLE, Event.LOAD): State.LOADING,
    (State.LOADING, Event.LOADED): State.READY,
    (State.LOADING, Event.FAILED): State.UNAVAILABLE,
    (State.READY, Event.UPDATE): State.READY,
    (State.READY, Event.UNLOAD): State.UNLOADING,
    (State.UNLOADING, Event.UNLOADED): State.UNAVAILABLE,
    (State.UNAVAILABLE, Event.UNLOADED): State.UNAVAILABLE,
}


class IllegalTransition(Exception):  # noqa: N818 - a defect of the server, not an error of a request
    """The table has no row for an event in a state."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"a version that is {state.value} cannot get the event '{event.value}'")
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
