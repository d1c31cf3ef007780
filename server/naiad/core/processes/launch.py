"""Starts a process without the interpreter lock, and says how it ended.

`subprocess` and `os.posix_spawn` hold the interpreter lock until the new process has executed its program, and all threads wait for that: milliseconds, and on a
busy machine tens of them. Here `posix_spawnp` is called by ctypes, which releases the lock; only the calling thread waits.

A process that asks the system to end it with its parent (PDEATHSIG) ends with the *thread* that started it, so call `Launch.start` in a thread that stays.
"""

import collections.abc
import contextlib
import ctypes
import fcntl
import functools
import os
import pathlib
import signal
import time
import typing
import weakref

_SETPGROUP, _SETSIGDEF, _SETSID = 0x02, 0x04, 0x80
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these, and its children are to have them."""

_OPAQUE = 1 << 10
"""More bytes than the structures of glibc and musl have."""

PASSED = 3
"""The number of the first descriptor that is passed on."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.05


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
        end, pause = time.monotonic() + timeout, _FIRST_PAUSE_S
        while self.poll() is None and time.monotonic() < end:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
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


class Launch:
    """A process that is about to be started, which leads a group of its own. Everything is made ready here, so that `start` needs the interpreter lock for moments only.

    Args:
        command: the program, looked for in PATH if it has no slash, and its arguments.
        environ: its environment variables.
        source: the descriptor of its standard input; -1: /dev/null.
        output: of its standard output and error; -1: /dev/null.
        passed: descriptors that it has as `PASSED` and the numbers that follow. It has no others.
        session: whether it also leads a session.

    Raises:
        OSError: there is no memory.
        ValueError: a part of the command or of the environment has a null byte.
    """

    def __init__(
        self,
        command: collections.abc.Sequence[str],
        environ: collections.abc.Mapping[str, str],
        *,
        source: int = -1,
        output: int = -1,
        passed: collections.abc.Sequence[int] = (),
        session: bool = False,
    ) -> None:
        self._program = command[0]
        self._arguments = _strings(map(os.fsencode, command))
        self._variables = _strings(
            os.fsencode(name) + b"=" + os.fsencode(value) for name, value in environ.items()
        )
        self._actions = _Actions()
        self._actions.descriptors(source, output, passed)
        self._attributes = _Attributes(_SETSIGDEF | (_SETSID if session else _SETPGROUP))

    def start(self) -> Child:
        """Start it. The descriptors must be open until then.

        Raises:
            OSError: there is no such program, or no descriptor or memory left.
        """
        pid = ctypes.c_int()
        failed = _c().posix_spawnp(
            ctypes.byref(pid), self._arguments[0], self._actions.structure, self._attributes.structure, self._arguments, self._variables
        )  # fmt: skip
        _check(failed, self._program)
        return Child(pid.value)


class _Actions:
    """What the new process does with its descriptors (posix_spawn_file_actions_t)."""

    def __init__(self) -> None:
        self.structure = ctypes.create_string_buffer(_OPAQUE)
        _check(_quick().posix_spawn_file_actions_init(self.structure))
        weakref.finalize(self, _quick().posix_spawn_file_actions_destroy, self.structure)

    def descriptors(self, source: int, output: int, passed: collections.abc.Sequence[int]) -> None:
        """Give it these, by way of numbers above all of them, because each may have the number that another one is to get."""
        wanted = [source, output, output, *passed]
        aside = max(*wanted, len(wanted)) + 1
        for number, descriptor in enumerate(wanted):
            if descriptor >= 0:
                self._copy(descriptor, aside + number)
        for number, descriptor in enumerate(wanted):
            if descriptor >= 0:
                self._copy(aside + number, number)
            else:
                self._open_nothing(number)
        first_closed = len(wanted)
        try:
            close_from = _quick().posix_spawn_file_actions_addclosefrom_np
        except AttributeError:  # musl, glibc before 2.34
            for descriptor in (*range(aside, aside + len(wanted)), *_inherited(first_closed)):
                _check(_quick().posix_spawn_file_actions_addclose(self.structure, descriptor))
        else:
            _check(close_from(self.structure, first_closed))

    def _copy(self, descriptor: int, number: int) -> None:
        _check(_quick().posix_spawn_file_actions_adddup2(self.structure, descriptor, number))

    def _open_nothing(self, number: int) -> None:
        _check(
            _quick().posix_spawn_file_actions_addopen(
                self.structure, number, b"/dev/null", os.O_RDWR, 0
            )
        )


class _Attributes:
    """What else it does before it executes its program (posix_spawnattr_t)."""

    def __init__(self, flags: int) -> None:
        library = _quick()
        self.structure = ctypes.create_string_buffer(_OPAQUE)
        _check(library.posix_spawnattr_init(self.structure))
        weakref.finalize(self, library.posix_spawnattr_destroy, self.structure)
        signals = ctypes.create_string_buffer(_OPAQUE)
        library.sigemptyset(signals)
        for number in _IGNORED:
            library.sigaddset(signals, int(number))
        _check(library.posix_spawnattr_setsigdefault(self.structure, signals))
        _check(library.posix_spawnattr_setflags(self.structure, ctypes.c_short(flags)))


def _inherited(first: int) -> collections.abc.Iterator[int]:
    """The descriptors from this number on that a program would have: libraries open some so; all of Python's are closed."""
    try:
        names = [each.name for each in pathlib.Path("/proc/self/fd").iterdir()]
    except OSError:
        return
    for descriptor in map(int, names):
        if descriptor < first:
            continue
        with contextlib.suppress(OSError):  # that of the list itself, or it was closed meanwhile
            if not fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                yield descriptor


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
def _c() -> ctypes.CDLL:
    """The C library; its functions are called without the interpreter lock."""
    return ctypes.CDLL(None)


@functools.cache
def _quick() -> ctypes.PyDLL:
    """The same for functions that take no time: to get the lock back may take some."""
    return ctypes.PyDLL(None)
