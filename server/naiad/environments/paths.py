"""The paths of the parts of an environment: interpreter, packages, and the files that tell whether it has changed."""

import os
import pathlib
import sys

_INTERPRETERS = ("python", "python3")


def interpreter_in(folder: pathlib.Path) -> pathlib.Path | None:
    """An environment's interpreter; None if it has none, or a broken link."""
    for name in _INTERPRETERS:
        path = folder / "bin" / name
        if path.is_file():
            return path
    return None


def broken_link(folder: pathlib.Path) -> str:
    """The target of the link to an environment's interpreter; "" if it is not a link."""
    for name in _INTERPRETERS:
        path = folder / "bin" / name
        if path.is_symlink():
            return str(path.readlink())
    return ""


Changes = tuple[tuple[int, int] | None, ...]
"""Inode and time of the last change of some files; None for one that does not exist."""


def changes(folder: pathlib.Path) -> Changes:
    """Inode and times of the files that define an environment's interpreter and its variables; they differ once one has changed."""
    names = ["pyvenv.cfg", "etc/conda/activate.d", "bin/activate"]
    names += [f"bin/{name}" for name in _INTERPRETERS]
    return tuple(_change(folder / name) for name in names)


def _change(path: pathlib.Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def packages_in(folder: pathlib.Path) -> pathlib.Path:
    """The folder of an environment's packages for this server's version of Python."""
    major, minor = sys.version_info[:2]
    return folder / "lib" / f"python{major}.{minor}" / "site-packages"


def own_interpreter() -> str:
    """The server's interpreter, without the packages of the server's virtual environment."""
    return str(getattr(sys, "_base_executable", "") or sys.executable)


def home() -> str:
    """The user's home folder; "~" if it is unknown."""
    return os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises where there is none
