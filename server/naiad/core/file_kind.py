"""What stands where a file should be: to open a pipe would wait for a writer, and a device has no end."""

import errno
import os
import os.path
import pathlib
import stat

_SPECIAL = (
    (stat.S_ISFIFO, "a named pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def special_kind(path: pathlib.Path) -> str:
    """What a path leads to that is neither a file nor a folder, in words; "" for these, and for nothing.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return next((words for is_kind, words in _SPECIAL if is_kind(mode)), "")


def exists(path: pathlib.Path) -> bool:
    """Whether there is something; false where that cannot be looked at: a folder without the right to search it, a link to itself."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises when the right is missing


def is_file(path: pathlib.Path) -> bool:
    """Whether it is a file; false as above."""
    return os.path.isfile(path)  # noqa: PTH113 - as above


def why_no_file(path: pathlib.Path) -> str:
    """What is wrong with a path that is not a file, in the words of an error that opening it would be."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return error.strerror or str(error)
    return os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else f"it is {special_kind(path)}"
