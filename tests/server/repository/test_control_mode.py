"""What each model control mode allows."""

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.control_mode import ControlMode

EXPLICIT, NONE, POLL = ControlMode.EXPLICIT, ControlMode.NONE, ControlMode.POLL


@pytest.mark.parametrize("mode", ControlMode)
def test_load_and_unload_requests_are_for_mode_explicit(mode: ControlMode) -> None:
    if mode is EXPLICIT:
        mode.check_request("m")
        return
    with pytest.raises(InferenceError, match=f"runs with --model-control-mode={mode.value}") as e:
        mode.check_request("m")
    assert e.value.code is ErrorCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("mode", "selected", "models"),
    [
        (NONE, (), None),
        (POLL, (), None),
        (EXPLICIT, (), frozenset()),
        (EXPLICIT, ("a", "b"), {"a", "b"}),
        (EXPLICIT, ("*",), None),
    ],
)
def test_the_mode_decides_what_is_loaded_at_start(
    mode: ControlMode, selected: tuple[str, ...], models: set[str] | None
) -> None:
    assert mode.models_at_start(selected) == models


def test_only_a_mode_in_which_models_can_be_loaded_lists_those_that_are_not() -> None:
    assert {mode for mode in ControlMode if mode.lists_unloaded} == {EXPLICIT, POLL}
    assert {mode for mode in ControlMode if mode.allows_load_model} == {EXPLICIT}
    assert {mode for mode in ControlMode if mode.polls} == {POLL}
