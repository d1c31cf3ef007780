"""Who is answered by which number: the batch that is out, and what is left of those before."""

from typing import Never

import numpy as np
from typing_extensions import override

from naiad.backends.instance import Execution
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.hosts.process.in_flight import InFlight
from tests.server.backends.configs import inference, tensor


def asked(count: int) -> list[Inference]:
    return [inference(tensor("IN", np.ones((1, 1), np.float32))) for _ in range(count)]


def outcome(*answered: bool) -> Execution[InferResponse]:
    response = InferResponse("m", 1, "", [], {})
    return Execution([response if each else None for each in answered], 0, 0)


def test_requests_are_numbered_on_from_batch_to_batch() -> None:
    in_flight = InFlight(0)
    one, two = asked(3), asked(2)
    assert in_flight.begin(one) == 0
    in_flight.end()
    assert in_flight.begin(two) == 3
    assert [in_flight.number_of(each) for each in (*one, *two)] == [None, None, None, 3, 4]
    assert [in_flight.waiting(number) for number in range(2, 6)] == [None, *two, None]


def test_the_second_batch_is_found_by_its_numbers_once_the_first_has_ended() -> None:
    in_flight = InFlight(0)
    one, two, three = asked(2), asked(3), asked(1)
    assert [in_flight.begin(each) for each in (one, two)] == [0, 2]
    assert (in_flight.batch, in_flight.prefetched) == (one, two)
    assert in_flight.waiting(2) is None
    in_flight.end()
    assert (in_flight.batch, in_flight.first, in_flight.prefetched) == (two, 2, None)
    assert [in_flight.waiting(number) for number in range(1, 6)] == [None, *two, None]
    assert in_flight.begin(three) == 5
    in_flight.prefetched = None  # it could not be handed over
    assert in_flight.begin(asked(1)) == 6
    in_flight.end()
    assert in_flight.first == 6


def test_who_got_no_response_with_the_batch_waits_for_one_apart_until_the_last() -> None:
    in_flight = InFlight(0)
    batch = asked(3)
    in_flight.begin(batch)
    in_flight.defer(outcome(True, False, False))
    in_flight.end()
    assert [in_flight.waiting(number) for number in range(3)] == [None, *batch[1:]]
    assert in_flight.number_of(batch[2]) == 2
    in_flight.answered(1)
    assert in_flight.waiting(1) is None
    assert in_flight.batch_at(0, 3) == [batch[2]]
    assert in_flight.take_deferred() == [batch[2]]
    assert in_flight.batch_at(0, 3) is None


def test_who_got_the_last_response_before_the_batch_ended_does_not_wait_for_another() -> None:
    in_flight = InFlight(0)
    batch = asked(2)
    in_flight.begin(batch)
    in_flight.answered(0)
    assert [in_flight.waiting(number) for number in range(2)] == [None, batch[1]]
    in_flight.defer(outcome(False, False))
    in_flight.end()
    assert [in_flight.waiting(number) for number in range(2)] == [None, batch[1]]
    in_flight.begin(asked(1))
    assert in_flight.waiting(2) is not None
    assert in_flight.take_deferred() == [batch[1]]


def test_the_batch_that_is_out_is_found_by_its_first_number_only() -> None:
    in_flight = InFlight(0)
    in_flight.begin(asked(2))
    in_flight.end()
    batch = asked(2)
    in_flight.begin(batch)
    assert in_flight.batch_at(2, 2) is batch
    assert in_flight.batch_at(0, 2) is None


class NotWalked(dict[int, Inference]):
    """Open streams, which are not searched one by one."""

    @override
    def __iter__(self) -> Never:
        raise AssertionError("looked through")

    @override
    def items(self) -> Never:
        raise AssertionError("looked through")


def test_a_hold_or_a_cancel_does_not_look_through_all_open_streams() -> None:
    in_flight = InFlight(0)
    batch = asked(3)
    in_flight._deferred = NotWalked()
    in_flight.begin(batch)
    in_flight.defer(outcome(False, False, False))
    in_flight.end()
    assert [in_flight.number_of(each) for each in batch] == [0, 1, 2]
    in_flight.answered(1)
    assert in_flight.number_of(batch[1]) is None


def test_what_is_left_of_a_batch_is_the_same_list_until_less_is_left() -> None:
    in_flight = InFlight(0)
    batch = asked(3)
    in_flight.begin(batch)
    in_flight.defer(outcome(False, False, False))
    in_flight.end()
    assert in_flight.batch_at(0, 3) is in_flight.batch_at(0, 3)
    in_flight.answered(0)
    assert in_flight.batch_at(0, 3) == batch[1:]


def test_a_worker_that_reports_an_endless_number_of_requests_delays_no_other() -> None:
    in_flight = InFlight(0)
    batch = asked(3)
    in_flight.begin(batch)
    in_flight.defer(outcome(False, False, False))
    in_flight.end()
    assert in_flight.batch_at(1, 10**18) == batch[1:]


def test_one_request_of_the_batch_in_execution_is_found_by_its_number() -> None:
    in_flight = InFlight(4)
    batch = asked(3)
    in_flight.begin(batch)
    assert in_flight.batch_at(5, 1) == [batch[1]]
    assert in_flight.batch_at(6, 1) == [batch[2]]
    assert in_flight.batch_at(7, 1) is None
    in_flight.defer(outcome(True, False, False))
    in_flight.end()
    assert in_flight.batch_at(5, 1) == [batch[1]]
    assert in_flight.batch_at(4, 1) is None
