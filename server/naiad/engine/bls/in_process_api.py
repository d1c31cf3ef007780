"""The server API of models that run in threads of this process (`api/server.py`): calls from their threads to the event loop and back.

Tensors are passed read-only and without a copy, except for those that the model could change in the meantime. Only the model's thread waits,
never the event loop.
"""

import asyncio
import collections.abc
import concurrent.futures
import threading
import typing
from typing import Any

import numpy as np

from naiad.backends.python.api import datatypes as codes
from naiad.backends.python.api.byte_tensors import elements_of
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.errors import TritonError, TritonErrorCode, TritonModelException
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.server import Asked, Deliver
from naiad.backends.python.api.tensor import Tensor as ModelTensor, parts_of, wrap
from naiad.core import datatypes
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.engine.bls.model_calls import Caller, ModelCall, ModelCalls
from naiad.engine.bls.services import STOPPING, ModelControl, is_ready
from naiad.errors import InferenceError
from naiad.hosts.eventfd_queues import LoopQueue
from naiad.metrics.custom import CustomMetrics

Result = typing.TypeVar("Result")


class ModelMetrics:
    """Implements the metrics of `api.server.Server` (row 15.26); the fake server of `naiad.testing` uses it too.

    Args:
        metrics: holds them.
    """

    def __init__(self, metrics: CustomMetrics) -> None:
        self._metrics = metrics

    def open_family(self, name: str, description: str, kind: str) -> int:
        """See `Server`."""
        return _translated(self._metrics.open_family, name, description, kind)

    def close_family(self, family: int) -> None:
        """See `Server`."""
        self._metrics.close_family(family)

    def open_metric(self, family: int, labels: dict[str, str], buckets: list[float] | None) -> int:
        """See `Server`."""
        return _translated(self._metrics.open_metric, family, labels, buckets)

    def change_metric(self, metric: int, operation: str, value: float) -> None:
        """See `Server`."""
        _translated(self._metrics.change, metric, operation, value)

    def metric_value(self, metric: int) -> float:
        """See `Server`."""
        return _translated(self._metrics.value, metric)


class InProcessModelApi(ModelMetrics):
    """Implements `api.server.Server`.

    Args:
        calls: makes the calls.
        metrics: holds models' metrics.
    """

    def __init__(self, calls: ModelCalls, metrics: CustomMetrics) -> None:
        super().__init__(metrics)
        self._calls = calls
        self._control: ModelControl | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: LoopQueue[collections.abc.Callable[[], None]] | None = None
        self._waiting = set[concurrent.futures.Future[Any]]()

    def open(self, control: ModelControl, loop: asyncio.AbstractEventLoop) -> None:
        """Accept calls; on the loop."""
        self._control = control
        self._loop = loop
        self._queue = LoopQueue(loop, _call)

    def close(self) -> None:
        """Accept no more calls; on the loop. Threads that wait get an error."""
        self._control = None
        if self._queue is not None:
            queue, self._queue = self._queue, None
            queue.flush()
            queue.close()
        for future in tuple(self._waiting):
            future.cancel()

    def infer(
        self, asked: Asked, *, caller: Running, decoupled: bool, deliver: Deliver
    ) -> collections.abc.Callable[[], None]:
        """See `Server`."""
        blocks = caller.thread == threading.get_ident()
        request = _request(asked, keep=decoupled or not blocks)
        made = Caller(caller.model, caller.instance, caller.batch, blocks)
        on_response = _Delivery(deliver)
        calls = self._calls
        begun: list[ModelCall] = []

        def begin() -> None:
            begun.append(
                calls.begin(request, caller=made, decoupled=decoupled, on_response=on_response)
            )

        def cancel() -> None:
            # The loop makes the calls in their order: it has begun by then.
            self._put(lambda: begun[0].cancel())  # noqa: PLW0108 - looked up when called

        self._put(begin)
        return cancel

    def load_model(
        self, name: str, config: str, files: dict[str, bytes], *, caller: Running
    ) -> None:
        """See `Server`."""
        overrides: dict[str, str | bytes] = dict(files)
        if config:
            overrides["config"] = config
        requested_by = caller.model if caller.loads else ""
        self._wait(lambda control: control.load_model(name, overrides, requested_by=requested_by))

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
        control, loop = self._control, self._loop
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


class _Delivery:
    """Passes responses from the event loop to a model."""

    __slots__ = ("_deliver",)

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def __call__(self, response: InferResponse) -> None:
        self._deliver(response_for_model(response), response.final)


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


def _request(asked: Asked, *, keep: bool) -> InferRequest:
    return InferRequest(
        model_name=asked.model_name,
        model_version=asked.model_version,
        id=asked.id,
        inputs=[_tensor(tensor, keep=keep) for tensor in asked.inputs],
        requested_outputs=[RequestedOutput(name) for name in asked.output_names],
        parameters=asked.parameters,
        timeout_us=asked.timeout_us,
        correlation_id=asked.correlation_id,
        flags=asked.flags,
    )


def _tensor(tensor: ModelTensor, *, keep: bool) -> Tensor:
    """An input tensor. `keep`: copy it, because the model may change it before it is read."""
    name, array, code = parts_of(tensor)
    if code == codes.BYTES:
        elements = np.empty(array.size, dtype=object)
        elements[:] = elements_of(array)
        array = elements.reshape(array.shape)
    else:
        array = array.copy() if keep else array.view()
        if code == codes.BF16:
            array = array.view(datatypes.BF16.dtype)
    array.flags.writeable = False
    return Tensor(name, datatypes.BY_NAME[codes.WIRE_NAMES[code]], array.shape, array)


def _translated(call: collections.abc.Callable[..., Result], *arguments: Any) -> Result:
    """Call a method of the metrics; its ValueError becomes the exception that models know."""
    try:
        return call(*arguments)
    except ValueError as error:
        raise TritonModelException(str(error)) from None


def _call(call: collections.abc.Callable[[], None]) -> None:
    call()
