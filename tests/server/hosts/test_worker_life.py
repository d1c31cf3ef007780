"""The table of a worker's life: every way ends, and the documentation draws it as it is."""

import pathlib

import pytest

from naiad.hosts.process.worker_life import NO_EFFECT, TRANSITIONS, Action, Event, State, after

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "hosts.md"


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {State.DOWN.value}"]
    for (state, event), (following, actions) in TRANSITIONS.items():
        label = event.value + "".join(f" / {action.value}" for action in actions)
        lines.append(f"    {state.value} --> {following.value}: {label}")
    return "\n".join([*lines, f"    {State.CLOSED.value} --> [*]", "```"])


def test_the_page_draws_the_table() -> None:
    assert diagram() in PAGE.read_text(), f"{PAGE}: replace the diagram by\n{diagram()}"


@pytest.mark.parametrize("state", [state for state in State if state is not State.CLOSED])
def test_every_state_leads_to_the_end_once_the_host_is_closed(state: State) -> None:
    """Whatever the worker does meanwhile."""
    reached = {state}
    if (state, Event.CLOSE) in TRANSITIONS:
        reached = {after(state, Event.CLOSE)[0]}
    for _ in State:
        reached |= {
            after(each, event)[0]
            for each in reached
            for event in (Event.IDLE, Event.LATE, Event.EXITED, Event.LOAD_FAILED)
            if (each, event) in TRANSITIONS or (each, event) in NO_EFFECT
        }
    assert State.CLOSED in reached
    if (state, Event.CLOSE) in TRANSITIONS:
        assert reached <= {State.DRAINING, State.ENDING, State.KILLING, State.CLOSED}


def test_a_worker_is_restarted_only_when_it_served_and_the_host_is_not_closed() -> None:
    restarts = {
        state for (state, _), (_, actions) in TRANSITIONS.items() if Action.RESTART in actions
    }
    assert restarts == {State.SERVING, State.DYING, State.STUCK}


@pytest.mark.parametrize(
    ("state", "event"),
    [(State.SERVING, Event.EXITED), (State.SERVING, Event.LATE), (State.DYING, Event.EXITED), (State.DYING, Event.LATE), (State.DRAINING, Event.EXITED), (State.DRAINING, Event.LATE)],
)  # fmt: skip
def test_requests_fail_when_the_worker_that_has_them_is_lost(state: State, event: Event) -> None:
    following, actions = after(state, event)
    assert Action.FAIL_REQUESTS in actions
    assert following not in {State.SERVING, State.DYING, State.DRAINING}


def test_no_state_in_which_a_worker_is_lost_is_reached_before_it_gets_no_more_batches() -> None:
    for (state, _), (following, actions) in TRANSITIONS.items():
        if state in {State.SERVING, State.DRAINING} and following is not State.DRAINING:
            assert following is State.ENDING or Action.STOP_BATCHES in actions


def test_an_event_without_a_row_is_a_defect() -> None:
    with pytest.raises(ValueError, match="cannot get the event"):
        after(State.CLOSED, Event.START)
