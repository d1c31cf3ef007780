"""The life of a version is the table and nothing else."""

import itertools
import pathlib

import pytest

from naiad.repository.lifecycle import TRANSITIONS, Event, IllegalTransition, State, after


@pytest.mark.parametrize(("state", "event"), list(TRANSITIONS))
def test_a_row_of_the_table_is_followed(state: State, event: Event) -> None:
    assert after(state, event) is TRANSITIONS[state, event]


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in itertools.product(State, Event) if pair not in TRANSITIONS]
)  # fmt: skip
def test_what_is_not_in_the_table_is_refused(state: State, event: Event) -> None:
    with pytest.raises(IllegalTransition):
        after(state, event)


def test_a_version_lives_once_through_and_may_start_again() -> None:
    state = State.UNKNOWN
    for event in (Event.LOAD, Event.LOADED, Event.UNLOAD, Event.UNLOADED, Event.LOAD, Event.FAILED):
        state = after(state, event)
    assert state is State.UNAVAILABLE


def drawing() -> str:
    """The table as a Mermaid diagram."""
    rows = [
        f"    {state.value} --> {following.value}: {event.value}"
        for (state, event), following in TRANSITIONS.items()
    ]
    return "\n".join(["stateDiagram-v2", "    [*] --> UNKNOWN", *rows])


def test_the_drawing_in_the_documentation_is_made_from_the_table() -> None:
    page = pathlib.Path(__file__).parents[3] / "docs" / "architecture.md"
    assert f"```mermaid\n{drawing()}\n```" in page.read_text()
