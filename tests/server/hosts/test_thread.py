"""A thread host: batches in, outcomes out, and nothing that a model does ends the thread."""

import asyncio
import collections.abc
import gc
import os
import pathlib
import threading
import weakref

import pytest
from typing_extensions import override

from naiad.backends.backend import Answer, Execution, Post
from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts import thread
from naiad.hosts.host import BatchOutcome
from naiad.hosts.thread import ThreadHost
from tests.support.hosts import ScriptedInstance, answer_all
from tests.support.inferences import make_inference, make_response, make_tensor

Hosted = collections.abc.Callable[[ScriptedInstance], ThreadHost]
GIVE_UP_S = 10


@pytest.fixture
async def hosted() -> collections.abc.AsyncIterator[Hosted]:
    """Hosts that are closed at the end, so that no thread outlives its test."""
    hosts: list[ThreadHost] = []

    def make(instance: ScriptedInstance) -> ThreadHost:
        loop = asyncio.get_running_loop()
        host = ThreadHost("resnet_instance_0_1", instance, clock=SystemClock(), loop=loop)
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        await host.close()


async def run(host: ThreadHost, *batch: Inference) -> BatchOutcome:
    came_back = asyncio.get_running_loop().create_future()
    host.submit(list(batch) or [make_inference()], came_back.set_result)
    outcome = await asyncio.wait_for(came_back, GIVE_UP_S)
    assert isinstance(outcome, BatchOutcome)
    return outcome


def failing(failure: BaseException) -> ScriptedInstance:
    def script(_: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        raise failure

    return ScriptedInstance(script)


async def test_a_batch_runs_on_a_thread_with_the_instance_s_name_and_its_outcome_comes_to_the_loop(
    hosted: Hosted,
) -> None:
    names: list[str] = []

    def script(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        names.append(threading.current_thread().name)
        return answer_all(batch)

    host = hosted(ScriptedInstance(script))
    loop = asyncio.get_running_loop()
    came_back: asyncio.Future[tuple[str, BatchOutcome]] = loop.create_future()
    batch = [make_inference(), make_inference()]
    host.submit(
        batch,
        lambda outcome: came_back.set_result((threading.current_thread().name, outcome)),
    )
    answered_on, outcome = await asyncio.wait_for(came_back, GIVE_UP_S)
    assert names == ["resnet_instance_0_1"]
    assert answered_on == threading.current_thread().name
    assert outcome.batch is batch
    assert outcome.error is None
    assert outcome.execution is not None
    assert [each and each.id for each in outcome.execution.responses] == [
        each.request.id for each in batch
    ]
    assert 0 < outcome.compute_start_ns <= outcome.compute_end_ns


async def test_the_system_shows_the_end_of_the_name(hosted: Hosted) -> None:
    shown: list[str] = []

    def script(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        path = pathlib.Path(f"/proc/self/task/{threading.get_native_id()}/comm")
        shown.append(path.read_text().strip() if path.exists() else "net_instance_0_1"[-15:])
        return answer_all(batch)

    await run(hosted(ScriptedInstance(script)))
    assert shown == ["et_instance_0_1"]


async def test_a_batch_costs_one_wake_up_each_way(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = hosted(ScriptedInstance())
    wake, wake_ups = os.eventfd_write, list[int]()

    def count(event: int, items: int) -> None:
        wake_ups.append(event)
        wake(event, items)

    monkeypatch.setattr(os, "eventfd_write", count)
    await run(host, *(make_inference() for _ in range(16)))
    assert len(wake_ups) == len(set(wake_ups)) == 2


async def test_what_the_instance_says_of_a_failure_is_kept_and_counted_as_the_backend_s(
    hosted: Hosted,
) -> None:
    host = hosted(failing(InferenceError(ErrorCode.UNAVAILABLE, "device lost: restart it")))
    outcome = await run(host)
    assert outcome.execution is None
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message, outcome.error.reason) == (
        ErrorCode.UNAVAILABLE,
        "device lost: restart it",
        FailureReason.BACKEND,
    )


@pytest.mark.parametrize(
    "failure", [ValueError("no such axis"), SystemExit("enough"), KeyboardInterrupt("stop")]
)
async def test_whatever_a_model_raises_fails_its_batch_with_the_text_and_the_thread_goes_on(
    hosted: Hosted, failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    instance = failing(failure)
    host = hosted(instance)
    outcome = await run(host)
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INTERNAL
    assert outcome.error.reason is FailureReason.BACKEND
    assert outcome.error.message == f"model 'm' raised {type(failure).__name__}: {failure}"
    assert "Traceback" in caplog.text
    instance.script = answer_all
    assert (await run(host)).error is None


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_a_wrong_number_of_responses_is_an_error(hosted: Hosted, count: int) -> None:
    host = hosted(ScriptedInstance(lambda _: [make_response(make_inference())] * count))
    outcome = await run(host, make_inference(), make_inference())
    assert outcome.execution is None
    assert outcome.error is not None
    assert f"answered {count} responses to 2 requests" in outcome.error.message
    assert outcome.error.reason is FailureReason.BACKEND


async def test_no_execution_at_all_is_an_error(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = ScriptedInstance()
    monkeypatch.setattr(instance, "execute", lambda _: None)
    outcome = await run(hosted(instance))
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INTERNAL


async def test_an_idle_host_keeps_nothing_of_its_last_batch(hosted: Hosted) -> None:
    class Forgetful(ScriptedInstance):
        @override
        def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution:
            return Execution(self.script(batch), 0, 0)

    host = hosted(Forgetful())
    tensor = make_tensor("x", 1, 4)
    array = weakref.ref(tensor.array)
    await run(host, make_inference(tensor))
    del tensor
    async with asyncio.timeout(GIVE_UP_S):
        while array() is not None:
            gc.collect()
            await asyncio.sleep(0)


@pytest.mark.parametrize("answer", [True, False])
async def test_ready_is_what_the_instance_says(hosted: Hosted, *, answer: bool) -> None:
    host = hosted(ScriptedInstance(readiness=lambda: answer))
    assert await host.ready() is answer


@pytest.mark.parametrize("answer", [True, False])
async def test_an_instance_whose_model_need_not_be_asked_is_asked_on_the_loop(
    hosted: Hosted, *, answer: bool
) -> None:
    threads = list[threading.Thread]()

    def readiness() -> bool:
        threads.append(threading.current_thread())
        return answer

    host = hosted(ScriptedInstance(readiness=readiness, asks_model=False))
    assert host.ready_now() is answer
    assert await host.ready() is answer
    assert threads == [threading.main_thread()] * 2
    await host.close()
    assert host.ready_now() is False


async def test_an_instance_whose_model_must_be_asked_is_asked_in_a_thread(hosted: Hosted) -> None:
    host = hosted(ScriptedInstance())
    assert host.ready_now() is None
    assert await host.ready()


@pytest.mark.parametrize("failure", [RuntimeError("no weights"), SystemExit(1)])
async def test_an_instance_that_raises_when_asked_is_not_ready(
    hosted: Hosted, failure: BaseException
) -> None:
    def readiness() -> bool:
        raise failure

    assert not await hosted(ScriptedInstance(readiness=readiness)).ready()


async def test_a_long_batch_does_not_make_its_instance_unready(hosted: Hosted) -> None:
    may_end = threading.Event()

    def script(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        may_end.wait(GIVE_UP_S)
        return answer_all(batch)

    host = hosted(ScriptedInstance(script))
    running = asyncio.create_task(run(host))
    await asyncio.sleep(0)
    assert await host.ready()
    assert not running.done()
    may_end.set()
    await running


async def test_no_answer_in_time_means_not_ready_and_asking_again_piles_nothing_up(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "READY_TIMEOUT_S", 0.02)
    begun, may_end, asked = threading.Event(), threading.Event(), []

    def readiness() -> bool:
        asked.append(1)
        begun.set()
        may_end.wait(GIVE_UP_S)
        return True

    host = hosted(ScriptedInstance(readiness=readiness))
    assert not await host.ready()
    assert await asyncio.to_thread(begun.wait, GIVE_UP_S)
    assert set(await asyncio.gather(host.ready(), host.ready())) == {False}
    assert len(asked) == 1
    monkeypatch.setattr(thread, "READY_TIMEOUT_S", GIVE_UP_S)
    late = asyncio.create_task(host.ready())
    await asyncio.sleep(0)
    may_end.set()
    assert await late


async def test_close_waits_for_the_batch_that_is_out_without_blocking_the_loop(
    hosted: Hosted,
) -> None:
    may_end = threading.Event()

    def script(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        may_end.wait(GIVE_UP_S)
        return answer_all(batch)

    instance = ScriptedInstance(script)
    host = hosted(instance)
    running = asyncio.create_task(run(host))
    await asyncio.sleep(0)
    closing = asyncio.create_task(host.close())
    await asyncio.sleep(0)
    assert not closing.done()
    assert instance.closed == 0
    may_end.set()
    await closing
    assert (await running).error is None
    assert instance.closed == 1
    assert "resnet_instance_0_1" not in [each.name for each in threading.enumerate()]


async def test_close_is_idempotent_also_side_by_side_and_before_any_batch(hosted: Hosted) -> None:
    instance = ScriptedInstance()
    host = hosted(instance)
    await asyncio.gather(host.close(), host.close())
    await host.close()
    assert instance.closed == 1
    assert not await host.ready()


async def test_close_does_not_close_an_instance_that_is_being_asked(hosted: Hosted) -> None:
    closed, too_early = threading.Event(), list[bool]()

    def readiness() -> bool:
        too_early.append(closed.wait(0.1))
        return True

    class Noting(ScriptedInstance):
        @override
        def close(self) -> None:
            closed.set()

    host = hosted(Noting(readiness=readiness))
    asking = asyncio.create_task(host.ready())
    await asyncio.sleep(0)
    await host.close()
    assert await asking
    assert closed.is_set()
    assert too_early == [False]


async def test_an_instance_that_cannot_close_does_not_keep_the_host_open(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    instance = ScriptedInstance()

    def close() -> None:
        raise SystemExit("finalize failed")

    monkeypatch.setattr(instance, "close", close)
    await asyncio.wait_for(hosted(instance).close(), GIVE_UP_S)
    assert "did not close cleanly" in caplog.text


def test_an_outcome_for_a_loop_that_is_gone_is_dropped_and_the_thread_ends() -> None:
    may_end = threading.Event()

    def script(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        may_end.wait(GIVE_UP_S)
        return answer_all(batch)

    instance = ScriptedInstance(script)
    loop = asyncio.new_event_loop()
    host = ThreadHost("gone", instance, clock=SystemClock(), loop=loop)
    host.submit([make_inference()], lambda _: None)
    loop.close()
    may_end.set()
    assert host._jobs is not None
    host._jobs.put(None)
    assert host._thread is not None
    host._thread.join(GIVE_UP_S)
    assert not host._thread.is_alive()
    assert instance.closed == 1


class AnsweringInstance(ScriptedInstance):
    """Answers everybody apart, three times: twice while it runs, and once later from another thread."""

    post: Post

    def answer_through(self, post: Post) -> None:
        self.post = post

    @override
    def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution:
        for number in range(2):
            self.answer(batch, number, final=False)
        self.executed.append(list(batch))
        return Execution([None] * len(batch), 0, 0)

    def answer(
        self, batch: collections.abc.Sequence[Inference], number: int, *, final: bool
    ) -> None:
        for each in batch:
            response = InferResponse("m", 1, str(number), [], {}, final=final)
            self.post(Answer(each, response, 0))


async def test_answers_apart_come_to_the_loop_those_sent_before_the_outcome_before_it(
    hosted: Hosted,
) -> None:
    instance = AnsweringInstance()
    host = hosted(instance)
    told: list[str] = []
    ended = asyncio.Event()

    def on_answer(answer: Answer) -> None:
        assert threading.current_thread() is threading.main_thread()
        told.append(answer.response.id)
        if answer.response.final:
            ended.set()

    host.answers_to(on_answer)
    batch = [make_inference()]
    came_back = asyncio.Event()

    def on_outcome(_: BatchOutcome) -> None:
        told.append("outcome")
        came_back.set()

    host.submit(batch, on_outcome)
    await asyncio.wait_for(came_back.wait(), GIVE_UP_S)
    assert told == ["0", "1", "outcome"]
    sender = threading.Thread(target=lambda: instance.answer(batch, 2, final=True))
    sender.start()
    await asyncio.wait_for(ended.wait(), GIVE_UP_S)
    sender.join(GIVE_UP_S)
    assert told[-1] == "2"
    await host.close()
    instance.answer(batch, 3, final=True)  # nobody listens, and nothing breaks
    assert told[-1] == "2"


async def test_a_thread_whose_batch_does_not_end_is_left_behind_when_the_host_closes(
    hosted: Hosted, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()

    def hang(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
        go_on.wait(GIVE_UP_S)
        return answer_all(batch)

    instance = ScriptedInstance(hang)
    host = hosted(instance)
    came_back = asyncio.get_running_loop().create_future()
    host.submit([make_inference()], came_back.set_result)
    host.abort("nobody wants it")
    await asyncio.wait_for(host.close(), GIVE_UP_S)
    assert not came_back.done()
    assert "its batch does not end" in caplog.text
    go_on.set()
    await asyncio.wait_for(came_back, GIVE_UP_S)
    assert host._thread is not None
    await asyncio.to_thread(host._thread.join, GIVE_UP_S)
    assert instance.closed


async def test_an_instance_that_does_not_close_does_not_keep_the_host(
    hosted: Hosted, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "FINALIZE_TIMEOUT_S", 0.01)
    go_on = threading.Event()

    class Endless(ScriptedInstance):
        @override
        def close(self) -> None:
            go_on.wait(GIVE_UP_S)

    host = hosted(Endless())
    await run(host)
    await asyncio.wait_for(host.close(), GIVE_UP_S)
    assert "closing it takes longer" in caplog.text
    go_on.set()
    assert host._thread is not None
    host._thread.join(GIVE_UP_S)
