"""Names environments by what they are made of, so that equal ones are made once.

A name is a hash of contents, never of places or times: two models with the same requirements, two servers and an image share one.
"""

import collections.abc
import hashlib
import os
import pathlib
import platform
import re
import sys
import sysconfig
import threading

_SHOWN = 20
"""Hex digits of a name: 80 bits."""

_COMMENT = re.compile(r"(^|\s)#.*$")
_INCLUDED = re.compile(r"^(?:-r|-c|--requirement|--constraint)(?:\s+|=|(?<=-[rc]))(.+)$")
_LOCAL = re.compile(
    r"^(?:-e\s+|--editable[\s=]+)?(?:file:(?://)?)?((?:\.{0,2}/|\.$|\.\[)[^\s;\[]*)"
)


def interpreter() -> str:
    """This interpreter, as far as packages installed for it care."""
    return " ".join(
        (
            sys.implementation.name,
            platform.python_version(),
            str(sysconfig.get_config_var("SOABI")),
            platform.machine(),
            sys.base_prefix,
        )
    )


def of_requirements(file: pathlib.Path, wheels: pathlib.Path | None) -> str:
    """The name of the environment that a requirements file describes, for this interpreter.

    Comments and blank lines do not count; files that it includes do, and so do local projects and wheels that it names.

    Raises:
        OSError: something that it names cannot be read.
    """
    digest = hashlib.sha256(interpreter().encode())
    for line in requirement_lines(file):
        digest.update(b"\n" + line.encode())
    if wheels is not None:
        digest.update(b"\nwheels")
        for path in sorted(wheels.iterdir(), key=lambda each: each.name):
            if path.is_file():
                digest.update(f"\n{path.name} {contents(path)}".encode())
    return digest.hexdigest()[:_SHOWN]


def of_tarball(path: pathlib.Path) -> str:
    """The name of the environment in a tarball.

    Raises:
        OSError: it cannot be read.
    """
    return contents(path)[:_SHOWN]


def requirement_lines(file: pathlib.Path) -> list[str]:
    """What a requirements file asks for, line by line; in place of a file or folder that it names, what is in there.

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
            folders[:] = sorted(each for each in folders if each != "__pycache__")
            for name in sorted(names):
                each = pathlib.Path(folder, name)
                yield f"{each.relative_to(path)} {contents(each)}"


_MOST_KNOWN = 4096
"""Files whose contents are remembered, some 300 bytes each; a server whose models come and go meets new ones for ever."""

_known: dict[tuple[int, int, int, int], str] = {}
_lock = threading.Lock()


def contents(path: pathlib.Path) -> str:
    """The SHA-256 of a file; files that did not change since are not read again.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        with _lock:
            known = _known.get(key)
        if known is None:
            known = hashlib.file_digest(file, "sha256").hexdigest()
            with _lock:
                _known[key] = known
                if len(_known) > _MOST_KNOWN:
                    del _known[next(iter(_known))]
    return known
