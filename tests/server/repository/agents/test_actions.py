"""What agents are called for, from the table alone."""

import itertools

from naiad.repository.agents.actions import AFTER, Action, AgentEvent, Phase

COMPLETE, UNLOAD, END = AgentEvent.COMPLETE, AgentEvent.UNLOAD, AgentEvent.END


def called_for(*events: AgentEvent) -> list[Action]:
    phase, actions = Phase.LOADING, list[Action]()
    for event in events:
        phase, more = AFTER[phase, event]
        actions += more
    return actions


def test_a_load_ends_in_one_of_two_ways() -> None:
    whole = [Action.LOAD_COMPLETE, Action.UNLOAD, Action.UNLOAD_COMPLETE]
    assert called_for(COMPLETE, UNLOAD, END) == whole
    # Several versions are unloaded.
    assert called_for(COMPLETE, UNLOAD, UNLOAD, END) == whole
    # The end of the server.
    assert called_for(COMPLETE, END) == whole
    assert called_for(END) == [Action.LOAD_FAIL]
    # A version that loaded is unloaded, because another one failed.
    assert called_for(UNLOAD, UNLOAD, END) == [Action.LOAD_FAIL]


def test_completions_come_in_reverse_order() -> None:
    forward = [action for action in Action if not action.is_completion]
    assert forward == [Action.LOAD, Action.UNLOAD]


def test_every_phase_but_the_last_ends() -> None:
    for phase, event in itertools.product(Phase, [END]):
        assert ((phase, event) in AFTER) == (phase is not Phase.ENDED)
