"""What a shared library's file says of itself without loading it: its symbols, and the value of a number that it defines.

Limits: the standard library, Python 3.8. Only the section of dynamic symbols is read, which stripping leaves in place.
"""

import os
import pathlib
import platform
import struct
from typing import BinaryIO, NamedTuple

_MAGIC = b"\x7fELF"
_SHARED = 3
_MACHINES = {"x86_64": 62, "aarch64": 183, "arm64": 183, "ppc64le": 21, "riscv64": 243}
_NAMES = {3: "i386", 21: "ppc64", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_DYNAMIC_SYMBOLS = 11
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_LARGEST = 1 << 26
"""Bytes of a table of symbols or of their names."""


_LONGEST = 1 << 12
"""Bytes of a name; C++ has long ones."""


class Symbols(NamedTuple):
    """The dynamic symbols of a library.

    Attributes:
        defined: where in the file the value of each is, -1 for one without a value.
        undefined: the names that others must define.
    """

    defined: "dict[str, int]"
    undefined: "frozenset[str]"


class NoLibraryError(Exception):
    """The file is not a shared library that this machine could load; says why."""


def read(path: pathlib.Path) -> Symbols:
    """The symbols of a library.

    Raises:
        NoLibraryError: it is not one, or of another kind of machine, or cut off.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(64)
        if head[:4] != _MAGIC:
            raise NoLibraryError("it is not an ELF file: build it with cc -shared -fPIC")
        if len(head) < 64:  # noqa: PLR2004 - the size of a header
            raise NoLibraryError("it is cut off")
        if head[4] != 2 or head[5] != 1:  # noqa: PLR2004 - 64 bits, little-endian
            raise NoLibraryError("it is not for a little-endian machine of 64 bits")
        kind, machine = struct.unpack_from("<HH", head, 16)
        here = platform.machine()
        if machine != _MACHINES.get(here, machine):
            raise NoLibraryError(
                f"it was built for {_NAMES.get(machine, machine)}, and this machine is {here}: build it here"
            )
        if kind != _SHARED:
            raise NoLibraryError("it is not a shared library: link it with -shared")
        (sections_at,) = struct.unpack_from("<Q", head, 40)
        size, count = struct.unpack_from("<HH", head, 58)
        try:
            return _symbols(file, sections_at, size, count)
        except (struct.error, EOFError, IndexError) as error:
            raise NoLibraryError("it is cut off, or damaged") from error


def number(path: pathlib.Path, library: Symbols, name: str) -> "int | None":
    """The value of a `const uint32_t` that the library defines; None if the file does not have it."""
    at = library.defined.get(name, -1)
    if at < 0:
        return None
    with path.open("rb") as file:
        try:
            return int.from_bytes(_read(file, at, 4), "little")
        except EOFError:
            return None


def _symbols(file: "BinaryIO", at: int, size: int, count: int) -> Symbols:
    if size < _SECTION.size or not count:
        raise EOFError
    table = _read(file, at, size * count)
    sections = [_SECTION.unpack_from(table, i * size) for i in range(count)]
    found = [each for each in sections if each[1] == _DYNAMIC_SYMBOLS]
    if not found:
        return Symbols({}, frozenset())
    _, _, _, _, symbols_at, symbols_size, strings, _, _, entry = found[0]
    if entry != _SYMBOL.size:
        raise EOFError
    names = _read(file, sections[strings][4], sections[strings][5])
    symbols = _read(file, symbols_at, symbols_size - symbols_size % entry)
    defined, undefined = {}, set()
    for name_at, info, _, section, value, _ in _SYMBOL.iter_unpack(symbols):
        name = names[name_at : name_at + _LONGEST].partition(b"\0")[0].decode("utf-8", "replace")
        if not name:
            continue
        if not section:
            if info >> 4 == 1:  # global, so that it must be there; a weak one may be missing
                undefined.add(name)
        elif section < count:
            _, kind, _, address, offset, *_ = sections[section]
            has_value = kind == 1 and value >= address  # in the file, as it is loaded
            defined[name] = offset + value - address if has_value else -1
        else:
            defined[name] = -1
    return Symbols(defined, frozenset(undefined))


def _read(file: "BinaryIO", at: int, size: int) -> bytes:
    if size > _LARGEST or at + size > file.seek(0, os.SEEK_END):
        raise EOFError
    file.seek(at)
    return file.read(size)
