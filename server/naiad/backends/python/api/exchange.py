"""A call of a model to another one: how its responses are waited for and iterated (rows 15.20, 15.21).

Failures are responses; what raises is only a call that cannot be made at all.
"""

import contextlib
import queue
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from naiad.backends.python.api import context
from naiad.backends.python.api.errors import TritonError, TritonErrorCode, TritonModelException
from naiad.backends.python.api.forked import here
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.server import Asked, Deliver

if TYPE_CHECKING:
    import asyncio


_GPU = 0
"""Of `request.MemoryType`, which imports this module."""


class ResponseIterator:
    """The responses of a request, as they come; once they are all there, as often as one likes."""

    __slots__ = ("_arrived", "_cancel", "_finished", "_next", "_responses")

    def __init__(
        self,
        first: "tuple[InferenceResponse, bool]",
        arrived: "queue.SimpleQueue[tuple[InferenceResponse, bool]]",
        cancel: "Callable[[], None]",
    ) -> None:
        response, self._finished = first
        self._arrived = arrived
        self._cancel = cancel
        self._responses = [response]
        self._next = 0

    def __iter__(self) -> "ResponseIterator":
        if self._finished and self._next >= len(self._responses):
            self._next = 0
        return self

    def __next__(self) -> InferenceResponse:
        if self._next >= len(self._responses):
            if self._finished:
                raise StopIteration
            response, self._finished = self._arrived.get()
            self._responses.append(response)
        response = self._responses[self._next]
        self._next += 1
        return response

    def cancel(self) -> None:
        """Cancel the rest; what the other model sends before it notices still comes."""
        if not self._finished:
            self._cancel()


def ask(outgoing: Asked, running: "context.Running | None", *, decoupled: bool) -> Any:
    """Ask and wait: the response, or, decoupled, the iterator over all of them once the first is there.

    Raises:
        TritonModelException: outside `execute`, or it cannot be sent.
    """
    if not decoupled:
        server = _server(running)
        refusal = _refusal(outgoing)
        return refusal or placed(outgoing, server.infer_and_wait(outgoing, caller=running))
    arrived: queue.SimpleQueue[tuple[InferenceResponse, bool]] = queue.SimpleQueue()

    def deliver(response: InferenceResponse, final: bool) -> None:  # noqa: FBT001 - a callback
        arrived.put((response, final))

    cancel = _send(outgoing, running, decoupled, deliver)
    return ResponseIterator(arrived.get(), arrived, cancel)


def ask_async(
    outgoing: Asked, running: "context.Running | None", *, decoupled: bool
) -> "asyncio.Future[Any]":
    """The same for the running event loop: a future of what `ask` gives back. Cancelling it cancels the request.

    Raises:
        RuntimeError: no event loop runs in this thread.
        TritonModelException: as `ask`.
    """
    import asyncio  # noqa: PLC0415 - 36 ms and 6 MB of a worker, for models with coroutines only

    loop = asyncio.get_running_loop()
    arrived: queue.SimpleQueue[tuple[InferenceResponse, bool]] = queue.SimpleQueue()
    future: asyncio.Future[Any] = loop.create_future()
    waits = [True]

    def deliver(response: InferenceResponse, final: bool) -> None:  # noqa: FBT001 - a callback
        if not waits:
            arrived.put((response, final))
            return
        waits.clear()
        with contextlib.suppress(RuntimeError):  # a closed loop has no coroutine that waits
            loop.call_soon_threadsafe(complete, response, final)

    def complete(response: InferenceResponse, final: bool) -> None:  # noqa: FBT001 - a callback
        if future.done():
            return
        future.set_result(
            ResponseIterator((response, final), arrived, cancel) if decoupled else response
        )

    cancel = _send(outgoing, running, decoupled, deliver)
    future.add_done_callback(lambda done: cancel() if done.cancelled() else None)
    return future


def _send(
    outgoing: Asked,
    running: "context.Running | None",
    decoupled: bool,  # noqa: FBT001 - from this module only
    deliver: Deliver,
) -> "Callable[[], None]":
    server = _server(running)
    refusal = _refusal(outgoing)
    if refusal is not None:
        deliver(refusal, True)
        return _ignore
    if outgoing.preferred_memory.memory_type == _GPU:
        deliver = _Placing(outgoing, deliver)
    cancel: Callable[[], None] = server.infer(
        outgoing, caller=running, decoupled=decoupled, deliver=deliver
    )
    return cancel


class _Placing:
    """Delivers responses with their tensors where the caller prefers them."""

    def __init__(self, outgoing: Asked, deliver: Deliver) -> None:
        self._outgoing = outgoing
        self._deliver = deliver

    def __call__(self, response: InferenceResponse, final: bool) -> None:  # noqa: FBT001 - a callback
        self._deliver(placed(self._outgoing, response), final)


def _server(running: "context.Running | None") -> Any:
    """Whom a model asks that executes."""
    if running is None:
        raise TritonModelException(
            "it is not known which model asks here: make the InferenceRequest in execute, and hand it to the thread that asks"
        )
    if not running.executes:
        raise TritonModelException("BLS is only supported during the 'execute' function.")
    return here(running.server)


def _refusal(outgoing: Asked) -> "InferenceResponse | None":
    """The response to a call that cannot be made; None if it can."""
    if outgoing.preferred_memory.memory_type != _GPU:
        return None
    try:
        _check_device(outgoing.preferred_memory.device_id)
    except RuntimeError as error:
        return InferenceResponse(
            error=TritonError(
                f"Model {outgoing.model_name} - Error when running inference: preferred_memory asks for outputs in the memory of GPU "
                f"{outgoing.preferred_memory.device_id}, which this process cannot use: {error}",
                TritonErrorCode.UNSUPPORTED,
            )
        )
    return None


def _check_device(device: int) -> None:
    """See that this process has a device of that number.

    Raises:
        RuntimeError: it has not, and why.
    """
    from naiad.tensors import cudart  # noqa: PLC0415 - few models ask for it

    count = cudart.load().device_count()
    if not 0 <= device < count:
        raise RuntimeError(f"it sees {count} GPUs, numbered from 0")


def placed(outgoing: Asked, response: InferenceResponse) -> InferenceResponse:
    """A response with its tensors where the caller prefers them (row 15.23): those in the host's memory are copied to the GPU that it names."""
    preferred = outgoing.preferred_memory
    if preferred.memory_type != _GPU or response.has_error():
        return response
    from naiad.backends.python.api.uploads import upload  # noqa: PLC0415 - few models ask for it

    return upload(response, preferred.device_id)


def _ignore() -> None:
    """Cancels a call that is over."""
