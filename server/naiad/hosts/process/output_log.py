"""What a worker writes, read from its pipe, as log lines of the server: prints tagged with whose they are, log records as they were meant.

A line is logged when it is complete; one without an end is cut, so that no model fills the server's memory with it. The last lines are kept
for the error of a worker that dies.
"""

import asyncio
import collections
import collections.abc
import json
import logging
import os

from typing_extensions import override

from naiad.backends.instance import InstanceSpec
from naiad.backends.python.api.logger import model_logger
from naiad.core.record import Record
from naiad.log_text import Lines

_LAST_LINES = 30
_LONGEST_LINE = 1 << 16
_LONGEST_RECORD = 1 << 20
_HIGHEST_LEVEL = 1_000
_LOG_MARK = "\x1e"  # as in worker/work.py

_PIPE_BYTES = 1 << 16
_TURN_BYTES = 1 << 11
_PAUSE_S = 0.002
"""Bytes of a worker's output that are read at a time, and the pause in between while it writes without end: a line costs the loop about 25 µs,
and a pipe holds thousands of lines."""


class Identity(Record, frozen=True):
    """The model instance whose process writes.

    Attributes:
        model: the model's name.
        version: its version.
        instance: the instance's name.
    """

    model: str
    version: int
    instance: str

    def of_all(self, instances: collections.abc.Sequence[InstanceSpec]) -> "Identity":
        """That of a process in its output and in ps, which cannot say which of its instances they are about."""
        name, others = instances[0].name, len(instances) - 1
        return Identity(self.model, self.version, f"{name}+{others}" if others else name)

    @override
    def __str__(self) -> str:
        return f"model '{self.model}' version {self.version} (instance '{self.instance}')"


class OutputLog:
    """Turns what a worker writes into log lines of the server: prints tagged, log records as they were meant.

    Args:
        identity: whose they are.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._tag = f"[{identity.model} {identity.instance}] "
        self._logger = model_logger(identity.model)
        self._begun = b""
        self._last: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)

    def last_lines(self) -> str:
        """The last lines, as they were written."""
        return "\n".join(self._last)

    def output_tail(self) -> str:
        """The last lines as the end of a sentence that says how their writer ended."""
        lines = self.last_lines()
        return f". The last that it wrote:\n{lines}" if lines else "; it wrote nothing"

    def feed(self, data: bytes) -> None:
        """Take bytes as they come; a line is logged when it is complete, or very long."""
        *lines, begun = (self._begun + data).split(b"\n")
        if len(begun) > _LONGEST_LINE and (
            len(begun) > _LONGEST_RECORD or _LOG_MARK.encode() not in begun
        ):
            lines.append(begun)
            begun = b""
        self._begun = begun
        for line in lines:
            self._line(line.decode(errors="replace"))

    def close(self) -> None:
        """There is no more."""
        if self._begun:
            self.feed(b"\n")

    def _line(self, line: str) -> None:
        printed, mark, record = line.partition(_LOG_MARK)
        if printed:
            self._last.append(printed)
            extra = {"model": self._identity.model, "instance": self._identity.instance}
            self._logger.info("%s%s", self._tag, printed, extra=extra)
        if mark:
            self._record(record)

    def _record(self, text: str) -> None:
        record = _parsed(text)
        if record is None:
            self._logger.info("%s%s", self._tag, text)
            return
        level, name, path, number, message = record
        # Loggers stay for ever, and a model may name one for each request: only those that the server has anyway are used by name.
        if not name.startswith("naiad."):
            logger = logging.getLogger()
        elif name in logging.root.manager.loggerDict:
            logger = logging.getLogger(name)
        else:
            logger = self._logger
        self._last.append(message)
        if logger.isEnabledFor(level):
            extra = {"model": self._identity.model, "instance": self._identity.instance}
            logger.handle(
                logger.makeRecord(
                    name,
                    level,
                    path,
                    number,
                    "%s%s",
                    (self._tag, Lines(message)),
                    None,
                    extra=extra,
                )
            )


class OutputReader:
    """Reads a worker's output from its pipe, on the event loop, and logs it.

    Args:
        descriptor: of the pipe. Its owner has `on_readable` called when there is output, and closes it.
        log: gets the output.
        loop: the event loop in which every method is called.
    """

    def __init__(self, descriptor: int, log: OutputLog, *, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = descriptor
        self._log = log
        self._loop = loop
        self._pause: asyncio.TimerHandle | None = None

    def on_readable(self) -> None:
        """Read a part of the output."""
        if self._read(_TURN_BYTES) == _TURN_BYTES:
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.call_later(
                _PAUSE_S, self._loop.add_reader, self._descriptor, self.on_readable
            )

    def read_rest(self) -> None:
        """Read what is left of a worker that has ended: at most what a pipe holds, because a child that left its process group may write for ever."""
        left = _PIPE_BYTES
        while left > 0 and (taken := self._read(left)):
            left -= taken

    def close(self) -> None:
        """Read no more; log a line that has no end."""
        if self._pause is not None:
            self._pause.cancel()
        self._log.close()

    def _read(self, most: int) -> int:
        """Read output; returns the number of bytes."""
        try:
            data = os.read(self._descriptor, most)
        except BlockingIOError:
            return 0
        if not data:
            self._loop.remove_reader(self._descriptor)
        self._log.feed(data)
        return len(data)


def _parsed(text: str) -> tuple[int, str, str, int, str] | None:
    """The level, logger, path, line and message of a record; None for a line that is not a record, whatever a model writes behind the mark."""
    try:
        level, name, path, number, message = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    if type(level) is not int or not 0 <= level <= _HIGHEST_LEVEL or type(number) is not int:
        return None
    if type(name) is not str or type(path) is not str or type(message) is not str:
        return None
    return level, name, path, number, message
