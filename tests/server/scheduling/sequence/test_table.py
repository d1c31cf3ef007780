"""Which slot a sequence gets, what ends it, and the error of its next request."""

import pytest

from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.statistics import SequenceEnd
from naiad.scheduling.sequence import errors
from naiad.scheduling.sequence.slot import Sequence
from naiad.scheduling.sequence.table import SequenceTable
from naiad.scheduling.timers.wakeup import NEVER
from tests.server.scheduling.sequence.requests import MS, make_table, names, request_of


def place(sequence: Sequence) -> tuple[int, int] | None:
    """The instance and the row that a sequence has."""
    return None if sequence.slot is None else (sequence.slot.batcher.number, sequence.slot.row)


def run(table: SequenceTable, sequence: Sequence, now: int = 0) -> Inference:
    """Execute the next request of a sequence."""
    assert sequence.slot is not None
    taken = table.take(sequence.slot, now)
    table.came_back(taken, now)
    return taken.inference


def refused(table: SequenceTable, inference: Inference) -> str:
    with pytest.raises(InferenceError) as refusal:
        table.accept(inference, 0)
    assert refusal.value.code is ErrorCode.INVALID_ARG
    return refusal.value.message


def test_sequences_spread_over_instances_and_take_the_lowest_rows() -> None:
    table, _ = make_table(2, instances=2)
    placed = [place(table.accept(request_of(key, "s"), 0)) for key in (1, 2, 3, 4, 5)]
    assert placed == [(0, 0), (1, 0), (0, 1), (1, 1), None]


def test_a_number_and_a_text_are_two_sequences() -> None:
    table, _ = make_table()
    assert table.accept(request_of(5, "s"), 0) is not table.accept(request_of("5", "s"), 0)


def test_a_request_without_start_needs_an_open_sequence() -> None:
    table, _ = make_table()
    said = refused(table, request_of(7))
    assert said.startswith(
        "inference request for sequence 7 to model 'm' must specify the START flag on the first request of the sequence"
    )


def test_end_gives_the_slot_back_when_the_last_request_is_taken() -> None:
    table, _ = make_table(1)
    first = table.accept(request_of(1, "s"), 0)
    table.accept(request_of(1, "e"), 0)
    second = table.accept(request_of(2, "se"), 0)
    assert place(second) is None
    run(table, first)
    assert place(second) is None
    run(table, first)
    assert place(second) == (0, 0)
    run(table, second)
    assert not table.open
    assert table.free_slots == 1


def test_an_id_can_start_again_after_end_while_the_first_sequence_still_waits() -> None:
    table, _ = make_table(2)
    first = table.accept(request_of(1, "se"), 0)
    second = table.accept(request_of(1, "s"), 0)
    assert (place(first), place(second)) == ((0, 0), (0, 1))
    assert table.conflicts == 0


def test_a_second_start_stays_in_the_slot_and_counts_as_a_conflict() -> None:
    table, _ = make_table(1)
    first = table.accept(request_of(1, "s"), 0)
    assert table.accept(request_of(1, "s"), 0) is first
    assert len(first.waiting) == 2
    assert table.conflicts == 1


def test_the_backlog_keeps_whole_sequences_and_the_oldest_gets_the_slot() -> None:
    table, _ = make_table(1)
    first = table.accept(request_of(1, "s"), 0)
    third = table.accept(request_of(3, "s"), 0)
    second = table.accept(request_of(2, "s"), 0)
    table.accept(request_of(3, "e"), 0)
    table.accept(request_of(1, "e"), 0)
    run(table, first)
    run(table, first)
    assert place(third) == (0, 0)
    assert names(list(third.waiting)) == "3s 3e"
    assert place(second) is None
    assert table.open.keys() == {2}


def test_the_earliest_timeout_ends_a_whole_sequence_in_the_backlog() -> None:
    table, _ = make_table(1)
    table.accept(request_of(1, "s"), 0)
    table.accept(request_of(2, "s", timeout_us=9_000), 0)
    table.accept(request_of(2, timeout_us=3_000), 1 * MS)
    table.accept(request_of(3, "se", timeout_us=5_000), 0)
    assert table.next_due() == 4 * MS
    assert table.expire(4 * MS - 1) == ([], [])
    lost, _ = table.expire(4 * MS)
    assert names(lost) == "2s 2"
    assert table.next_due() == 5 * MS
    assert names(table.expire(5 * MS)[0]) == "3se"
    assert "timeout of one of its requests" in refused(table, request_of(2))
    assert not table.backlog


def test_a_timeout_has_no_effect_once_there_is_a_slot() -> None:
    table, _ = make_table(1)
    first = table.accept(request_of(1, "se"), 0)
    second = table.accept(request_of(2, "s", timeout_us=3_000), 0)
    run(table, first, 1 * MS)
    assert place(second) == (0, 0)
    assert table.next_due() == NEVER
    assert table.expire(10 * MS) == ([], [])


def test_an_idle_sequence_loses_its_slot_after_the_idle_time() -> None:
    table, _ = make_table(1, idle_ns=10 * MS)
    first = table.accept(request_of(1, "s"), 0)
    assert table.next_due() == NEVER
    run(table, first, 3 * MS).completed = True
    second = table.accept(request_of(2, "s"), 4 * MS)
    assert table.next_due() == 13 * MS
    assert table.expire(13 * MS - 1) == ([], [])
    assert table.expire(13 * MS) == ([], [first])
    assert place(second) == (0, 0)
    assert "for more than 0.01 s (max_sequence_idle_microseconds" in refused(table, request_of(1))
    assert table.ended[SequenceEnd.IDLE] == 1


def test_a_request_ends_the_idle_time_and_execution_does_not_count() -> None:
    table, _ = make_table(1, idle_ns=10 * MS)
    first = table.accept(request_of(1, "s"), 0)
    run(table, first, 1 * MS).completed = True
    table.accept(request_of(1), 10 * MS)
    taken = table.take(first.slot, 10 * MS) if first.slot else None
    assert taken is not None
    assert table.expire(500 * MS) == ([], [])
    table.came_back(taken, 500 * MS)
    taken.inference.completed = True
    assert table.next_due() == 510 * MS


def test_a_sequence_whose_model_still_sends_is_not_idle() -> None:
    table, _ = make_table(1, idle_ns=10 * MS)
    first = table.accept(request_of(1, "s"), 0)
    last = run(table, first)
    assert table.expire(10 * MS) == ([], [])
    last.completed = True
    assert table.expire(20 * MS) == ([], [first])


def test_a_cancel_ends_the_sequence_from_that_request_on() -> None:
    table, _ = make_table(1)
    first = table.accept(request_of(1, "s"), 0)
    second = request_of(1, name="second")
    table.accept(second, 0)
    table.accept(request_of(1, name="third"), 0)
    assert names(table.cancel(first, second, 0)) == "second third"
    assert names(list(first.waiting)) == "1s"
    assert place(first) == (0, 0)
    assert "cancelled" in refused(table, request_of(1))
    run(table, first)
    assert table.free_slots == 1


def test_a_cancel_of_a_request_in_execution_ends_those_that_wait() -> None:
    table, _ = make_table(1)
    first = table.accept(request_of(1, "s"), 0)
    table.accept(request_of(1, name="waits"), 0)
    assert first.slot is not None
    taken = table.take(first.slot, 0)
    assert names(table.cancel(first, taken.inference, 0)) == "waits"
    assert table.free_slots == 0
    table.came_back(taken, 0)
    assert table.free_slots == 1
    assert not table.idle


def test_a_cancel_in_the_backlog_ends_the_whole_sequence() -> None:
    table, _ = make_table(1)
    table.accept(request_of(1, "s"), 0)
    last = request_of(2)
    waiting = table.accept(request_of(2, "s"), 0)
    table.accept(last, 0)
    assert names(table.cancel(waiting, last, 0)) == "2s 2"
    assert not table.backlog


def test_a_lost_instance_ends_its_sequences_only() -> None:
    table, batchers = make_table(1, instances=2)
    first = table.accept(request_of(1, "s"), 0)
    second = table.accept(request_of(2, "s"), 0)
    third = table.accept(request_of(3, "s"), 0)
    table.accept(request_of(1), 0)
    assert names(table.lose(batchers[0], 0)) == "1s 1"
    assert (place(first), place(second), place(third)) == (None, (1, 0), None)
    assert "worker process that had it ended" in refused(table, request_of(1))
    assert table.slots == 1
    table.add(batchers[0], 0)
    assert place(third) == (0, 0)


def test_a_retired_instance_keeps_its_sequences_and_gets_no_new_one() -> None:
    table, batchers = make_table(1, instances=2)
    first = table.accept(request_of(1, "s"), 0)
    table.retire(batchers[0])
    assert place(table.accept(request_of(2, "s"), 0)) == (1, 0)
    assert table.accept(request_of(1), 0) is first
    assert place(table.accept(request_of(3, "s"), 0)) is None
    table.accept(request_of(1, "e"), 0)
    for _ in range(3):
        run(table, first)
    assert place(first) is None
    assert len(table.backlog) == 1


def test_while_the_model_stops_no_sequence_starts_and_open_ones_go_on() -> None:
    table, _ = make_table(2)
    first = table.accept(request_of(1, "s"), 0)
    table.stopping = True
    with pytest.raises(InferenceError, match="has stopped accepting new inference requests") as no:
        table.accept(request_of(2, "s"), 0)
    assert no.value.code is ErrorCode.UNAVAILABLE
    assert table.accept(request_of(1, "e"), 0) is first


def test_an_iterative_sequence_ends_when_its_request_is_not_rescheduled() -> None:
    table, _ = make_table(1, iterative=True)
    first = table.accept(request_of(1, "s"), 0)
    second = table.accept(request_of(2, "s"), 0)
    for _ in range(3):
        assert first.slot is not None
        taken = table.take(first.slot, 0)
        assert place(second) is None
        table.came_back(taken, 0, rescheduled=True)
    run(table, first)
    assert (place(first), place(second)) == (None, (0, 0))
    assert table.open.keys() == {2}
    assert sum(table.ended.values()) == 0


def test_an_iterative_request_with_end_may_be_rescheduled() -> None:
    table, _ = make_table(1, iterative=True)
    first = table.accept(request_of(1, "se"), 0)
    assert first.slot is not None
    taken = table.take(first.slot, 0)
    assert place(first) == (0, 0)
    table.came_back(taken, 0, rescheduled=True)
    run(table, first)
    assert table.free_slots == 1


def test_ids_of_iterative_requests_are_those_of_no_other_sequence() -> None:
    table, _ = make_table(4, iterative=True)
    table.accept(request_of(2, "s"), 0)
    assert [table.new_key() for _ in range(3)] == [1, 3, 4]


def test_the_reasons_of_ended_sequences_are_kept_for_the_last_ones_only() -> None:
    table, _ = make_table(1)
    for key in range(1, 3_000):
        sequence = table.accept(request_of(key, "s"), 0)
        table.cancel(sequence, sequence.waiting[0], 0)
    assert "cancelled" in refused(table, request_of(2_999))
    assert "never sent" in refused(table, request_of(1))
    assert table.ended[SequenceEnd.CANCELLED] == 2_999


def test_timeouts_of_sequences_that_left_the_backlog_take_no_memory() -> None:
    table, _ = make_table(1)
    table.accept(request_of(1, "s"), 0)
    for key in range(2, 3_000):
        sequence = table.accept(request_of(key, "s", timeout_us=10**9), 0)
        table.cancel(sequence, sequence.waiting[0], 0)
    assert len(table._deadlines) < 200


def test_a_sequence_is_rejected_and_cancelled_with_the_reason_of_its_counter() -> None:
    expired = errors.timed_out(request_of(1).request, "m")
    assert (expired.code, expired.reason) == (ErrorCode.UNAVAILABLE, FailureReason.REJECTED)
    assert "timeout of the corresponding sequence has been expired" in expired.message
    assert errors.cancelled().reason is FailureReason.CANCELED
