"""Names environments by what they are built from, so that equal ones are built once.

A name is a hash of contents, never of paths or times: two models with the same requirements, two servers and an image share one.
"""

import collections.abc
import errno
import hashlib
import importlib.machinery
import os
import pathlib
import platform
import re
import sys
import threading

from naiad.core.file_kind import special_kind

_DIGITS = 20
"""Hex digits of a name: 80 bits."""

_COMMENT = re.compile(r"(^|\s)#.*$")
_INCLUDED = re.compile(r"^(?:-r|-c|--requirement|--constraint)(?:\s+|=|(?<=-[rc]))(.+)$")
_LOCAL = re.compile(
    r"^(?:-e\s+|--editable[\s=]+)?(?:file:(?://)?)?((?:\.{0,2}/|\.$|\.\[)[^\s;\[]*)"
)


def interpreter() -> str:
    """What packages that are installed for this interpreter depend on: its version, ABI, machine and prefix."""
    return " ".join(
        (
            sys.implementation.name,
            platform.python_version(),
            # The ABI. Python's sysconfig has it as well, but not for a thread that asks while another one is the first to ask.
            importlib.machinery.EXTENSION_SUFFIXES[0].removeprefix(".").removesuffix(".so"),
            platform.machine(),
            sys.base_prefix,
        )
    )


def of_requirements(file: pathlib.Path, wheels: pathlib.Path | None) -> str:
    """The name of the environment that a requirements file describes, for this interpreter.

    Comments and blank lines have no effect; included files do, and so do local projects and wheels that the file names.

    Raises:
        OSError: something that it names cannot be read.
    """
    digest = hashlib.sha256(interpreter().encode())
    for line in requirement_lines(file):
        digest.update(b"\n" + line.encode())
    if wheels is not None:
        digest.update(b"\nwheels")
        for path in sorted(wheels.iterdir(), key=lambda wheel: wheel.name):
            if path.is_file():
                digest.update(f"\n{path.name} {contents(path)}".encode())
    return digest.hexdigest()[:_DIGITS]


def of_tarball(path: pathlib.Path) -> str:
    """The name of the environment in a tarball.

    Raises:
        OSError: it cannot be read.
    """
    return contents(path)[:_DIGITS]


def requirement_lines(file: pathlib.Path) -> list[str]:
    """The requirements of a file, line by line; a file or folder that it names is replaced by its contents.

    Raises:
        OSError: something that it names cannot be read.
    """
    return list(_lines(file, set()))


def _lines(file: pathlib.Path, seen: set[pathlib.Path]) -> collections.abc.Iterator[str]:
    if file.resolve() in seen:
        return
    seen.add(file.resolve())
    for raw in file.read_text().replace("\\\n", " ").splitlines():
        line = _COMMENT.sub("", raw).strip()
        if not line:
            continue
        included = _INCLUDED.match(line)
        if included is not None and (file.parent / included[1].strip()).is_file():
            yield line[:2]
            yield from _lines(file.parent / included[1].strip(), seen)
            continue
        yield line
        local = _LOCAL.match(line)
        if local is not None:
            # The installer reads relative paths from its working folder, which is that of the first file.
            yield from _tree(file.parent / (local[1] or "."))


def _tree(path: pathlib.Path) -> collections.abc.Iterator[str]:
    if path.is_file():
        yield contents(path)
    elif path.is_dir():
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                file = pathlib.Path(folder, name)
                yield f"{file.relative_to(path)} {contents(file)}"


_MAX_KNOWN = 4096
"""Files whose hashes are remembered, about 300 bytes each; a server whose models come and go reads ever new ones."""

_known: dict[tuple[int, int, int, int], str] = {}
_lock = threading.Lock()


def contents(path: pathlib.Path) -> str:
    """The SHA-256 of a file; a file that has not changed is not read again.

    Raises:
        OSError: it cannot be read.
    """
    if kind := special_kind(path):
        raise OSError(errno.EINVAL, f"it is {kind}, and not a file", str(path))
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        with _lock:
            known = _known.get(key)
        if known is None:
            known = hashlib.file_digest(file, "sha256").hexdigest()
            with _lock:
                _known[key] = known
                if len(_known) > _MAX_KNOWN:
                    del _known[next(iter(_known))]
    return known
