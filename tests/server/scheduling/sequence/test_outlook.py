"""`naiad_deadline_ms` and the state of the queue of a model with sequences, in virtual time."""

import asyncio

import pytest

from naiad.config.sequence_batching import OldestStrategy, SequenceBatching
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.metrics.queue_state import QueueState
from tests.server.scheduling.sequence.scheduled import SequenceModel

pytestmark = pytest.mark.looptime


def state_of(model: SequenceModel) -> QueueState:
    assert model.statistics.queue is not None
    return model.statistics.queue()


async def warm(model: SequenceModel, sequences: int = 1) -> None:
    """Sequences of two requests of 10 ms each have held their slots for 20 ms."""
    await asyncio.sleep(0.001)  # no clock is at 0
    for key in range(100, 100 + sequences):
        model.send(key, "s")
        model.send(key, "e")
    await asyncio.sleep(1)


async def test_a_request_behind_others_of_its_sequence_is_refused_if_these_take_too_long() -> None:
    model = SequenceModel(takes_s=0.010)
    await warm(model)
    for flags in ("s", "", ""):
        model.send(1, flags)
    await asyncio.sleep(0.004)
    with pytest.raises(InferenceError) as refused:
        model.send(1, "e", deadline_ms=35)
    assert (refused.value.code, refused.value.reason) == (
        ErrorCode.UNAVAILABLE,
        FailureReason.REJECTED,
    )
    assert (
        "The deadline of 35 ms (naiad_deadline_ms) cannot be met: model 'm' would begin the request in about 26.0 ms and respond after about "
        "36.0 ms (requests that wait: 2, instances: 1)"
    ) in refused.value.message
    taken = model.send(1, "e", deadline_ms=37, name="last")
    came_ms = model.now_ms
    await asyncio.sleep(1)
    assert model.error(taken) is None
    assert model.at_ms["last"] - came_ms == pytest.approx(36)
    model.nothing_left()


async def test_a_refused_request_leaves_its_sequence_as_it_was() -> None:
    model = SequenceModel(takes_s=0.010)
    await warm(model)
    model.send(1, "s")
    for flags in ("", "e"):
        with pytest.raises(InferenceError, match="cannot be met"):
            model.send(1, flags, deadline_ms=1)
    with pytest.raises(InferenceError, match="cannot be met"):
        model.send(2, "s", deadline_ms=1)
    assert set(model.scheduler._table.open) == {1}
    model.send(1, "e")
    await asyncio.sleep(1)
    assert model.names()[-2:] == [["1s"], ["1e"]]
    with pytest.raises(InferenceError, match="must specify the START flag"):
        model.send(9, "", deadline_ms=1)
    model.nothing_left()


async def test_without_an_estimate_nothing_is_refused_and_a_wrong_time_is_invalid() -> None:
    model = SequenceModel(takes_s=0.010)
    model.send(1, "se", deadline_ms=0.001)
    with pytest.raises(InferenceError, match="expected the milliseconds") as invalid:
        model.send(2, "s", deadline_ms=0)
    assert invalid.value.code is ErrorCode.INVALID_ARG
    await asyncio.sleep(1)
    model.nothing_left()


async def test_a_sequence_without_a_slot_waits_as_long_as_others_keep_theirs() -> None:
    model = SequenceModel(takes_s=0.010, max_batch_size=2)
    await warm(model)  # held for 20 ms
    model.send(1, "s")
    model.send(2, "s")
    await asyncio.sleep(0.005)
    first = state_of(model)
    assert first.levels[0].estimated_wait_ns == 15_000_000
    model.send(3, "s")
    model.send(4, "s")
    assert state_of(model).levels[0].estimated_wait_ns == 35_000_000, "the third in the backlog"
    with pytest.raises(InferenceError, match=r"begin the request in about 35\.0 ms"):
        model.send(5, "s", deadline_ms=40)
    with pytest.raises(InferenceError, match=r"begin the request in about 25\.0 ms"):
        model.send(4, "e", deadline_ms=30)  # behind its first one
    for key in (1, 2, 3, 4):
        model.send(key, "e", deadline_ms=1000)
    await asyncio.sleep(1)
    model.nothing_left()


async def test_a_sequence_without_a_slot_takes_a_batch_at_least_before_any_sequence_has_ended() -> (
    None
):
    model = SequenceModel(takes_s=0.010, max_batch_size=1)
    model.send(1, "s")
    await asyncio.sleep(0.1)
    assert state_of(model).levels[0].estimated_wait_ns is None
    with pytest.raises(InferenceError, match=r"respond after about 10\.0 ms"):
        model.send(2, "s", deadline_ms=9)
    model.send(2, "s", deadline_ms=15)
    with pytest.raises(InferenceError, match=r"respond after about 20\.0 ms"):
        model.send(2, "e", deadline_ms=15)  # behind its first one
    for key in (1, 2):
        model.send(key, "e")
    await asyncio.sleep(1)
    model.nothing_left()


async def test_the_queue_of_oldest_counts_in_batches() -> None:
    strategy = OldestStrategy(max_candidate_sequences=8)
    model = SequenceModel(SequenceBatching(strategy=strategy), takes_s=0.010, max_batch_size=2)
    await warm(model)
    for key in range(1, 8):
        model.send(key, "s")
    await asyncio.sleep(0.004)
    assert model.statistics.pending == 5
    state = state_of(model)
    assert state.levels[0].estimated_wait_ns == 26_000_000, "two full batches, and one in execution"
    assert (state.waiting, state.busy, state.instances) == (5, 1, 1)
    assert (state.oldest_wait_ns, state.batch_ns) == (4_000_000, 10_000_000)
    with pytest.raises(InferenceError, match=r"begin the request in about 36\.0 ms"):
        model.send(7, "e", deadline_ms=20)
    for key in range(1, 8):
        model.send(key, "e")
    await asyncio.sleep(1)
    model.nothing_left()


async def test_the_state_counts_instances_and_what_waits_in_slots_and_in_the_backlog() -> None:
    model = SequenceModel(instances=2, takes_s=0.010, max_batch_size=1)
    idle = state_of(model)
    assert (idle.waiting, idle.oldest_wait_ns, idle.busy, idle.instances) == (0, 0, 0, 2)
    assert idle.levels[0].estimated_wait_ns is None
    model.send(1, "s")
    await asyncio.sleep(0.002)
    model.send(2, "s")
    model.send(3, "s")
    await asyncio.sleep(0.003)
    state = state_of(model)
    assert (state.waiting, state.oldest_wait_ns, state.busy) == (1, 3_000_000, 2)
    model.send(1, "e")
    await asyncio.sleep(0.001)
    assert state_of(model).oldest_wait_ns == 4_000_000, "the backlog's is older"
    for key in (2, 3):
        model.send(key, "e")
    await asyncio.sleep(1)
    await model.scheduler.stop()
    assert model.statistics.queue is None
