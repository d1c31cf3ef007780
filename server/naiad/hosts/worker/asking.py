"""The server API of a model in a worker process (`api/server.py`): each request is a notification REQUEST, each reply a notification RESULT.

A request's header is `[what, ...]`:
`infer, [model, version, id, correlation id, flags, timeout µs, parameters, requested outputs], [first request of the calling
batch, its size] or null, whether the batch's own thread waits, decoupled`, with the inputs as tensors; `cancel` (with the number of the
request); `load, name, config, whether it is called from initialize`, with the files as tensors; `unload, name, dependents, the same`;
`ready, name, version`;
`open_family, name, description, kind`; `close_family, family`; `open_metric, family, labels, buckets`;
`change_metric, metric, operation, value`; `metric_value, metric`.
A reply's is `[error message or null, value]`; for `infer`, one per response, `[final, error, parameters]`, with the outputs as tensors;
see `codec.py`. `cancel` and `close_family` get no reply.
"""

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from naiad.backends.instance import Output
from naiad.backends.python.api import datatypes
from naiad.backends.python.api.errors import TritonError, TritonErrorCode, TritonModelException
from naiad.backends.python.api.request import incoming
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.server import Asked, Deliver
from naiad.backends.python.api.tensor import parts_of
from naiad.hosts.worker import codec
from naiad.hosts.worker.kinds import REQUEST
from naiad.hosts.worker.link import Link
from naiad.hosts.worker.requests import resolved, tensors_of


class AskingServer:
    """Implements `api.server.Server`.

    Args:
        link: sends the requests.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._reader = codec.Reader(resolved)
        self._numbers = itertools.count(1)
        self._deliveries: dict[int, Deliver] = {}
        self._waiting: dict[int, queue.SimpleQueue[Any]] = {}

    def infer(
        self, asked: Asked, *, caller: Any, decoupled: bool, deliver: Deliver
    ) -> "Callable[[], None]":
        """See `Server`."""
        batch = caller.batch
        request = (
            "infer",
            (
                asked.model_name, asked.model_version, asked.id, asked.correlation_id, asked.flags, asked.timeout_us,
                asked.parameters, asked.output_names,
            ),
            (batch[0].number, len(batch)) if batch else None,
            caller.thread == threading.get_ident(),
            decoupled,
        )  # fmt: skip
        number = next(self._numbers)
        self._deliveries[number] = deliver
        try:
            self._send(number, request, [_output(tensor) for tensor in asked.inputs])
        except BaseException:
            del self._deliveries[number]
            raise
        return lambda: self._send(number, ("cancel",))

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
        final, error, parameters = found
        if final:
            del self._deliveries[number]
        if error is not None:
            code, message = error
            response = InferenceResponse(error=TritonError(message, TritonErrorCode[code]))
        else:
            tensors = tensors_of(base, layout.groups[0])
            response = InferenceResponse(
                [incoming(each.name, each.array) for each in tensors], parameters=parameters or None
            )
        deliver(response, bool(final))

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
        if deliver is not None:
            self._send(number, ("cancel",))
            error = TritonError(why, TritonErrorCode.UNAVAILABLE)
            deliver(InferenceResponse(error=error), True)

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

    def _send(self, number: int, request: "tuple[Any, ...]", tensors: "Sequence[Any]" = ()) -> None:
        rest = codec.to_json(request).encode()
        header, payload = codec.write([((), tensors)] if tensors else [], rest)
        self._link.notify(REQUEST, header, payload, number)


def _output(tensor: Any) -> Output:
    name, values, code = parts_of(tensor)
    return name, datatypes.WIRE_NAMES[code], values
