"""The scheduler of sequences in virtual time: success, error, timeout, cancel, death, resize and stop."""

import asyncio

import pytest

from naiad.config.sequence_batching import (
    ControlKind,
    DirectStrategy,
    OldestStrategy,
    SequenceBatching,
    SequenceControl,
)
from naiad.core import datatypes
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.host import DeferredResponse
from naiad.scheduling.factory import HOLD_BACKLOG_VARIABLE, HOLD_VARIABLE
from tests.server.scheduling.sequence.scheduled import OLDEST, SequenceModel, inputs_of
from tests.support.hosts import ScriptedHost, hosted
from tests.support.inferences import make_response, make_spec, make_tensor
from tests.support.resources import CountedResources
from tests.support.scheduled import turn

pytestmark = pytest.mark.looptime

DIED = InferenceError(ErrorCode.UNAVAILABLE, "died", reason=FailureReason.BACKEND)
CONTROLS = (
    SequenceControl(kind=ControlKind.START, name="START", datatype=datatypes.FP32, true=1),
    SequenceControl(kind=ControlKind.END, name="END", datatype=datatypes.INT32, false=-1, true=1),
    SequenceControl(kind=ControlKind.READY, name="READY", datatype=datatypes.BOOL, true=True),
    SequenceControl(kind=ControlKind.CORRID, name="ID", datatype=datatypes.INT32),
)


async def test_the_requests_of_one_turn_share_a_batch_each_sequence_in_its_row() -> None:
    model = SequenceModel()
    for key in (7, 8, 9):
        model.send(key, "s")
    assert model.host.batches == []
    await turn()
    model.host.finish()
    model.send(9, "e")
    model.send(7, "e")
    await turn()
    model.host.finish()
    assert model.names() == [["7s", "8s", "9s"], ["7e", "-", "9e"]]
    assert model.scheduler.inflight() == 1
    model.send(8, "e")
    await turn()
    model.host.finish()
    model.nothing_left()
    assert model.statistics.success_count == 6
    assert model.statistics.inference_count == 6
    assert {rows: entry.count for rows, entry in model.statistics.batches.items()} == {3: 2, 2: 1}


async def test_controls_say_what_the_request_is_and_null_rows_are_not_ready() -> None:
    model = SequenceModel(SequenceBatching(controls=CONTROLS))
    model.send(2**32 + 5, "s")
    model.send(9, "se")
    await turn()
    first, both = map(inputs_of, model.host.batches[0])
    assert first == {"x": 0.0, "START": 1.0, "END": -1, "READY": True, "ID": 5}
    assert both == {"x": 0.0, "START": 1.0, "END": 1, "READY": True, "ID": 9}
    model.host.finish()
    model.send(3, "s")
    await turn()
    model.host.finish()
    model.send(3, "", make_tensor("x", 1, 1))
    await turn()
    null, going_on = model.host.batches[2]
    assert inputs_of(going_on) == {"x": 0.0, "START": 0.0, "END": -1, "READY": True, "ID": 3}
    assert inputs_of(null) == {"x": 0.0, "START": 0.0, "END": -1, "READY": False, "ID": 0}
    assert null.request.inputs[0].shape == (1, 1)
    assert null.completed


async def test_an_input_that_is_also_a_control_has_the_controls_value() -> None:
    model = SequenceModel(
        SequenceBatching(controls=CONTROLS[:1]), inputs=(make_spec(), make_spec("START"))
    )
    model.send(1, "s", make_tensor("x", 1, 1), make_tensor("START", 1, 1))
    await turn()
    assert inputs_of(model.host.batches[0][0]) == {"x": 0.0, "START": 1.0}
    assert len(model.host.batches[0][0].request.inputs) == 2


async def test_the_control_of_a_text_id_and_its_null_row() -> None:
    control = SequenceControl(kind=ControlKind.CORRID, name="ID", datatype=datatypes.BYTES)
    model = SequenceModel(SequenceBatching(controls=(control,)))
    model.send("first", "s")
    model.send("zweite ü", "s")
    await turn()
    model.host.finish()
    model.send("zweite ü")
    await turn()
    assert [inputs_of(each)["ID"] for each in model.host.batches[0]] == [
        b"first",
        "zweite ü".encode(),
    ]
    assert [inputs_of(each)["ID"] for each in model.host.batches[1]] == [b"", "zweite ü".encode()]


async def test_oldest_runs_one_request_per_sequence_in_order() -> None:
    model = SequenceModel(SequenceBatching(strategy=OLDEST), takes_s=0.010)
    for flags in ("s", "", "e"):
        for key in range(1, 7):
            model.send(key, flags)
    await asyncio.sleep(1)
    assert model.names() == [
        ["1s", "2s", "3s", "4s"],
        ["5s", "6s", "1", "2"],
        ["3", "4", "5", "6"],
        ["1e", "2e", "3e", "4e"],
        ["5e", "6e"],
    ]
    model.nothing_left()


async def test_each_sequence_stays_on_its_instance() -> None:
    model = SequenceModel(instances=2, max_batch_size=1, takes_s=0.010)
    for flags in ("s", "", "", "e"):
        for key in (1, 2, 3):
            model.send(key, flags)
    await asyncio.sleep(1)
    assert model.names(0)[:4] == [["1s"], ["1"], ["1"], ["1e"]]
    assert model.names(1)[:4] == [["2s"], ["2"], ["2"], ["2e"]]
    assert (model.names(0) + model.names(1)).count(["3s"]) == 1
    model.nothing_left()


@pytest.mark.parametrize(
    ("key", "rows", "says"),
    [
        (0, 1, "must specify a non-zero or non-empty correlation ID"),
        ("", 1, "must specify a non-zero or non-empty correlation ID"),
        (1, 2, "must specify batch-size 1 due to requirements of sequence batcher"),
        (1, 1, "must specify the START flag on the first request of the sequence"),
    ],
)
async def test_requests_that_are_refused(key: int | str, rows: int, says: str) -> None:
    model = SequenceModel()
    with pytest.raises(InferenceError, match=says) as refusal:
        model.send(key, rows=rows)
    assert refusal.value.code is ErrorCode.INVALID_ARG
    model.nothing_left()


async def test_a_timeout_in_the_backlog_rejects_the_whole_sequence_in_time() -> None:
    model = SequenceModel(max_batch_size=1)
    model.send(1, "s")
    first, second = model.send(2, "s", timeout_us=50_000), model.send(2, timeout_us=200_000)
    await asyncio.sleep(1)
    for each in (first, second):
        error = model.error(each)
        assert error is not None
        assert (error.code, error.reason) == (ErrorCode.UNAVAILABLE, FailureReason.REJECTED)
        assert 50 <= model.at_ms[each.request.id] <= 52
    model.host.finish()
    assert model.statistics.failures[FailureReason.REJECTED] == 2


async def test_an_idle_sequence_makes_room_and_its_next_request_gets_the_reason() -> None:
    model = SequenceModel(SequenceBatching(max_sequence_idle_us=20_000), max_batch_size=1)
    model.send(1, "s")
    model.host.finish()
    waiting = model.send(2, "se")
    await asyncio.sleep(0.019)
    assert len(model.host.batches) == 1
    await asyncio.sleep(0.003)
    assert model.host.out == [waiting]
    with pytest.raises(InferenceError, match=r"it had no request for more than 0\.02 s"):
        model.send(1)
    model.host.finish()
    model.nothing_left()


async def test_a_long_execution_does_not_count_as_idle() -> None:
    model = SequenceModel(SequenceBatching(max_sequence_idle_us=20_000))
    model.send(1, "s")
    await asyncio.sleep(0.5)
    model.host.finish()
    model.send(1, "e")
    await turn()
    model.host.finish()
    model.nothing_left()


@pytest.mark.parametrize("batching", [SequenceBatching(), SequenceBatching(strategy=OLDEST)])
async def test_a_cancel_of_a_waiting_request_ends_the_rest_of_its_sequence(
    batching: SequenceBatching,
) -> None:
    model = SequenceModel(batching, max_batch_size=1)
    running, second, third, fourth = (model.send(1, flags) for flags in ("s", "", "", "e"))
    third.cancel()
    assert model.answers.keys() == {third.request.id, fourth.request.id}
    for each in (third, fourth):
        error = model.error(each)
        assert error is not None
        assert (error.code, error.reason) == (ErrorCode.CANCELLED, FailureReason.CANCELED)
    model.host.finish()
    model.host.finish()
    assert [model.error(each) for each in (running, second)] == [None, None]
    model.nothing_left()


async def test_a_cancel_of_a_running_request_frees_the_slot_when_it_has_come_back() -> None:
    model = SequenceModel(max_batch_size=1)
    running, behind = model.send(1, "s"), model.send(1)
    other = model.send(2, "se")
    running.cancel()
    assert model.error(behind) is not None
    assert model.host.out == [running]
    model.host.finish()
    assert model.host.out == [other]
    model.host.finish()
    with pytest.raises(InferenceError, match="cancelled"):
        model.send(1)
    model.nothing_left()


async def test_a_client_that_has_gone_ends_its_sequence() -> None:
    model = SequenceModel(max_batch_size=1)
    model.send(1, "s")
    model.host.finish()
    waiting = model.send(2, "se")
    model.scheduler.end_sequence(1)
    assert model.host.out == [waiting]
    model.scheduler.end_sequence("unknown")
    model.host.finish()
    model.nothing_left()


async def test_a_failed_batch_does_not_end_its_sequences() -> None:
    model = SequenceModel()
    failed = model.send(1, "s")
    await turn()
    model.host.fail(InferenceError(ErrorCode.INTERNAL, "broken", reason=FailureReason.BACKEND))
    assert model.error(failed) is not None
    model.send(1, "e")
    await turn()
    model.host.finish()
    model.nothing_left()


async def test_a_lost_worker_ends_its_sequences_and_the_others_go_on() -> None:
    model = SequenceModel(instances=2, max_batch_size=1)
    running, behind = model.send(1, "s"), model.send(1)
    model.send(2, "s")
    backlogged = model.send(3, "se")
    model.hosts[0].die(DIED)
    assert model.answers.keys() == {running.request.id, behind.request.id}
    error = model.error(behind)
    assert error is not None
    assert error.code is ErrorCode.UNAVAILABLE
    with pytest.raises(InferenceError, match="the worker process that had it ended"):
        model.send(1)
    model.hosts[0].usable(True)
    assert model.hosts[0].out == [backlogged]
    model.hosts[0].finish()
    model.hosts[1].finish()
    model.send(2, "e")
    model.hosts[1].finish()
    model.nothing_left()


async def test_without_an_instance_every_request_fails_at_once() -> None:
    model = SequenceModel(max_batch_size=1)
    model.send(1, "s")
    backlogged = model.send(2, "s")
    model.host.die(DIED)
    error = model.error(backlogged)
    assert error is not None
    assert "no running instance" in error.message
    with pytest.raises(InferenceError, match="no running instance"):
        model.send(3, "s")
    model.host.usable(True)
    model.send(3, "se")
    model.host.finish()
    model.nothing_left()


async def test_an_instance_that_is_removed_finishes_its_sequences() -> None:
    model = SequenceModel(instances=2, max_batch_size=1)
    model.send(1, "s")
    model.hosts[0].finish()
    added = ScriptedHost(clock=model.clock, loop=asyncio.get_running_loop(), name="added")
    model.scheduler.resize(hosted([added]), hosted([model.hosts[0]]))
    await turn()
    assert [host.closed for host in model.hosts] == [0, 0]
    model.send(1, "e")
    model.hosts[0].finish()
    await turn()
    assert [host.closed for host in model.hosts] == [1, 0]
    model.send(2, "se")
    model.send(3, "se")
    for host in (model.hosts[1], added):
        host.finish()
    await model.scheduler.stop()
    assert (model.hosts[1].closed, added.closed) == (1, 1)


async def test_a_removed_instance_without_sequences_is_closed_at_once() -> None:
    model = SequenceModel(instances=2)
    model.scheduler.resize([], hosted([model.hosts[1]]))
    await turn()
    assert model.hosts[1].closed == 1
    await model.scheduler.stop()
    assert [host.closed for host in model.hosts] == [1, 1]


async def test_an_idle_sequence_does_not_keep_a_removed_instance() -> None:
    model = SequenceModel(SequenceBatching(max_sequence_idle_us=20_000), instances=2)
    model.send(1, "s")
    await turn()
    model.hosts[0].finish()
    model.scheduler.resize([], hosted([model.hosts[0]]))
    await asyncio.sleep(0.1)
    assert model.hosts[0].closed == 1


async def test_a_stop_lets_open_sequences_end_and_starts_none() -> None:
    model = SequenceModel(takes_s=0.001)
    model.send(1, "s")
    model.send(2, "s")
    await asyncio.sleep(0.1)
    stopping = asyncio.create_task(model.scheduler.stop())
    await turn()
    with pytest.raises(InferenceError, match="has stopped accepting new inference requests"):
        model.send(3, "s")
    model.send(1)
    await asyncio.sleep(0.1)
    last = [model.send(1, "e"), model.send(2, "e")]
    await stopping
    assert [model.error(each) for each in last] == [None, None]
    assert model.now_ms < 300
    assert model.host.closed == 1
    model.nothing_left()


async def test_a_stop_waits_for_an_idle_sequence_no_longer_than_its_idle_time() -> None:
    model = SequenceModel(SequenceBatching(max_sequence_idle_us=20_000), takes_s=0.001)
    model.send(1, "s")
    await asyncio.sleep(0.01)
    await model.scheduler.stop()
    assert model.now_ms < 40


async def test_a_stop_ends_sequences_that_go_on_for_too_long() -> None:
    model = SequenceModel(SequenceBatching(max_sequence_idle_us=10**9), takes_s=0.001)
    model.send(1, "s")
    stopping = asyncio.create_task(model.scheduler.stop())
    for _ in range(58):
        await asyncio.sleep(0.5)
        model.send(1)
    await asyncio.sleep(1.1)
    with pytest.raises(InferenceError, match="was unloaded"):
        model.send(1)
    await stopping
    model.nothing_left()


async def test_a_stop_aborts_a_batch_that_hangs_once_its_client_has_gone() -> None:
    model = SequenceModel()
    hanging = model.send(1, "s")
    await turn()
    hanging.cancel()
    stopping = asyncio.create_task(model.scheduler.stop())
    await asyncio.sleep(100)
    await stopping
    assert model.host.aborted
    model.nothing_left()


async def test_a_batch_waits_for_more_slots_no_longer_than_its_delay() -> None:
    strategy = DirectStrategy(max_queue_delay_us=5_000, minimum_slot_utilization=0.5)
    model = SequenceModel(SequenceBatching(strategy=strategy), takes_s=0.001)
    model.send(1, "s")
    await asyncio.sleep(0.1)
    assert model.at_ms["1s#0"] == 6
    model.send(1)
    model.send(2, "s")
    await asyncio.sleep(0.1)
    assert model.at_ms["1#1"] == 101
    assert model.names() == [["1s"], ["1", "2s"]]


async def test_a_preferred_size_or_the_delay_in_oldest() -> None:
    strategy = OldestStrategy(
        max_candidate_sequences=8, preferred_batch_sizes=(2,), max_queue_delay_us=5_000
    )
    model = SequenceModel(SequenceBatching(strategy=strategy), takes_s=0.001)
    model.send(1, "s")
    await asyncio.sleep(0.1)
    assert model.at_ms["1s#0"] == 6
    for key in (2, 3):
        model.send(key, "s")
    await asyncio.sleep(0.1)
    assert model.at_ms["2s#1"] == 101


async def test_the_hold_of_the_environment_counts_slots_and_backlog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOLD_VARIABLE, "2")
    monkeypatch.setenv(HOLD_BACKLOG_VARIABLE, "1")
    model = SequenceModel(max_batch_size=2)
    model.send(1, "s")
    model.send(2, "s")
    await turn()
    assert model.host.batches == []
    model.send(3, "s")
    await turn()
    assert model.names() == [["1s", "2s"]]


async def test_a_batch_waits_for_resources() -> None:
    resources = CountedResources(1)
    model = SequenceModel(instances=2, max_batch_size=1, resources=resources)
    model.send(1, "s")
    second = model.send(2, "s")
    assert [len(host.batches) for host in model.hosts] == [1, 0]
    model.hosts[0].finish()
    assert model.hosts[1].out == [second]
    model.hosts[1].finish()
    await model.scheduler.stop()
    assert resources.users == []


async def test_deferred_responses_keep_a_sequence_open_and_the_next_request_runs_meanwhile() -> (
    None
):
    model = SequenceModel(SequenceBatching(max_sequence_idle_us=20_000), max_batch_size=1)
    streaming = model.send(1, "s")
    model.host.finish_with([None])
    await asyncio.sleep(0.1)
    second = model.send(1, "e")
    assert model.host.out == [second]
    model.host.finish()
    assert model.scheduler.inflight() == 1
    assert model.host.on_deferred is not None
    model.host.on_deferred(DeferredResponse(streaming, make_response(streaming), 0))
    model.nothing_left()


async def test_a_cancel_after_the_batch_ends_the_sequence_of_a_stream() -> None:
    model = SequenceModel(max_batch_size=1)
    streaming = model.send(1, "s")
    model.host.finish_with([None])
    streaming.cancel()
    with pytest.raises(InferenceError, match="cancelled"):
        model.send(1)


async def test_occupancy_says_what_runs_and_what_waits() -> None:
    model = SequenceModel(max_batch_size=1)
    running, waiting = model.send(1, "s"), model.send(1)
    occupancy = model.scheduler.occupancy()
    assert occupancy.executions == [("m_0_0", [running])]
    assert (occupancy.waits(running), occupancy.waits(waiting)) == (False, True)
    assert model.scheduler.ready_now() is True
    assert await model.scheduler.ready()
    model.host.finish()
    model.host.finish()


async def test_a_sequence_that_starts_twice_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    model = SequenceModel(takes_s=0.001)
    for _ in range(5):
        model.send(1, "s")
    await asyncio.sleep(0.1)
    assert model.names() == [["1s"]] * 5
    (record,) = caplog.records
    assert "sequence 1 for model 'm' has a conflict" in record.getMessage()
