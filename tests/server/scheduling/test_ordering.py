"""Batches leave in the order in which they were sent."""

import itertools

import pytest

from naiad.scheduling.ordering import Reordering


@pytest.mark.parametrize("comes_back", list(itertools.permutations(range(4))))
def test_batches_leave_in_the_order_in_which_they_were_sent(
    comes_back: tuple[int, ...],
) -> None:
    order = Reordering[str]()
    assert [order.sent() for _ in range(4)] == [0, 1, 2, 3]
    left: list[str] = []
    for ticket in comes_back:
        left += order.came_back(ticket, f"batch {ticket}")
        assert len(left) == next((n for n in range(4) if f"batch {n}" not in left), 4)
    assert left == [f"batch {n}" for n in range(4)]


def test_the_next_batch_in_the_order_leaves_at_once() -> None:
    order = Reordering[str]()
    order.sent()
    order.sent()
    assert order.came_back(1, "second") == []
    assert order.came_back(0, "first") == ["first", "second"]


def test_early_and_due_batches_can_be_inspected() -> None:
    order = Reordering[str]()
    first, second, third = order.sent(), order.sent(), order.sent()
    assert order.came_back(third, "third") == []
    assert order.came_back(second, "second") == []
    assert (order.due, order.early()) == (first, ["third", "second"])
    assert order.came_back(first, "first") == ["first", "second", "third"]
    assert (order.due, order.early()) == (3, [])
