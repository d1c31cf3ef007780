"""The strategy direct: which row a request has, where null rows are, and how long a batch waits."""

from naiad.metrics.statistics import CloseReason
from naiad.scheduling.batching import Dispatch, WaitUntil
from naiad.scheduling.sequence.direct import DirectBatcher
from naiad.scheduling.sequence.table import SequenceTable
from tests.server.scheduling.sequence.requests import MS, S, make_direct, request_of
from tests.support.inferences import MODEL, make_spec, make_tensor


def made(rows: int = 4, **settings: object) -> tuple[SequenceTable, DirectBatcher]:
    table = SequenceTable(model=MODEL, idle_ns=S)
    batcher = make_direct(table, rows, **settings)  # type: ignore[arg-type]
    table.add(batcher, 0)
    return table, batcher


def rows_of(batcher: DirectBatcher, now: int = 0) -> list[str]:
    """The requests of the batch that is next; "-" for a null row."""
    decision = batcher.next(now)
    assert isinstance(decision, Dispatch)
    batch = batcher.take(decision.count, now)
    for taken in batch:
        if taken is not None:
            batcher._table.came_back(taken, now)
    return ["-" if taken is None else taken.inference.request.id for taken in batch]


def test_every_sequence_keeps_its_row_and_rows_without_a_request_are_null() -> None:
    table, batcher = made()
    for key in (1, 2, 3, 4):
        table.accept(request_of(key, "s"), 0)
    assert rows_of(batcher) == ["1s", "2s", "3s", "4s"]
    table.accept(request_of(3), 0)
    assert rows_of(batcher) == ["-", "-", "3"]
    table.accept(request_of(1), 0)
    table.accept(request_of(4), 0)
    assert rows_of(batcher) == ["1", "-", "-", "4"]
    assert batcher.next(0) is None


def test_a_row_is_reused_after_end_in_the_next_batch() -> None:
    table, batcher = made(2)
    table.accept(request_of(1, "s"), 0)
    table.accept(request_of(2, "se"), 0)
    table.accept(request_of(3, "s"), 0)
    assert rows_of(batcher) == ["1s", "2se"]
    assert rows_of(batcher) == ["-", "3s"]


def test_one_request_of_a_sequence_per_batch() -> None:
    table, batcher = made()
    for name in "abc":
        table.accept(request_of(1, "s" if name == "a" else "", name=name), 0)
    assert [rows_of(batcher) for _ in range(3)] == [["a"], ["b"], ["c"]]


def test_another_shape_waits_for_the_next_batch() -> None:
    table, batcher = made(inputs=(make_spec("x", -1),))
    table.accept(request_of(1, "s", make_tensor("x", 1, 3)), 0)
    table.accept(request_of(2, "s", make_tensor("x", 1, 5)), 0)
    table.accept(request_of(3, "s", make_tensor("x", 1, 3)), 0)
    assert rows_of(batcher) == ["1s", "-", "3s"]
    assert rows_of(batcher) == ["-", "2s"]


def test_without_a_delay_a_batch_runs_at_once() -> None:
    for settings in ({}, {"delay_ns": 5 * MS}, {"utilization": 1.0}):
        table, batcher = made(**settings)
        table.accept(request_of(1, "s"), 0)
        assert batcher.next(0) == Dispatch(1, CloseReason.IDLE) or (
            batcher.next(0).reason is CloseReason.IDLE  # type: ignore[union-attr]
        )


def test_a_batch_waits_for_half_of_the_slots_or_the_delay() -> None:
    table, batcher = made(delay_ns=5 * MS, utilization=0.5)
    table.accept(request_of(1, "s", now=1 * MS), 1 * MS)
    waits = batcher.next(1 * MS)
    assert isinstance(waits, WaitUntil)
    assert waits.at_ns == 6 * MS
    late = batcher.next(6 * MS)
    assert isinstance(late, Dispatch)
    assert late.reason is CloseReason.DELAY
    table.accept(request_of(2, "s", now=2 * MS), 2 * MS)
    enough = batcher.next(2 * MS)
    assert isinstance(enough, Dispatch)
    assert enough.reason is CloseReason.IDLE
    table.accept(request_of(3, "s"), 2 * MS)
    table.accept(request_of(4, "s"), 2 * MS)
    full = batcher.next(2 * MS)
    assert isinstance(full, Dispatch)
    assert full.reason is CloseReason.FULL


def test_the_delay_counts_from_the_oldest_request_that_is_left() -> None:
    table, batcher = made(delay_ns=5 * MS, utilization=1.0)
    first = request_of(1, "s", now=0)
    sequence = table.accept(first, 0)
    table.accept(request_of(2, "s", now=4 * MS), 4 * MS)
    table.cancel(sequence, first, 4 * MS)
    waits = batcher.next(5 * MS)
    assert isinstance(waits, WaitUntil)
    assert waits.at_ns == 9 * MS


def test_a_second_request_of_a_sequence_counts_from_its_own_arrival() -> None:
    table, batcher = made(delay_ns=5 * MS, utilization=1.0)
    table.accept(request_of(1, "s", now=0), 0)
    table.accept(request_of(1, now=1 * MS), 1 * MS)
    assert rows_of(batcher, 5 * MS) == ["1s"]
    waits = batcher.next(5 * MS)
    assert isinstance(waits, WaitUntil)
    assert waits.at_ns == 6 * MS


def test_while_the_model_stops_nothing_is_waited_for() -> None:
    table, batcher = made(delay_ns=5 * MS, utilization=1.0)
    table.accept(request_of(1, "s"), 0)
    decision = batcher.next(0, draining=True)
    assert isinstance(decision, Dispatch)
    assert decision.reason is CloseReason.STOP
