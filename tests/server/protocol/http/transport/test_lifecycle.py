"""The life of an HTTP connection is its table, and the documentation shows that table."""

import itertools
import pathlib

import pytest

from naiad.protocol.http.transport.lifecycle import (
    DEAF,
    ENDED,
    ROWS,
    TRANSITIONS,
    Action,
    Actions,
    Event,
    IllegalTransition,
    Lifecycle,
    State,
)

PAGE = pathlib.Path(__file__).parents[5] / "docs" / "architecture.md"


def drawn() -> str:
    """The table as the page shows it."""
    lines = ["| state | event | next | action |", "|---|---|---|---|"]
    for states, event, following, actions in ROWS:
        before = ", ".join(state.value for state in states)
        after = "stays" if following is None else following.value
        what = ", ".join(action.value for action in actions)
        lines.append(f"| {before} | {event.value} | {after} | {what} |")
    return "\n".join(lines)


def life_in(state: State) -> tuple[Lifecycle, list[Actions]]:
    """A connection in a state, and the actions that follow."""
    done: list[Actions] = []
    life = Lifecycle(done.append)
    life.state = state
    return life, done


def test_the_page_shows_the_table() -> None:
    assert drawn() in PAGE.read_text(encoding="utf-8"), f"put this table into {PAGE}:\n{drawn()}"


def test_no_two_rows_say_different_things() -> None:
    pairs = [(state, event) for states, event, _, _ in ROWS for state in states]
    assert len(pairs) == len(set(pairs)) == len(TRANSITIONS)


@pytest.mark.parametrize(("state", "event"), list(TRANSITIONS))
def test_a_row_is_followed(state: State, event: Event) -> None:
    life, done = life_in(state)
    life.on(event)
    following, actions = TRANSITIONS[state, event]
    assert life.state is following
    assert done == [actions]


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in itertools.product(State, Event) if pair not in TRANSITIONS]
)  # fmt: skip
def test_an_event_without_a_row_changes_nothing(state: State, event: Event) -> None:
    life, done = life_in(state)
    with pytest.raises(IllegalTransition, match=event.value):
        life.on(event)
    assert life.state is state
    assert done == []


def test_a_connection_never_goes_back() -> None:
    order = list(State)
    for (state, _), (following, _) in TRANSITIONS.items():
        assert order.index(following) >= order.index(state)


def test_every_state_can_end_and_ends_once() -> None:
    for state in State:
        closes = (state, Event.LOST) in TRANSITIONS
        assert closes is (state is not State.CLOSED)
        sends = TRANSITIONS.get((state, Event.ALL_SENT))
        if state not in ENDED:
            assert sends is not None
            assert sends[1] in {(Action.CLOSE,), (Action.HALF_CLOSE,)}


def test_a_client_that_still_sends_reads_its_last_response_before_the_socket_closes() -> None:
    for state in State:
        early = TRANSITIONS.get((state, Event.SENT_EARLY))
        if state not in ENDED:
            assert early == (State.LINGERING, (Action.HALF_CLOSE,))
    assert set(ENDED) < set(DEAF)
