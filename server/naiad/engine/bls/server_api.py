"""The server's side of the API that models call: inference by other models, model control (row 15.24), metrics.

Models that run in threads of this process call it directly (`api/server.py`); `worker_rpc.py`, imported with the first worker, translates the messages
of models in worker processes. Tensors of threads are passed read-only and without a copy, except for those that the model could change in the meantime.
Only the model's thread waits, never the event loop.
"""

import asyncio
import collections.abc
import concurrent.futures
import threading
import typing
from typing import Any

import numpy as np

from naiad.backends.python.api import datatypes as codes
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.datatypes import elements_of
from naiad.backends.python.api.errors import TritonError, TritonErrorCode, TritonModelException
from naiad.backends.python.api.request import traced_of
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.server import Asked, Deliver, wait_for_response
from naiad.backends.python.api.tensor import Tensor as ModelTensor, parts_of, wrap
from naiad.core import datatypes
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor, object_array
from naiad.engine.bls.model_calls import ModelCall, ModelCalls
from naiad.errors import InferenceError
from naiad.hosts.thread_queues import LoopQueue
from naiad.metrics.custom import CustomMetrics
from naiad.repository.requests.overrides import CONFIG, Parameters, Value
from naiad.scheduling.relays.calls import Caller

Arguments = typing.ParamSpec("Arguments")
Result = typing.TypeVar("Result")

STOPPING = "the server is stopping, or has not started yet"
"""The error message for a request outside of the time in which the server serves."""


class ModelControl(typing.Protocol):
    """What models may request about other models: a part of `engine.api.Engine`."""

    async def load_model(self, name: str, parameters: Parameters, *, requested_by: str) -> None:
        """See `Engine`; `requested_by` is the model whose initialize waits for this, "" for none."""

    async def unload_model(self, name: str, *, unload_dependents: bool, requested_by: str) -> None:
        """See `Engine`; `requested_by` as above."""

    async def model_ready(self, name: str, version: int) -> bool:
        """See `Engine`."""


async def is_ready(control: ModelControl, name: str, version: int) -> bool:
    """Whether a model is ready; an unknown one is not."""
    try:
        return await control.model_ready(name, version)
    except InferenceError:
        return False


class ModelMetrics:
    """Implements the metrics of `api.server.Server` (row 15.26); the fake server of `naiad.testing` uses it too."""

    def __init__(self, custom: CustomMetrics) -> None:
        self.custom = custom
        self.open_family = _translated(custom.open_family)
        self.close_family = custom.close_family
        self.open_metric = _translated(custom.open_metric)
        self.change_metric = _translated(custom.change)
        self.metric_value = _translated(custom.value)


class ServerApi(ModelMetrics):
    """Implements `api.server.Server`.

    Attributes:
        control: loads and unloads models; None before the server serves, and once it stops.
        tasks: the model control requests of worker processes in progress.
    """

    def __init__(self, calls: ModelCalls, custom: CustomMetrics) -> None:
        super().__init__(custom)
        self.calls = calls
        self.control: ModelControl | None = None
        self.tasks = set[asyncio.Task[None]]()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: LoopQueue[collections.abc.Callable[[], None]] | None = None
        self._waiting = set[concurrent.futures.Future[Any]]()

    def open(self, control: ModelControl, loop: asyncio.AbstractEventLoop) -> None:
        """Accept calls; on the loop."""
        self.control = control
        self._loop = loop
        self._queue = LoopQueue(loop, _call)

    def close(self) -> None:
        """Accept no more calls; on the loop. Model control requests in progress fail."""
        self.control = None
        if self._queue is not None:
            queue, self._queue = self._queue, None
            queue.flush()
            queue.close()
        for future in tuple(self._waiting):
            future.cancel()
        for task in tuple(self.tasks):
            task.cancel()

    def infer(
        self, outgoing: Asked, *, caller: Running, decoupled: bool, deliver: Deliver
    ) -> collections.abc.Callable[[], None]:
        """See `Server`."""
        blocks = caller.thread == threading.get_ident()
        request = _request(outgoing, keep=decoupled or not blocks)
        calling = Caller(caller.model, caller.instance, caller.batch, blocks)
        traced = traced_of(outgoing.trace)
        begun: list[ModelCall] = []

        def on_response(response: InferResponse) -> None:
            deliver(response_for_model(response), response.final)

        def begin() -> None:
            begun.append(
                self.calls.begin(
                    request,
                    caller=calling,
                    decoupled=decoupled,
                    on_response=on_response,
                    traced=traced,
                )
            )

        def cancel() -> None:
            # The loop makes the calls in their order: it has begun by then.
            self._put(lambda: begun[0].cancel())  # noqa: PLW0108 - looked up when called

        self._put(begin)
        return cancel

    def infer_and_wait(self, outgoing: Asked, *, caller: Running) -> InferenceResponse:
        """See `Server`."""
        return wait_for_response(self, outgoing, caller=caller)

    def load_model(
        self, name: str, config: str, files: dict[str, bytes], *, caller: Running
    ) -> None:
        """See `Server`."""
        parameters: dict[str, Value] = dict(files)
        if config:
            parameters[CONFIG] = config
        requested_by = caller.model if caller.loads else ""
        self._wait(lambda control: control.load_model(name, parameters, requested_by=requested_by))

    def unload_model(self, name: str, *, unload_dependents: bool, caller: Running) -> None:
        """See `Server`."""
        requested_by = caller.model if caller.loads else ""
        self._wait(
            lambda control: control.unload_model(
                name, unload_dependents=unload_dependents, requested_by=requested_by
            )
        )

    def model_ready(self, name: str, version: int) -> bool:
        """See `Server`."""
        return self._wait(lambda control: is_ready(control, name, version))

    def _put(self, call: collections.abc.Callable[[], None]) -> None:
        queue = self._queue
        if queue is None:
            raise TritonModelException(STOPPING)
        queue.put(call)

    def _wait(
        self,
        make: collections.abc.Callable[[ModelControl], collections.abc.Coroutine[Any, Any, Result]],
    ) -> Result:
        control, loop = self.control, self._loop
        if control is None or loop is None:
            raise TritonModelException(STOPPING)
        future = asyncio.run_coroutine_threadsafe(make(control), loop)
        self._waiting.add(future)
        try:
            return future.result()
        except InferenceError as error:
            raise TritonModelException(error.message) from None
        except concurrent.futures.CancelledError:
            raise TritonModelException("the server is stopping") from None
        finally:
            self._waiting.discard(future)


def response_for_model(response: InferResponse) -> InferenceResponse:
    """A response in the types of the models' API."""
    error = response.error
    if error is not None:
        return InferenceResponse(error=TritonError(error.message, TritonErrorCode[error.code.name]))
    return InferenceResponse(
        [_model_tensor(tensor) for tensor in response.outputs],
        parameters=response.parameters or None,
    )


def _model_tensor(tensor: Tensor) -> ModelTensor:
    array, datatype = tensor.array, tensor.datatype
    if datatype is datatypes.BF16:
        return wrap(tensor.name, array.view(np.uint16), codes.BF16)
    return wrap(tensor.name, array, codes.CODES[datatype.dtype])


def _request(outgoing: Asked, *, keep: bool) -> InferRequest:
    return InferRequest(
        model_name=outgoing.model_name,
        model_version=outgoing.model_version,
        id=outgoing.id,
        inputs=[input_tensor(tensor, keep=keep) for tensor in outgoing.inputs],
        requested_outputs=[RequestedOutput(name) for name in outgoing.output_names],
        parameters=outgoing.parameters,
        timeout_us=outgoing.timeout_us,
        correlation_id=outgoing.correlation_id,
        flags=outgoing.flags,
    )


def input_tensor(tensor: ModelTensor, *, keep: bool) -> Tensor:
    """An input tensor. `keep`: copy it, because the model may change it before it is read."""
    name, array, code = parts_of(tensor)
    if code == codes.BYTES:
        array = object_array(elements_of(array)).reshape(array.shape)
    else:
        array = array.copy() if keep else array.view()
        if code == codes.BF16:
            array = array.view(datatypes.BF16.dtype)
    array.flags.writeable = False
    return Tensor(name, datatypes.BY_NAME[codes.WIRE_NAMES[code]], array.shape, array)


def _translated(
    call: collections.abc.Callable[Arguments, Result],
) -> collections.abc.Callable[Arguments, Result]:
    """The function with the exception that models know in place of ValueError."""

    def translated(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        try:
            return call(*arguments, **named)
        except ValueError as error:
            raise TritonModelException(str(error)) from None

    return translated


def _call(call: collections.abc.Callable[[], None]) -> None:
    call()
