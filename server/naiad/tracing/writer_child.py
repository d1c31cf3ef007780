"""The process that writes trace files: `python -m naiad.tracing.writer_child`, started by `writer_process`.

It makes text of traces and writes it, so that neither takes the interpreter lock of the server. It ends with the server, at the end of its socket or by a signal
of the kernel, once it has written what it was sent.
"""

import collections.abc
import contextlib
import mmap
import os
import signal
import socket
import sys
import types
import typing

import msgspec
import numpy as np

from naiad.core.processes import child_process
from naiad.core.processes.message_stream import Sender, received
from naiad.tracing.file_writer import FileWriter
from naiad.tracing.rows import numbers_in
from naiad.tracing.usual import Usual
from naiad.tracing.writing import Asks, Begun, Message, Numbers, Records

_LAST_SECONDS = 3
"""So long it may write once the server is gone: a pipe without a reader would keep it for ever."""

_NICENESS = 10
"""Requests have the processors first: text of two thousand traces would keep the event loop from one for milliseconds."""

_AT_ONCE = 1024
"""So many usual traces become text together: a megabyte, which stays in the processor's cache. Of fewer, calls of numpy would be most of the work."""

_Handler = collections.abc.Callable[[int, types.FrameType | None], None]


class Child:
    """Does what the server has sent, in this order. Usual traces wait for further ones, until the server asks or sends something else."""

    def __init__(
        self, writer: FileWriter, sender: Sender, rows: np.ndarray[typing.Any, np.dtype[np.int64]]
    ) -> None:
        self._writer = writer
        self._sender = sender
        self._rows = rows
        self._path = ""
        self._waiting: list[Usual] = []
        self._count = 0

    def take(self, message: Message) -> None:
        """Do what a message says."""
        if isinstance(message, Numbers):
            if message.path != self._path or self._count + message.traces > _AT_ONCE:
                self.flush()
                self._path = message.path
            first = message.first
            numbers = self._rows[first : first + message.traces]
            self._waiting.append(Usual(numbers, message.runs, first))
            self._count += message.traces
            return
        self.flush()
        match message:
            case Records():
                self._writer.records(message)
            case Begun():
                self._writer.begun.update(message.paths)
            case Asks():
                self._sender.send(self._writer.written())

    def flush(self) -> None:
        """Write the usual traces that wait."""
        waiting = self._waiting
        if not waiting:
            return
        self._waiting, self._count = [], 0
        self._writer.usual(self._path, joined(waiting))


def joined(parts: collections.abc.Sequence[Usual]) -> Usual:
    """The traces of several messages, in their order."""
    if len(parts) == 1:
        return parts[0]
    runs: list[tuple[int, str, str]] = []
    begin = 0
    for part in parts:
        for at, request_id, name in part.runs:
            if not runs or runs[-1][1:] != (request_id, name):
                runs.append((begin + at, request_id, name))
        begin += len(part.numbers)
    return Usual(np.concatenate([part.numbers for part in parts]), runs)


def shared_rows(connection: socket.socket) -> np.ndarray[typing.Any, np.dtype[np.int64]]:
    """The memory of the server's usual traces, whose descriptor comes before all messages. Raises OSError."""
    _, (descriptor,), _, _ = socket.recv_fds(connection, 1, 1)
    try:
        return numbers_in(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))
    finally:
        os.close(descriptor)


def main() -> None:
    """Write until the server is gone."""
    connection, server = child_process.connect(), int(sys.argv[2])
    disconnect = typing.cast("_Handler", signal.getsignal(signal.SIGTERM))

    def end(number: int, frame: types.FrameType | None) -> None:
        if os.getppid() != server:
            signal.alarm(_LAST_SECONDS)
        disconnect(number, frame)

    signal.signal(signal.SIGTERM, end)
    os.nice(_NICENESS)
    writer = FileWriter()
    child = Child(writer, Sender(connection), shared_rows(connection))
    # A message that is cut off is one of a server that was killed.
    with contextlib.suppress(OSError, msgspec.DecodeError):
        for message in received(connection, msgspec.msgpack.Decoder(Message)):
            child.take(message)
    child.flush()
    writer.close()


if __name__ == "__main__":
    main()
