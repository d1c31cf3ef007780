"""The strategy oldest: one request per sequence in the queue, batched by age."""

from naiad.config.model_config import DynamicBatching
from naiad.core.inference import Inference
from naiad.metrics.statistics import CloseReason
from naiad.scheduling.batching import Dispatch, WaitUntil, batching_policy
from naiad.scheduling.sequence.oldest import OldestBatcher
from naiad.scheduling.sequence.slot import Taken
from naiad.scheduling.sequence.table import SequenceTable
from tests.server.scheduling.sequence.requests import MS, S, names, request_of
from tests.support.inferences import MODEL, make_spec


def made(
    candidates: int = 8, rows: int = 4, batching: DynamicBatching | None = None
) -> tuple[SequenceTable, OldestBatcher]:
    table = SequenceTable(model=MODEL, idle_ns=S)
    policy = batching_policy((make_spec(),), rows, batching or DynamicBatching())
    batcher = OldestBatcher(0, candidates=candidates, table=table, model=MODEL, policy=policy)
    table.add(batcher, 0)
    return table, batcher


def take(batcher: OldestBatcher, now: int = 0) -> list[Taken]:
    decision = batcher.next(now)
    assert isinstance(decision, Dispatch)
    return [taken for taken in batcher.take(decision.count, now) if taken is not None]


def inferences(taken: list[Taken]) -> list[Inference]:
    return [each.inference for each in taken]


def come_back(table: SequenceTable, taken: list[Taken], now: int) -> None:
    for each in taken:
        table.came_back(each, now)


def test_a_batch_has_one_request_of_each_sequence_the_oldest_first() -> None:
    table, batcher = made()
    for key in (5, 6, 7, 8, 9):
        table.accept(request_of(key, "s"), 0)
    table.accept(request_of(5), 0)
    first = take(batcher)
    assert names(inferences(first)) == "5s 6s 7s 8s"
    second = take(batcher)
    assert names(inferences(second)) == "9s"
    come_back(table, first, 1)
    assert names(inferences(take(batcher))) == "5"


def test_no_more_sequences_than_candidates_take_part() -> None:
    table, batcher = made(candidates=2)
    for key in (1, 2, 3):
        table.accept(request_of(key, "se"), 0)
    first = take(batcher)
    assert names(inferences(first)) == "1se 2se"
    assert batcher.next(0) is None
    come_back(table, first, 1)
    assert names(inferences(take(batcher))) == "3se"


def test_the_delay_counts_from_when_a_request_may_run_and_statistics_from_its_arrival() -> None:
    table, batcher = made(batching=DynamicBatching(max_queue_delay_us=5_000))
    table.accept(request_of(1, "s", now=0), 0)
    table.accept(request_of(1, name="second", now=1 * MS), 1 * MS)
    first = take(batcher, 5 * MS)
    come_back(table, first, 7 * MS)
    waits = batcher.next(7 * MS)
    assert isinstance(waits, WaitUntil)
    assert waits.at_ns == 12 * MS
    (second,) = take(batcher, 12 * MS)
    assert second.inference.queued_ns == 1 * MS


def test_a_preferred_size_runs_at_once() -> None:
    table, batcher = made(
        batching=DynamicBatching(preferred_batch_sizes=(2,), max_queue_delay_us=5_000)
    )
    table.accept(request_of(1, "s"), 0)
    assert isinstance(batcher.next(0), WaitUntil)
    table.accept(request_of(2, "s"), 0)
    decision = batcher.next(0)
    assert isinstance(decision, Dispatch)
    assert (decision.count, decision.reason) == (2, CloseReason.PREFERRED)


def test_an_issued_request_can_be_withdrawn_also_the_last_of_its_sequence() -> None:
    table, batcher = made(candidates=1)
    last = request_of(1, "se")
    sequence = table.accept(last, 0)
    table.accept(request_of(2, "se"), 0)
    assert names(table.cancel(sequence, last, 0)) == "1se"
    assert names(inferences(take(batcher))) == "2se"


def test_a_slot_whose_last_request_is_executed_is_not_free_yet() -> None:
    table, batcher = made(candidates=1)
    table.accept(request_of(1, "se"), 0)
    running = take(batcher)
    table.accept(request_of(2, "s", timeout_us=3_000), 0)
    assert table.next_due() == 3 * MS
    come_back(table, running, 1)
    assert not table.backlog


def test_a_lost_instance_gives_back_what_was_issued() -> None:
    table, batcher = made()
    table.accept(request_of(1, "s"), 0)
    table.accept(request_of(1, "e"), 0)
    running = take(batcher)
    table.accept(request_of(2, "s"), 0)
    assert names(table.lose(batcher, 0)) == "2s 1e"
    assert not batcher.waits
    come_back(table, running, 1)
    assert not table.open
    assert not table.idle
