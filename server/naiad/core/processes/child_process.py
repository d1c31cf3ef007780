"""A process beside the server that runs a module of this package: how it is started, ends with the server, and how it ended.

For the processes that decode large messages and the one that reads object stores; what they say on their socket is their own. The workers of models
are started by `hosts/process/spawn.py`, since they may run in another interpreter.
"""

import collections.abc
import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import sys
import types

import naiad

_ROOT = str(pathlib.Path(naiad.__file__).parents[1])
_PR_SET_PDEATHSIG = 1


def start(
    module: str, theirs: socket.socket, environ: collections.abc.Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Start a process that runs a module, which calls `connect`.

    Args:
        module: its name.
        theirs: its end of a socket pair, closed here.
        environ: variables that it has beside the server's.

    Raises:
        OSError: it cannot be started.
    """
    path = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH", ""))))
    with theirs:
        return subprocess.Popen(  # noqa: S603 - this interpreter and a module of ours
            [sys.executable, "-P", "-m", module, str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, **environ},
            process_group=0,
        )


def in_words(status: int) -> str:
    """How a process ended, as words that follow "the process "."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was ended by {name}"


def connect() -> socket.socket:
    """In the process that `start` started: its socket, which ends when the server does, also if another process has inherited the server's end.

    Signals of terminals and service managers are the server's to act on.
    """
    connection, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])

    def end(number: int, frame: types.FrameType | None) -> None:
        # The system sends it at the end of the thread that started this process, too.
        if os.getppid() != parent:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    signal.signal(signal.SIGTERM, end)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    end(signal.SIGTERM, None)  # it may have ended before
    return connection
