"""Parts of the benchmark: one that fails is measured once more, and the others are measured all the same."""

import math

import pytest

from benchmarks.load import LoadError
from benchmarks.pairs import Measured, compared
from benchmarks.server.parts import Parts
from tests.reference.process import ServerFailedError


@pytest.mark.parametrize(
    "error", [ServerFailedError("reference exited -6"), ZeroDivisionError("nothing was answered")]
)
def test_a_part_that_fails_once_is_measured_again(error: Exception) -> None:
    errors = [error]

    def part() -> dict[str, str]:
        if errors:
            raise errors.pop()
        return {"one": "table"}

    parts = Parts()
    parts.measure("first", part)
    parts.check()
    assert parts.texts == {"one": "table"}


def test_a_part_that_fails_twice_is_named_at_the_end_and_takes_no_other_along() -> None:
    def broken() -> dict[str, str]:
        raise LoadError("no answer")

    parts = Parts()
    parts.measure("broken", broken)
    parts.measure("whole", lambda: {"two": "table"})
    assert parts.texts == {"two": "table"}
    with pytest.raises(LoadError, match="each attempt failed: broken;"):
        parts.check()


def test_a_round_without_a_response_gives_a_ratio() -> None:
    pairs = compared([Measured(0, 0)], [Measured(10, 5)])
    assert (pairs.faster, pairs.cheaper) == (math.inf, 0)
