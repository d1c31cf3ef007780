"""The file of the log: lines are appended to the file that has its name now, so that a tool may rename or remove it (logrotate).

A signal is not needed for that, and SIGHUP stops the server. A tool that empties the file in its place (copytruncate) works as well, because each
line goes to the end of the file.
"""

import collections.abc
import contextlib
import os
import pathlib
import sys
import time

LOOK_S = 1.0
"""Between two looks at whether the file was renamed: lines of so long may be in the old one."""

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class LogFile:
    """Written to without a buffer: lines that a full disk refused would be written again and again.

    Args:
        path: the file, which is made if it does not exist.
        now_s: the monotonic clock.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(
        self, path: str, *, now_s: collections.abc.Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._now_s = now_s
        self._file = _opened(path)
        self._looked_s = now_s()
        self._is_moved = False
        self._is_cut = False

    def write(self, text: str) -> None:
        """Append text.

        Raises:
            OSError: it could not be written, or not all of it: what follows later begins with a new line.
        """
        now_s = self._now_s()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._follow()
        # As standard error: a model may log half a surrogate pair.
        rest = memoryview(("\n" * self._is_cut + text).encode("utf-8", "backslashreplace"))
        size = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            self._is_cut = self._is_cut or len(rest) < size
            raise
        self._is_cut = False

    def flush(self) -> None:
        """Nothing is buffered."""

    def close(self) -> None:
        """Close the file. Idempotent."""
        file, self._file = self._file, -1
        if file >= 0:
            with contextlib.suppress(OSError):
                os.close(file)

    def _follow(self) -> None:
        """Open the file again if another one has its name, or none; a failure is reported once, and the lines go on into the old one."""
        try:
            if os.path.samestat(pathlib.Path(self._path).stat(), os.fstat(self._file)):
                self._is_moved = False
                return
        except OSError:
            pass  # there is none: it is made
        try:
            file = _opened(self._path)
        except OSError as error:
            if not self._is_moved:
                self._is_moved = True
                with contextlib.suppress(OSError):
                    sys.stderr.write(
                        f"naiad: --log-file={self._path} was renamed or removed and cannot be opened again: {error.strerror}; log lines go on into the old file\n"
                    )
                    sys.stderr.flush()
            return
        os.close(self._file)
        self._file, self._is_moved, self._is_cut = file, False, False


def _opened(path: str) -> int:
    return os.open(path, _FLAGS, 0o666)
