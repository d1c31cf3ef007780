"""What a library may call: the functions of `naiad_host`, for all instances of a worker process.

Limits: those of `backends/instance.py`: the standard library, Python 3.8.
"""

import ctypes
import itertools
import logging
from typing import Any

from naiad.backends.c import abi
from naiad.backends.c.outputs import BatchOutputs
from naiad.log_text import Lines

_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}
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
        )

    def begin(self, outputs: BatchOutputs) -> int:
        """A batch begins; its context."""
        context = next(self._contexts)
        self._batches[context] = outputs
        return context

    def end(self, context: int) -> None:
        """It is over."""
        del self._batches[context]

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
        batch = self._batches.get(context or 0)
        return int(batch is not None and batch.cancelled(request))

    def _times(self, context: "int | None", begun_ns: int, ended_ns: int) -> None:
        batch = self._batches.get(context or 0)
        if batch is not None:
            batch.times = begun_ns, ended_ns


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
