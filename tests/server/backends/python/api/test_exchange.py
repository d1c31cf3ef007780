"""Requests of models to other models: what each call waits for, and how its responses are iterated (rows 15.20, 15.21)."""

import asyncio
import collections.abc
import contextvars
import threading
from typing import Any

import numpy as np
import pytest

from naiad.backends.python.api import context, triton_python_backend_utils as pb_utils
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.server import Asked, Deliver, wait_for_response


class ScriptedServer:
    """Takes requests; a test delivers their responses."""

    def __init__(self) -> None:
        self.asked: list[tuple[Asked, Any, bool]] = []
        self.delivers: list[Deliver] = []
        self.cancelled = 0
        self.on_ask: collections.abc.Callable[[Deliver], None] = self.delivers.append

    def infer(
        self, outgoing: Asked, *, caller: Any, decoupled: bool, deliver: Deliver
    ) -> collections.abc.Callable[[], None]:
        self.asked.append((outgoing, caller, decoupled))
        self.on_ask(deliver)
        return self._cancel

    def infer_and_wait(self, outgoing: Asked, *, caller: Any) -> pb_utils.InferenceResponse:
        return wait_for_response(self, outgoing, caller=caller)

    def answer_first(self, deliver: Deliver) -> None:
        """For `on_ask`: the first of several responses."""
        self.delivers.append(deliver)
        deliver(response(1), False)

    def _cancel(self) -> None:
        self.cancelled += 1


@pytest.fixture
def server() -> collections.abc.Iterator[ScriptedServer]:
    """A server that the test's own thread may ask, as if it executed a model."""
    made = ScriptedServer()
    running = Running(model="m", instance="m_0", directory="/m", server=made)
    running.executes = True
    token = context.current.set(running)
    yield made
    context.current.reset(token)


def request(**more: Any) -> pb_utils.InferenceRequest:
    return pb_utils.InferenceRequest(
        model_name="other", inputs=[], requested_output_names=["B", "A"], **more
    )


def response(number: float) -> pb_utils.InferenceResponse:
    return pb_utils.InferenceResponse([pb_utils.Tensor("A", np.array([number]))])


def numbers(responses: collections.abc.Iterable[pb_utils.InferenceResponse]) -> list[float]:
    return [each.output_tensors()[0].as_numpy()[0] for each in responses]


def test_exec_gives_the_one_response(server: ScriptedServer) -> None:
    server.on_ask = lambda deliver: deliver(response(1), True)
    outgoing = request(request_id="7", correlation_id=5, flags=1, timeout=9, parameters={"k": True})
    outgoing.set_flags(3)
    assert numbers([outgoing.exec()]) == [1]
    ((sent, caller, decoupled),) = server.asked
    assert (sent.model_name, sent.id, sent.correlation_id, sent.flags) == ("other", "7", 5, 3)
    assert (sent.timeout_us, sent.parameters) == (9, {"k": True})
    assert sent.output_names == ["A", "B"]
    assert caller.instance == "m_0"
    assert not decoupled


def test_exec_of_a_decoupled_model_gives_responses_as_they_come(server: ScriptedServer) -> None:
    server.on_ask = server.answer_first
    responses = request().exec(decoupled=True)
    (deliver,) = server.delivers
    assert numbers([next(responses)]) == [1]
    later = threading.Timer(0, deliver, (response(2), False))
    later.start()
    assert numbers([next(responses)]) == [2]
    later.join()
    deliver(response(3), True)
    assert numbers(responses) == [3]
    assert next(responses, "over") == "over"
    assert numbers(responses) == [1, 2, 3], "they can be gone through again"
    assert numbers(responses) == [1, 2, 3]


def test_an_iterator_that_stopped_on_the_way_goes_on_there(server: ScriptedServer) -> None:
    def deliver_all(deliver: Deliver) -> None:
        for number in range(4):
            deliver(response(number), number == 3)

    server.on_ask = deliver_all
    responses = request().exec(decoupled=True)
    for each in responses:
        if numbers([each]) == [1]:
            break
    assert numbers(responses) == [2, 3]


def test_cancel_is_passed_on_until_the_last_response_is_there(server: ScriptedServer) -> None:
    server.on_ask = server.answer_first
    responses = request().exec(decoupled=True)
    responses.cancel()
    assert server.cancelled == 1
    server.delivers[0](response(2), True)
    list(responses)
    responses.cancel()
    assert server.cancelled == 1


async def test_outputs_in_gpu_memory_are_refused_in_words_and_nothing_is_sent(
    server: ScriptedServer,
) -> None:
    memory = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 1)
    outgoing = request(preferred_memory=memory)
    (streamed,) = outgoing.exec(decoupled=True)
    for refused in (outgoing.exec(), streamed, await outgoing.async_exec()):
        assert refused.has_error()
        assert refused.error().code() == pb_utils.TritonError.UNSUPPORTED
        assert "Model other - Error when running inference: preferred_memory asks" in (
            refused.error().message()
        )
    assert server.asked == []
    server.on_ask = lambda deliver: deliver(response(1), True)
    host = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU)
    assert numbers([request(preferred_memory=host).exec()]) == [1]


async def test_async_exec_lets_other_coroutines_go_on(server: ScriptedServer) -> None:
    waiting = [request().async_exec() for _ in range(3)]
    assert len(server.delivers) == 3
    for number, deliver in enumerate(server.delivers):
        threading.Thread(target=deliver, args=(response(number), True)).start()
    assert numbers(await asyncio.gather(*waiting)) == [0, 1, 2]


async def test_async_exec_of_a_decoupled_model_is_done_with_the_first_response(
    server: ScriptedServer,
) -> None:
    future = request().async_exec(decoupled=True)
    (deliver,) = server.delivers
    deliver(response(1), False)
    responses = await future
    deliver(response(2), True)
    assert numbers(responses) == [1, 2]


async def test_cancelling_the_future_cancels_the_request(server: ScriptedServer) -> None:
    future = request().async_exec()
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    await asyncio.sleep(0)
    assert server.cancelled == 1
    server.delivers[0](response(1), True)
    await asyncio.sleep(0)


async def test_a_response_after_its_loop_ended_is_nobodys(server: ScriptedServer) -> None:
    def ask() -> None:
        async def begin() -> None:
            request().async_exec()

        asyncio.run(begin())

    await asyncio.get_running_loop().run_in_executor(None, contextvars_of(ask))
    server.delivers[0](response(1), True)


def test_async_exec_needs_a_loop(server: ScriptedServer) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        request().async_exec()


def test_a_thread_asks_for_the_model_that_made_its_request(server: ScriptedServer) -> None:
    server.on_ask = lambda deliver: deliver(response(1), True)
    outgoing = request()
    thread = threading.Thread(target=outgoing.exec)
    thread.start()
    thread.join()
    assert server.asked[0][1].instance == "m_0"


def test_a_thread_of_a_models_code_is_known_by_its_modules() -> None:
    running = Running(model="m", instance="m_0", directory="/m")
    context.of_module["naiad_models.m_1_99"] = [running]
    namespace = {"__name__": "naiad_models.m_1_99.model", "context": context, "found": []}
    exec("def look():\n    found.append(context.running())", namespace)
    try:
        thread = threading.Thread(target=namespace["look"])  # type: ignore[arg-type] # it is the function
        thread.start()
        thread.join()
    finally:
        del context.of_module["naiad_models.m_1_99"]
    assert namespace["found"] == [running]


def contextvars_of(call: collections.abc.Callable[[], None]) -> collections.abc.Callable[[], None]:
    """The call in a copy of this thread's context, as a coroutine of a model has it."""
    here = contextvars.copy_context()
    return lambda: here.run(call)
