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

from naiad.backends.instance import Execution, Responder, Response
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts import host as host_module
from naiad.hosts.cpu_affinity import Instances
from naiad.hosts.host import BatchOutcome, DeferredResponse
from tests.server.hosts.threads import GIVE_UP_S, Hosted, run
from tests.support.hosts import ScriptedInstance, answer_all
from tests.support.inferences import make_inference, make_response, make_tensor


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
    assert [response and response.id for response in outcome.execution.responses] == [
        inference.request.id for inference in batch
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
        def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution[Response]:
            return self.scripted(batch)

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
    monkeypatch.setattr(host_module, "READY_TIMEOUT_S", 0.02)
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
    monkeypatch.setattr(host_module, "READY_TIMEOUT_S", GIVE_UP_S)
    late = asyncio.create_task(host.ready())
    await asyncio.sleep(0)
    may_end.set()
    assert await late


class AnsweringInstance(ScriptedInstance):
    """Sends three deferred responses per request: twice while it runs, and once later from another thread."""

    defers = True
    responder: Responder

    @override
    def respond_through(self, responder: Responder) -> None:
        self.responder = responder

    @override
    def execute(self, batch: collections.abc.Sequence[Inference]) -> Execution[Response]:
        for number in range(2):
            self.answer(batch, number, final=False)
        self.executed.append(list(batch))
        return Execution([None] * len(batch), 0, 0)

    def answer(
        self, batch: collections.abc.Sequence[Inference], number: int, *, final: bool
    ) -> None:
        for inference in batch:
            response = Response([], {"number": number})
            self.responder.send(inference, response, final=final, begun_ns=0)


async def test_deferred_responses_come_to_the_loop_those_sent_before_the_outcome_before_it(
    hosted: Hosted,
) -> None:
    instance = AnsweringInstance()
    host = hosted(instance)
    told: list[object] = []
    ended = asyncio.Event()

    def on_deferred(answer: DeferredResponse) -> None:
        assert threading.current_thread() is threading.main_thread()
        told.append(answer.response.parameters["number"])
        if answer.response.final:
            ended.set()

    host.deferred_to(on_deferred)
    batch = [make_inference()]
    came_back = asyncio.Event()

    def on_outcome(_: BatchOutcome) -> None:
        told.append("outcome")
        came_back.set()

    host.submit(batch, on_outcome)
    await asyncio.wait_for(came_back.wait(), GIVE_UP_S)
    assert told == [0, 1, "outcome"]
    sender = threading.Thread(target=lambda: instance.answer(batch, 2, final=True))
    sender.start()
    await asyncio.wait_for(ended.wait(), GIVE_UP_S)
    sender.join(GIVE_UP_S)
    assert told[-1] == 2
    await host.close()
    instance.answer(batch, 3, final=True)  # without a listener, and nothing breaks
    assert told[-1] == 2


async def test_an_instance_counts_for_the_choice_of_processors_from_its_first_batch_until_it_is_closed(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("naiad.hosts.thread_host.INSTANCES", instances := Instances())
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    first, second = (hosted(ScriptedInstance()) for _ in range(2))
    counted = []
    for host in (first, second):
        await run(host)
        counted.append(instances.alone)
    await second.close()
    counted.append(instances.alone)
    await first.close()
    counted.append(instances.alone)
    assert counted == [True, False, True, False]
