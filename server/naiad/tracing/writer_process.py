"""The server's side of the process that writes trace files.

One thread uses it, which outlives it: the kernel ends the process with the thread that started it.
"""

import collections.abc
import contextlib
import errno
import os
import socket
import subprocess

import msgspec

from naiad.core.processes import child_process
from naiad.core.processes.message_stream import Sender, received
from naiad.tracing.json_array import cut_off
from naiad.tracing.rows import Rows
from naiad.tracing.usual import Usual, UsualTexts
from naiad.tracing.writing import Asks, Begun, Fault, Numbers, Place, Records, Written

_MODULE = "naiad.tracing.writer_child"
_START_SECONDS = 60.0
_END_SECONDS = 3.0


class WriterProcess:
    """Implements `Writer`. `written` waits for the disk.

    Args:
        begun: as below.
        rows: the memory of usual traces: the process maps it, so that they are not sent.

    Attributes:
        begun: files that were written before, which go on behind what they have.
        has_ended: whether the process is gone. What it has written is whole, and another writer may go on.
    """

    def __init__(self, begun: collections.abc.Collection[str], rows: Rows) -> None:
        self.begun = begun
        self._rows = rows
        self.has_ended = False
        self._connection, self._theirs = socket.socketpair()
        self._sender = Sender(self._connection)
        self._replies: collections.abc.Iterator[Written] = iter(())
        self._process: subprocess.Popen[bytes] | None = None
        self._places: dict[str, Place] = {}
        self._given: list[tuple[str, int]] = []
        self._messages: list[bytes] = []

    def start(self) -> None:
        """Start it, and wait until it takes traces.

        Raises:
            OSError: it cannot be started.
        """
        if self._rows.descriptor is None:
            self._theirs.close()
            self.close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        try:
            # It works on a few hundred numbers at a time, which one thread does best.
            self._process = child_process.start(
                _MODULE, self._theirs, {"OPENBLAS_NUM_THREADS": "1"}
            )
            socket.send_fds(self._connection, [b"\0"], [self._rows.descriptor])
            self._connection.settimeout(_START_SECONDS)
            self._replies = received(self._connection, msgspec.msgpack.Decoder(Written))
            self._messages.append(self._sender.encoded(Begun(list(self.begun))))
            runs = self._answer() is not None
            self._connection.settimeout(None)
        except OSError:
            self.close()
            raise
        if not runs:
            how = self._how()
            self.close()
            raise OSError(errno.ECHILD, f"it {how}")

    def usual(self, path: str, traces: Usual) -> None:
        """See `Writer`."""
        numbers = Numbers(path, traces.first, len(traces.numbers), traces.runs)
        self._given.append((path, numbers.traces))
        try:
            self._messages.append(self._sender.encoded(numbers))
        except UnicodeEncodeError:  # a request id with half of a surrogate pair
            framed = UsualTexts().framed(traces)
            text = Records(path, numbers.traces, bytes(framed[1:-1]), grows=True)
            self._messages.append(self._sender.encoded(text))

    def records(self, piece: Records) -> None:
        """See `Writer`."""
        self._given.append((piece.path, piece.traces))
        self._messages.append(self._sender.encoded(piece))

    def written(self) -> Written:
        """See `Writer`."""
        given, self._given = self._given, []
        reply = None if self.has_ended else self._answer()
        if reply is not None:
            self._places.update(reply.places)
            return reply
        how = f"the process that writes it {self._how()}"
        self.close()
        for path, place in self._places.items():
            with contextlib.suppress(OSError):
                cut_off(path, inode=place.inode, end=place.end)
        return Written([Fault(path, traces, errno.EIO, how) for path, traces in given], {})

    def abandon(self) -> None:
        """Any thread: what waits for the disk is given up."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Writer`."""
        self.has_ended = True
        self.abandon()
        self._end()
        self._connection.close()

    def _answer(self) -> Written | None:
        """Send what it was given, and wait until that is written. None: it is gone."""
        messages, self._messages = self._messages, []
        messages.append(self._sender.encoded(Asks()))
        try:
            self._sender.send_all(messages)
            return next(self._replies, None)
        except (OSError, msgspec.DecodeError):
            return None

    def _how(self) -> str:
        """How it has ended, or ends now."""
        status = self._end()
        return "did not answer" if status is None else child_process.in_words(status)

    def _end(self) -> int | None:
        """Its status; None if it had to be killed."""
        process = self._process
        if process is None:
            return 0
        try:
            return process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None
