"""The server API of a model in a worker process (`api/server.py`): each request is a notification REQUEST or CALL, each reply a notification RESULT.

The reply to a REQUEST comes on the control socket, whose thread passes it on to the thread that waits. A CALL is a request of the thread that executes
batches, to which nothing else is sent while it does: it receives the reply itself, on the instance's socket, which saves a switch between threads.

A request's header is a call (`link/call.py`), with the inputs as tensors, or `[what, ...]`: `cancel` (with the number of the
request); `load, name, config, whether it is called from initialize`, with the files as tensors; `unload, name, dependents, the same`;
`ready, name, version`;
`open_family, name, description, kind`; `close_family, family`; `open_metric, family, labels, buckets`;
`change_metric, metric, operation, value`; `metric_value, metric`.
A reply's is `[error message or null, value]`; for a call, one per response, `[final, error, parameters]`, with the outputs as tensors;
see `link/codec.py`. `cancel` and `close_family` get no reply.
"""

import itertools
import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from naiad.backends.instance import Output
from naiad.backends.python.api import datatypes
from naiad.backends.python.api.errors import TritonError, TritonErrorCode, TritonModelException
from naiad.backends.python.api.request import CPU_MEMORY, MemoryType, received, traced_of
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.server import Asked, Deliver, wait_for_response
from naiad.backends.python.api.tensor import parts_of
from naiad.errors import InferenceError
from naiad.hosts.link import codec, layouts
from naiad.hosts.link.call import CallWriter
from naiad.hosts.link.kinds import CALL, ERROR, NOTIFICATIONS, REQUEST, TO_HOST
from naiad.hosts.link.link import Link, LinkBrokenError, SegmentLostError
from naiad.hosts.worker.received_tensors import resolved, tensors_of
from naiad.tensors.device_array import DeviceArray
from naiad.tensors.numbering import DEVICE

_log = logging.getLogger("naiad.worker")

_THE_RESPONSE = codec.read_json(codec.THE_RESPONSE)


class AskingServer:
    """Implements `api.server.Server`.

    Args:
        link: sends the requests. The thread that makes this object is the one that receives on it, and executes batches.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._thread = threading.get_ident()
        self._receives = False
        self._reader = layouts.Reader(resolved)
        self._calls_reader = layouts.Reader(resolved)  # of another thread
        self._calls = CallWriter()
        self._numbers = itertools.count(1)
        self._deliveries: dict[int, Deliver] = {}
        self._on_device: dict[int, _Repeat] = {}
        self._host_only = HostOnly()
        self._waiting: dict[int, queue.SimpleQueue[Any]] = {}

    def infer(
        self, asked: Asked, *, caller: Any, decoupled: bool, deliver: Deliver
    ) -> "Callable[[], None]":
        """See `Server`."""
        number = next(self._numbers)
        self._deliveries[number] = deliver
        try:
            self._send_infer(REQUEST, number, asked, caller, decoupled=decoupled)
        except BaseException:
            del self._deliveries[number]
            self._on_device.pop(number, None)
            raise
        return lambda: self._send(number, ("cancel",))

    def infer_and_wait(self, asked: Asked, *, caller: Any) -> InferenceResponse:
        """See `Server`."""
        if (
            threading.get_ident() != self._thread or self._receives
        ):  # a signal's handler may call while its thread waits
            return wait_for_response(self, asked, caller=caller)
        number = next(self._numbers)
        self._receives = True
        try:
            self._send_infer(CALL, number, asked, caller, decoupled=False)
            return self._reply(number)
        finally:
            self._receives = False
            self._on_device.pop(number, None)

    def load_model(self, name: str, config: str, files: "dict[str, bytes]", *, caller: Any) -> None:
        """See `Server`."""
        tensors = [
            (path, "UINT8", np.frombuffer(bytes(content), np.uint8))
            for path, content in files.items()
        ]
        self._ask("load", name, config, caller.loads, tensors=tensors)

    def unload_model(self, name: str, *, unload_dependents: bool, caller: Any) -> None:
        """See `Server`."""
        self._ask("unload", name, unload_dependents, caller.loads)

    def model_ready(self, name: str, version: int) -> bool:
        """See `Server`."""
        return bool(self._ask("ready", name, version))

    def open_family(self, name: str, description: str, kind: str) -> int:
        """See `Server`."""
        return int(self._ask("open_family", name, description, kind))

    def close_family(self, family: int) -> None:
        """See `Server`."""
        self._send(0, ("close_family", family))

    def open_metric(
        self, family: int, labels: "dict[str, str]", buckets: "list[float] | None"
    ) -> int:
        """See `Server`."""
        return int(self._ask("open_metric", family, labels, buckets))

    def change_metric(self, metric: int, operation: str, value: float) -> None:
        """See `Server`."""
        self._ask("change_metric", metric, operation, value)

    def metric_value(self, metric: int) -> float:
        """See `Server`."""
        return float(self._ask("metric_value", metric))

    def on_reply(self, number: int, header: "bytes | bytearray", base: Any) -> None:
        """A reply came; called in the thread that listens.

        Args:
            number: of the request.
            header: the message's.
            base: its segment.
        """
        layout, rest = self._reader.read(header)
        found = codec.read_json(rest)
        waits = self._waiting.pop(number, None)
        if waits is not None:
            waits.put(found)
            return
        deliver = self._deliveries.get(number)
        if deliver is None:
            return
        if found[0]:
            del self._deliveries[number]
            self._on_device.pop(number, None)
        deliver(_response(found, layout, base), bool(found[0]))

    def failed(self, number: int, why: str) -> None:
        """No reply comes, or no more of them; called in the thread that listens.

        Args:
            number: of the request.
            why: the error message.
        """
        waits = self._waiting.pop(number, None)
        if waits is not None:
            waits.put((why, None))
            return
        deliver = self._deliveries.pop(number, None)
        self._on_device.pop(number, None)
        if deliver is not None:
            self._send(number, ("cancel",))
            error = TritonError(why, TritonErrorCode.UNAVAILABLE)
            deliver(InferenceResponse(error=error), True)

    def repeat(self, number: int) -> None:
        """The model that was called takes its tensors in the host's memory only: the call is made again; in any thread."""
        call = self._on_device.pop(number, None)
        if call is None:
            return
        self._host_only.add(call.asked.model_name)
        try:
            self._send_infer(
                call.kind, number, call.asked, call.caller, decoupled=call.decoupled, to_host=True
            )
        except (RuntimeError, OSError, MemoryError, InferenceError) as error:
            self.failed(number, f"its tensors could not be copied to the host's memory: {error}")

    def _reply(self, number: int) -> InferenceResponse:
        """Receive the reply to a CALL."""
        link = self._link
        while True:
            try:
                kind, its_number, header = link.receive()
            except SegmentLostError as lost:
                if lost.number != number:
                    continue
                error = TritonError(
                    f"its answer could not be received: {lost}", TritonErrorCode.UNAVAILABLE
                )
                return InferenceResponse(error=error)
            except LinkBrokenError as broken:
                raised = broken.__cause__
                if isinstance(raised, OSError) and raised.errno is None:
                    raise raised from None  # by a signal's handler: a TimeoutError is an OSError
                os._exit(1)  # the server is gone, and the model must not go on without it
            if kind < NOTIFICATIONS:
                _log.error("the worker ends: it got a message of kind %d during a call", kind)
                os._exit(1)
            base = link.take_notification()
            if its_number != number:  # of a call that a signal's handler has ended by an exception
                continue
            if kind == TO_HOST:
                self.repeat(number)
                continue
            if kind == ERROR:
                return InferenceResponse(
                    error=TritonError(header.decode(), TritonErrorCode.UNAVAILABLE)
                )
            layout, rest = self._calls_reader.read(header)
            found = _THE_RESPONSE if rest == codec.THE_RESPONSE else codec.read_json(rest)
            return _response(found, layout, base)

    def _ask(self, *request: Any, tensors: "Sequence[Any]" = ()) -> Any:
        number = next(self._numbers)
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting[number] = answer
        try:
            self._send(number, request, tensors)
        except BaseException:
            self._waiting.pop(number, None)
            raise
        error, value = answer.get()
        if error is not None:
            raise TritonModelException(error)
        return value

    def _send_infer(
        self,
        kind: int,
        number: int,
        asked: Asked,
        caller: Any,
        *,
        decoupled: bool,
        to_host: bool = False,
    ) -> None:
        batch = caller.batch
        fields = (
            asked.model_name, asked.model_version, asked.id, asked.correlation_id, asked.flags, asked.timeout_us,
            asked.parameters, asked.output_names,
        )  # fmt: skip
        rest = self._calls.write(
            fields,
            batch[0].number if batch else 0,
            len(batch) if batch else 0,
            blocks=caller.thread == threading.get_ident(),
            decoupled=decoupled,
            traced=traced_of(asked.trace),
        )
        tensors = [_output(tensor) for tensor in asked.inputs]
        if (
            any(type(values) is DeviceArray for _, _, values in tensors)
            and not to_host
            and not self._host_only.take(asked.model_name)
        ):
            tensors = _lent(tensors)
            self._on_device[number] = _Repeat(kind, asked, caller, decoupled)
        header, payload = codec.write([(_wanted(asked), tensors)], rest)
        self._link.notify(kind, header, payload, number)

    def _send(self, number: int, request: "tuple[Any, ...]", tensors: "Sequence[Any]" = ()) -> None:
        rest = codec.to_json(request).encode()
        header, payload = codec.write([((), tensors)] if tensors else [], rest)
        self._link.notify(REQUEST, header, payload, number)


class _Repeat(NamedTuple):
    """A call that was made with tensors on a device, and may have to be made again."""

    kind: int
    asked: Asked
    caller: Any
    decoupled: bool


AFTER_CALLS = 64
"""A model that takes tensors in the host's memory only is asked again after so many calls: it may have been loaded again."""


class HostOnly:
    """The models that take tensors in the host's memory only, as far as is known. Pure."""

    def __init__(self) -> None:
        self._left: dict[str, int] = {}

    def add(self, model: str) -> None:
        """A model does."""
        self._left[model] = AFTER_CALLS

    def take(self, model: str) -> bool:
        """Whether the next call of a model copies its tensors to the host's memory at once."""
        left = self._left.get(model, 0)
        if not left:
            return False
        self._left[model] = left - 1
        return True


def _lent(tensors: "list[Output]") -> "list[Output]":
    from naiad.hosts.worker.gpu.exports import EXPORTS  # noqa: PLC0415 - most processes have no device

    return [
        (name, datatype, EXPORTS.part(values, wanted=-1) if type(values) is DeviceArray else values)
        for name, datatype, values in tensors
    ]


def _wanted(asked: Asked) -> "tuple[int, ...]":
    """The server's number of the device on which a call takes its outputs; nothing: in the host's memory.

    A caller that does not say takes them where they are, if that is the device of its own instance (row 15.23).
    """
    preferred = asked.preferred_memory
    if preferred is CPU_MEMORY:
        own = os.environ.get(DEVICE)
        return () if own is None else (int(own),)
    if preferred.memory_type != MemoryType.TRITONSERVER_MEMORY_GPU:
        return ()
    own = os.environ.get(DEVICE)
    return (preferred.device_id if own is None else int(own),)


def _response(found: Any, layout: layouts.Layout, base: Any) -> InferenceResponse:
    _, error, parameters = found
    if error is not None:
        code, message = error
        return InferenceResponse(error=TritonError(message, TritonErrorCode[code]))
    tensors = tensors_of(base, layout.groups[0])
    try:
        outputs = [received(each) for each in tensors]
    except InferenceError as failure:
        return InferenceResponse(error=TritonError(failure.message, TritonErrorCode.INTERNAL))
    return InferenceResponse(outputs, parameters=parameters or None)


def _output(tensor: Any) -> Output:
    name, values, code = parts_of(tensor)
    return name, datatypes.WIRE_NAMES[code], values
