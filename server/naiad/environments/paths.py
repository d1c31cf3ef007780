"""Where things are in an environment's folder."""

import os
import pathlib
import sys

_INTERPRETERS = ("python", "python3")


def interpreter_in(folder: pathlib.Path) -> pathlib.Path | None:
    """An environment's interpreter; None when it has none, or a link that leads nowhere on this machine."""
    for name in _INTERPRETERS:
        path = folder / "bin" / name
        if path.is_file():
            return path
    return None


def broken_link(folder: pathlib.Path) -> str:
    """Where the link to an environment's interpreter leads; "" without a link."""
    for name in _INTERPRETERS:
        path = folder / "bin" / name
        if path.is_symlink():
            return str(path.readlink())
    return ""


Changes = tuple[tuple[int, int] | None, ...]
"""Inode and time of the last change of some files; None for one that is not there."""


def changes(folder: pathlib.Path) -> Changes:
    """Tells whether an environment's interpreter, or what says its variables, is another one than before."""
    telling = ["pyvenv.cfg", "etc/conda/activate.d", "bin/activate"]
    telling += [f"bin/{name}" for name in _INTERPRETERS]
    return tuple(_change(folder / each) for each in telling)


def _change(path: pathlib.Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def packages_in(folder: pathlib.Path) -> pathlib.Path:
    """Where an environment has packages for this server's version of Python."""
    major, minor = sys.version_info[:2]
    return folder / "lib" / f"python{major}.{minor}" / "site-packages"


def own_interpreter() -> str:
    """The server's interpreter, without the packages of the server's virtual environment."""
    return str(getattr(sys, "_base_executable", "") or sys.executable)


def home() -> str:
    """The user's home folder; "~" when nobody knows it."""
    return os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises where there is none
