"""Runs the programs that make environments: their lines go to the log as they come, and they end when the server does.

Blocking, for the loader's threads. Each program leads a process group of its own, so that Ctrl-C at the terminal does not reach it before
the server has decided, and so that what it started ends with it.
"""

import collections
import collections.abc
import contextlib
import logging
import os
import pathlib
import signal
import subprocess
import threading

_log = logging.getLogger("naiad.environments")

_KEPT_LINES = 200

LIMIT_S = 3600.0
"""How long a program may take: building the largest packages from source takes most of an hour."""


class ClosedError(Exception):
    """The server stops; no more environments are made."""


class FailedError(Exception):
    """A program failed.

    Args:
        status: its exit status; negative for a signal.
    """

    def __init__(self, output: collections.abc.Sequence[str], status: int) -> None:
        super().__init__(f"exit status {status}")
        self.output = output
        self.status = status


class Programs:
    """The programs that run."""

    def __init__(self, closing: threading.Event) -> None:
        self._closing = closing
        self._running = set[subprocess.Popen[bytes]]()
        self._mutex = threading.Lock()

    def run(
        self,
        command: collections.abc.Sequence[str],
        *,
        environ: collections.abc.Mapping[str, str],
        folder: pathlib.Path,
        keep: int | None = None,
        on_line: collections.abc.Callable[[str], None] | None = None,
        limit_s: float = LIMIT_S,
    ) -> bytes:
        """Run a program to its end and return its output.

        `keep` is a descriptor that stays open in it until it ends. `on_line` is called with each line; the output then includes standard error, and
        only the last lines are returned.

        Raises:
            FailedError: its exit status is not 0, or it took longer than `limit_s` and was ended.
            ClosedError: it was ended because the server stops.
            OSError: it cannot be started.
        """
        with subprocess.Popen(  # noqa: S603 - programs of environments, which run models' code anyway
            command,
            env=dict(environ),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if on_line is not None else None,
            start_new_session=True,
            pass_fds=() if keep is None else (keep,),
        ) as process:
            with self._mutex:
                self._running.add(process)
                if self._closing.is_set():
                    _kill(process)
            late = threading.Event()

            def end_late() -> None:
                late.set()
                _kill(process)

            timer = threading.Timer(limit_s, end_late)
            timer.daemon = True
            timer.start()
            try:
                output = _read(process, on_line)
                status = process.wait()
            except BaseException:
                _kill(process)
                raise
            finally:
                timer.cancel()
                with self._mutex:
                    self._running.discard(process)
        if status and self._closing.is_set():
            raise ClosedError
        if status:
            lines = os.fsdecode(output).splitlines()[-_KEPT_LINES:]
            if late.is_set():
                lines.append(f"error: it took longer than {limit_s:g} s and was ended")
            raise FailedError(lines, status)
        return output

    def close(self) -> None:
        """End all programs."""
        with self._mutex:
            for process in self._running:
                _kill(process)


def _read(
    process: "subprocess.Popen[bytes]", on_line: collections.abc.Callable[[str], None] | None
) -> bytes:
    assert process.stdout is not None
    if on_line is None:
        return process.stdout.read()
    last = collections.deque[bytes](maxlen=_KEPT_LINES)
    for line in process.stdout:
        last.append(line)
        on_line(os.fsdecode(line).rstrip())
    return b"".join(last)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
