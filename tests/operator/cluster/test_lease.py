"""Who may take a lease."""

import pytest

from naiad_operator.cluster.lease import Seen, Terms, may_take

TERMS = Terms(duration=15.0)


@pytest.mark.parametrize(("holder", "age"), [("", 0.0), ("me", 0.0), ("other", 15.1)])
def test_a_lease_that_is_free_ours_or_not_renewed_may_be_taken(holder: str, age: float) -> None:
    assert may_take(Seen(holder, "1", 100.0), "me", 100.0 + age, TERMS)


def test_a_lease_that_another_one_renews_may_not() -> None:
    assert not may_take(Seen("other", "1", 100.0), "me", 114.9, TERMS)
