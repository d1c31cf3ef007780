"""The order of the responses of a decoupled ensemble."""

from naiad.scheduling.ensemble.response_order import ResponseOrder


def test_what_was_made_of_a_later_response_waits_for_all_of_those_before() -> None:
    order = ResponseOrder[str]()
    for number in range(3):
        order.begun(number)
    order.add(2, "c")
    order.done(2)
    assert order.take() == []
    order.add(0, "a1")
    assert order.take() == ["a1"]
    order.add(0, "a2")
    order.done(0)
    assert order.take() == ["a2"]
    order.done(1)  # nothing is made of it
    assert order.take() == ["c"]
    assert order.take() == []


def test_work_on_a_response_may_consist_of_several_parts() -> None:
    order = ResponseOrder[str]()
    order.begun(0)
    order.begun(0)
    order.begun(1)
    order.done(0)
    order.add(1, "b")
    order.done(1)
    assert order.take() == []
    order.done(0)
    assert order.take() == ["b"]
