"""One codec process as the server sees it: started, called, ended. Blocking; one thread at a time."""

import contextlib
import errno
import os
import socket
import typing

from naiad.core.processes import child_process
from naiad.errors import InferenceError, unavailable
from naiad.protocol.codec import frames

RESULT, REFUSED, BROKEN = 0, 1, 2
"""What an answer begins with: then come the result, an error's code and message, or a traceback."""

_SECONDS = 60.0
_SECONDS_PER_BYTE = 2e-6
"""A call may take this long: ten times what the slowest valid body took."""


class CodecBugError(Exception):
    """The function that was called raised what it should not; the message is its traceback."""


class CodecProcess:
    """A process that calls functions for the server.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as undo:
            undo.callback(ours.close)
            # numpy's libraries would start a thread per processor, which nothing here uses.
            threads = {"OPENBLAS_NUM_THREADS": "1"}
            self._process = child_process.start("naiad.protocol.codec", theirs, threads)
            undo.pop_all()
        self._socket = ours
        self._killed = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def call(self, function: frames.Function, *arguments: typing.Any) -> typing.Any:
        """Call a function there, found by its module and its name, with what pickle takes; large bytes as `frames.large`.

        Raises:
            InferenceError: what the function raised; UNAVAILABLE when the process ended or took too long, and is of no use any more, and
                when there is no memory or no descriptor left for the arguments or the result.
            CodecBugError: the function raised something else.
        """
        try:
            memory_file = frames.write((function.__module__, function.__name__, arguments))
        except OSError as error:
            raise shortage(error) from error
        flags = 0
        try:
            limit = _SECONDS + _SECONDS_PER_BYTE * os.fstat(memory_file).st_size
            self._socket.settimeout(limit)
            socket.send_fds(self._socket, [b"c"], [memory_file])
            _, descriptors, flags, _ = socket.recv_fds(self._socket, 1, 1)
        except TimeoutError:
            self.kill()
            raise unavailable(
                f"the message took longer than {limit:.0f} s to decode or encode, and was given up; send tensors as binary data"
            ) from None
        except OSError:
            descriptors = []
        finally:
            os.close(memory_file)
        if not descriptors and flags & socket.MSG_CTRUNC:
            raise shortage(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        if not descriptors:
            self.kill()
            raise unavailable(
                f"the process that decodes and encodes large messages {child_process.in_words(self._process.wait())} while it had this one; "
                "send it again"
            )
        kind, value = frames.read(descriptors[0])
        if kind == RESULT:
            return value
        if kind == REFUSED:
            raise InferenceError(*value)
        raise CodecBugError(value)

    def is_alive(self) -> bool:
        """Whether it can be called."""
        return not self._killed and self._process.poll() is None

    def kill(self) -> None:
        """End it; from any thread. A call in progress fails."""
        self._killed = True
        self._process.kill()

    def close(self) -> None:
        """End it and release everything. No call is in progress. Idempotent."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


def shortage(error: OSError) -> InferenceError:
    """The server itself has no room for a message that goes to a codec process, or for the process."""
    return unavailable(
        f"the server has no file descriptor or no memory left to have a large message decoded or encoded ({error}); send it again later, and "
        "if this happens often, give the server a higher limit of open files (ulimit -n) or more memory"
    )
