"""What a library may call: the functions of `naiad_host`, for all instances of a worker process.

Limits: those of `backends/instance.py`: the standard library, Python 3.8.
"""

import ctypes
import itertools
import logging
from collections.abc import Callable
from typing import Any

from naiad.backends.c import abi
from naiad.backends.c.deferred import DROP, FINAL, MAX_BEGUN, DeferredRequest
from naiad.backends.c.outputs import BatchOutputs
from naiad.log_text import Lines

_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}
_OVER = "the library calls %s for a deferred request that has had its last response, or for none: refused"
_LATE = "the library calls %s for a batch that has ended, or for none: refused"


class LibraryHost:
    """Makes `naiad_host`, and finds the batch of a call. Any thread of the library may call.

    Args:
        log: what the library writes goes here.

    Attributes:
        table: the struct; it must live as long as the library.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._batches: dict[int, BatchOutputs] = {}
        self._makers: dict[int, Callable[[int], DeferredRequest | None]] = {}
        self._deferred: dict[int, DeferredRequest] = {}
        self._of_responses: dict[int, int] = {}
        self._completed: str | None = None
        self._contexts = itertools.count(1)
        self.table = abi.Host(
            abi.VERSION,
            0,
            abi.LOG(self._write),
            abi.OUTPUT(self._output),
            abi.FAIL(self._fail),
            abi.PARAMETER(self._parameter),
            abi.CANCELLED(self._cancelled),
            abi.TIMES(self._times),
            abi.DEFER(self._defer),
            abi.RESPONSE(self._response),
            abi.SEND(self._send),
            abi.END(self._end),
            abi.COMPLETE(self._complete),
        )

    @property
    def completed(self) -> "str | None":
        """The config as the library wants it; None if it left it alone."""
        return self._completed

    def begin(self, outputs: BatchOutputs, defer: "Callable[[int], DeferredRequest | None]") -> int:
        """A batch begins; its context. `defer` takes the request of a position out of it."""
        context = next(self._contexts)
        self._batches[context] = outputs
        self._makers[context] = defer
        return context

    def end(self, context: int) -> None:
        """It is over."""
        del self._batches[context], self._makers[context]

    def forget_closed(self) -> None:
        """A batch has failed: the library will not name what it has deferred of it again."""
        for number, deferred in tuple(self._deferred.items()):
            if deferred.over:
                self._forget(number)

    def _write(self, level: int, text: "bytes | None") -> None:
        words = (text or b"").decode("utf-8", "replace")
        self._log.log(_LEVELS.get(level, logging.INFO), "%s", Lines(words))

    def _output(  # noqa: PLR0917 - as the header has it
        self,
        context: "int | None",
        request: int,
        name: "bytes | None",
        datatype: int,
        shape: Any,
        rank: int,
        size: int,
    ) -> int:
        batch = self._batches.get(context or 0)
        if batch is None:
            self._log.error(_LATE, "output")
            return 0
        try:
            return batch.output(request, name, datatype, shape, rank, size)
        except Exception as error:  # noqa: BLE001 - it would be lost in the library
            self._log.exception("an output could not be made")
            batch.fail(request, 2, f"an output could not be made: {error}")
            return 0

    def _fail(self, context: "int | None", request: int, status: int, text: "bytes | None") -> None:
        batch = self._batches.get(context or 0)
        if batch is None:
            self._log.error(_LATE, "fail")
            return
        batch.fail(request, status, (text or b"").decode("utf-8", "replace"))

    def _parameter(
        self, context: "int | None", request: int, name: "bytes | None", value: "bytes | None"
    ) -> None:
        batch = self._batches.get(context or 0)
        if batch is None:
            self._log.error(_LATE, "parameter")
            return
        batch.parameter(request, name or b"", value or b"")

    def _cancelled(self, context: "int | None", request: int) -> int:
        number = context or 0
        found = self._batches.get(number) or self._deferred.get(number)
        return int(found is not None and found.cancelled(request))

    def _times(self, context: "int | None", begun_ns: int, ended_ns: int) -> None:
        batch = self._batches.get(context or 0)
        if batch is not None:
            batch.times = begun_ns, ended_ns

    def _defer(self, context: "int | None", request: int) -> int:
        maker = self._makers.get(context or 0)
        if maker is None:
            self._log.error(_LATE, "defer")
            return 0
        deferred = maker(request)
        if deferred is None:
            self._log.error("the library defers request %d of a batch, which is not there or has been answered: refused", request)  # fmt: skip
            return 0
        number = next(self._contexts)
        self._deferred[number] = deferred
        return number

    def _response(self, number: "int | None") -> int:
        deferred = self._deferred.get(number or 0)
        if deferred is not None and len(deferred.begun) >= MAX_BEGUN:
            deferred.give_up()
            self._forget(number or 0)
        outputs = None if deferred is None else deferred.begin()
        if deferred is None or outputs is None:
            self._log.error(_OVER, "response")
            return 0
        context = next(self._contexts)
        self._batches[context] = outputs
        self._of_responses[context] = number or 0
        deferred.begun.add(context)
        return context

    def _send(self, context: "int | None", how: int) -> None:
        number = self._of_responses.pop(context or 0, None)
        if number is None:
            self._log.error("the library sends a response that it has not begun, or has sent: refused")  # fmt: skip
            return
        outputs = self._batches.pop(context or 0)
        if (deferred := self._deferred.get(number)) is not None:
            deferred.begun.discard(context or 0)
        if how != DROP:
            self._hand_over(number, "send", lambda deferred: deferred.send(outputs, final=how == FINAL))  # fmt: skip

    def _end(self, number: "int | None") -> None:
        self._hand_over(number or 0, "end", DeferredRequest.end)

    def _hand_over(self, number: int, what: str, send: "Callable[[DeferredRequest], bool]") -> None:
        deferred = self._deferred.get(number)
        try:
            if deferred is None or not send(deferred):
                self._log.error(_OVER, what)
        except Exception:  # noqa: BLE001 - it would be lost in the library
            self._log.exception("a response could not be sent")
        if deferred is None or deferred.over:
            self._forget(number)

    def _forget(self, number: int) -> None:
        """A deferred request is over: what was begun for it and not sent ends with it."""
        deferred = self._deferred.pop(number, None)
        if deferred is None:
            return
        if deferred.begun:
            self._log.error("the library began %d responses to a request and sent none of them: they end with its last response", len(deferred.begun))  # fmt: skip
        for context in tuple(deferred.begun):
            self._of_responses.pop(context, None)
            self._batches.pop(context, None)

    def _complete(self, config: "bytes | None") -> None:
        self._completed = (config or b"").decode("utf-8", "replace")


class ErrorText:
    """A `naiad_error` to fill in."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(abi.ERROR_BYTES)
        self._error = abi.Error(ctypes.addressof(self._memory), abi.ERROR_BYTES)
        self.pointer = ctypes.pointer(self._error)

    def clear(self) -> None:
        """Forget the text."""
        self._memory[0] = b"\0"

    @property
    def text(self) -> str:
        """What the library wrote; a text that does not end is cut off."""
        return self._memory.raw.partition(b"\0")[0].decode("utf-8", "replace")
