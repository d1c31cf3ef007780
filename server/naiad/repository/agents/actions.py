"""What the agents of a model are called for, as a table: (phase, event) -> (phase, actions) (row 14.35). Pure."""

import enum


class Action(enum.Enum):
    """An action; the value is the agent's method."""

    LOAD = "load"
    LOAD_COMPLETE = "load_complete"
    LOAD_FAIL = "load_fail"
    UNLOAD = "unload"
    UNLOAD_COMPLETE = "unload_complete"

    @property
    def is_completion(self) -> bool:
        """Whether the agents are called in reverse order of the config."""
        return self not in (Action.LOAD, Action.UNLOAD)


class Phase(enum.Enum):
    """The phase of one load of a model."""

    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"
    ENDED = "ended"


class AgentEvent(enum.Enum):
    """The events of a load that agents are called for."""

    COMPLETE = "its versions serve"
    UNLOAD = "a version is about to be unloaded"
    END = "no version uses its files"


AFTER: dict[tuple[Phase, AgentEvent], tuple[Phase, tuple[Action, ...]]] = {
    (Phase.LOADING, AgentEvent.COMPLETE): (Phase.LOADED, (Action.LOAD_COMPLETE,)),
    # A version that loaded is unloaded because another one failed.
    (Phase.LOADING, AgentEvent.UNLOAD): (Phase.LOADING, ()),
    (Phase.LOADING, AgentEvent.END): (Phase.ENDED, (Action.LOAD_FAIL,)),
    (Phase.LOADED, AgentEvent.UNLOAD): (Phase.UNLOADING, (Action.UNLOAD,)),
    (Phase.LOADED, AgentEvent.END): (Phase.ENDED, (Action.UNLOAD, Action.UNLOAD_COMPLETE)),
    # The next version of the same load.
    (Phase.UNLOADING, AgentEvent.UNLOAD): (Phase.UNLOADING, ()),
    (Phase.UNLOADING, AgentEvent.END): (Phase.ENDED, (Action.UNLOAD_COMPLETE,)),
}
