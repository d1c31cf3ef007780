"""The process that writes trace files: `python -m naiad.tracing.writer_child`, started by `writer_process`.

It makes text of traces and writes it, so that neither takes the interpreter lock of the server. It ends with the server, at the end of its socket or by a signal
of the kernel, once it has written what it was sent.
"""

import collections.abc
import contextlib
import os
import signal
import sys
import types
import typing

import msgspec

from naiad.core.processes import child_process
from naiad.core.processes.message_stream import Sender, received
from naiad.tracing.file_writer import FileWriter
from naiad.tracing.writing import Asks, Begun, Message, Numbers, Records

_LAST_SECONDS = 3
"""So long it may write once the server is gone: a pipe without a reader would keep it for ever."""

_NICENESS = 10
"""Requests have the processors first: text of two thousand traces would keep the event loop from one for milliseconds."""

_Handler = collections.abc.Callable[[int, types.FrameType | None], None]


def take(writer: FileWriter, sender: Sender, message: Message) -> None:
    """Do what the server has sent."""
    match message:
        case Numbers():
            writer.usual(message.path, message.usual)
        case Records():
            writer.records(message)
        case Begun():
            writer.begun.update(message.paths)
        case Asks():
            sender.send(writer.written())


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
    sender, writer = Sender(connection), FileWriter()
    # A message that is cut off is one of a server that was killed.
    with contextlib.suppress(OSError, msgspec.DecodeError):
        for message in received(connection, msgspec.msgpack.Decoder(Message)):
            take(writer, sender, message)
    writer.close()


if __name__ == "__main__":
    main()
