"""Starts a process without the interpreter lock, and says how it ended.

`subprocess` and `os.posix_spawn` hold the interpreter lock until the new process has executed its program, and all threads wait for that: milliseconds, and on a
busy machine tens of them. Here `posix_spawnp` is called by ctypes, which releases the lock; only the calling thread waits.

A process that asks the system to end it with its parent (PDEATHSIG) ends with the *thread* that started it, so call `launch` in a thread that stays.
"""

import collections.abc
import contextlib
import ctypes
import fcntl
import functools
import os
import select
import signal
import time
import typing

_SETPGROUP, _SETSIGDEF, _SETSID = 0x02, 0x04, 0x80
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these, and its children are to have them."""

_OPAQUE = 1 << 10
"""More bytes than the structures of glibc and musl have."""

_STANDARD = 3
_POLL_S = 0.05


class Child:
    """A child process that was started here.

    Attributes:
        pid: its id, which stays its own until it is reaped, by `poll` or `wait`.
        returncode: once it is reaped: its exit status, or the negative number of the signal that ended it.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Reap it if it has ended; returns `returncode`."""
        return self._reap(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, for so many seconds at most, and reap it; returns whether it has."""
        if timeout is None:
            self._reap(0)
            return True
        end = time.monotonic() + timeout
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                poll.poll(timeout * 1_000)
            finally:
                os.close(descriptor)
        while self.poll() is None and time.monotonic() < end:
            time.sleep(_POLL_S)
        return self.returncode is not None

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except (
                ChildProcessError
            ):  # another part of the process has reaped it, or the system does
                self.returncode = 0
            else:
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def launch(
    command: collections.abc.Sequence[str],
    environ: collections.abc.Mapping[str, str],
    *,
    source: int = -1,
    output: int = -1,
    passed: collections.abc.Collection[int] = (),
    session: bool = False,
) -> Child:
    """Start a process, which leads a group of its own.

    Args:
        command: the program, looked for in PATH if it has no slash, and its arguments.
        environ: its environment variables.
        source: the descriptor of its standard input; -1: /dev/null.
        output: of its standard output and error; -1: /dev/null.
        passed: descriptors above 2 that it has under the same numbers. It has no others.
        session: whether it also leads a session.

    Raises:
        OSError: there is no such program, or no descriptor or memory left.
        ValueError: a part of the command or of the environment has a null byte.
    """
    arguments = _strings(map(os.fsencode, command))
    variables = _strings(
        os.fsencode(name) + b"=" + os.fsencode(value) for name, value in environ.items()
    )
    library, pid = _library(), ctypes.c_int()
    with contextlib.ExitStack() as undo:
        actions, attributes = ctypes.create_string_buffer(_OPAQUE), ctypes.create_string_buffer(_OPAQUE)  # fmt: skip
        _check(library.posix_spawn_file_actions_init(actions))
        undo.callback(library.posix_spawn_file_actions_destroy, actions)
        _check(library.posix_spawnattr_init(attributes))
        undo.callback(library.posix_spawnattr_destroy, attributes)
        _standard_streams(library, actions, source, output)
        for descriptor in passed:
            # To the same number: that it is not closed when the program is executed.
            _check(library.posix_spawn_file_actions_adddup2(actions, descriptor, descriptor))
        for descriptor in _inherited(passed):
            _check(library.posix_spawn_file_actions_addclose(actions, descriptor))
        signals = ctypes.create_string_buffer(_OPAQUE)
        library.sigemptyset(signals)
        for number in _IGNORED:
            library.sigaddset(signals, int(number))
        _check(library.posix_spawnattr_setsigdefault(attributes, signals))
        flags = _SETSIGDEF | (_SETSID if session else _SETPGROUP)
        _check(library.posix_spawnattr_setflags(attributes, ctypes.c_short(flags)))
        _check(
            library.posix_spawnp(
                ctypes.byref(pid), arguments[0], actions, attributes, arguments, variables
            ),
            command[0],
        )
    return Child(pid.value)


def _standard_streams(library: ctypes.CDLL, actions: typing.Any, source: int, output: int) -> None:
    nowhere = b"/dev/null"
    if source >= 0:
        _check(library.posix_spawn_file_actions_adddup2(actions, source, 0))
    else:
        _check(library.posix_spawn_file_actions_addopen(actions, 0, nowhere, os.O_RDONLY, 0))
    for stream in (1, 2):
        if output >= 0:
            _check(library.posix_spawn_file_actions_adddup2(actions, output, stream))
        else:
            _check(
                library.posix_spawn_file_actions_addopen(actions, stream, nowhere, os.O_WRONLY, 0)
            )


def _inherited(passed: collections.abc.Collection[int]) -> collections.abc.Iterator[int]:
    """The descriptors, other than these, that a program would have: libraries open some so; all of Python's are closed."""
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return
    for descriptor in map(int, names):
        if descriptor < _STANDARD or descriptor in passed:
            continue
        with contextlib.suppress(OSError):  # that of the list itself, or it was closed meanwhile
            if not fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                yield descriptor


def above_standard(descriptor: int) -> int:
    """The descriptor, or, of one of the first three, another one of the same file: in a process without standard streams."""
    if descriptor >= _STANDARD:
        return descriptor
    found: int = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD)
    return found


def _strings(parts: collections.abc.Iterable[bytes]) -> typing.Any:
    """An array that ends with NULL."""
    strings = list(parts)
    if any(b"\0" in each for each in strings):
        raise ValueError("embedded null byte")
    return (ctypes.c_char_p * (len(strings) + 1))(*strings, None)


def _check(number: int, what: str | None = None) -> None:
    if number:
        raise OSError(number, os.strerror(number), what)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
