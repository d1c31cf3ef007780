"""Whether a TorchScript archive holds as many bytes of each tensor as it says, seen without torch: nothing is unpickled.

torch takes the number of elements from the pickle and the memory from the archive's entry, and reads behind the entry where that is shorter: the
process ends with the first request, or answers with other memory.
"""

import collections.abc
import contextlib
import pathlib
import pickletools
import zipfile
import zlib
from typing import Any

UNREADABLE = (
    OSError, EOFError, LookupError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error
)  # fmt: skip
"""What reading an entry of an archive raises if it is damaged, encrypted, or compressed in a way that Python does not know."""

_MOST_PICKLE = 1 << 26
"""Bytes of a pickle that are looked at: it names 100 tensors in 16 KiB."""

_PICKLES = {"data.pkl": "data", "constants.pkl": "constants"}
"""The pickles of an archive, and the folder with the bytes of their tensors."""

_ELEMENT_BYTES = {
    "Byte": 1, "Char": 1, "Bool": 1, "QInt8": 1, "QUInt8": 1, "Short": 2, "Half": 2, "BFloat16": 2, "Int": 4, "Float": 4, "QInt32": 4, "Long": 8, "Double": 8,
    "ComplexFloat": 8, "ComplexDouble": 16,
}  # fmt: skip

_ATOMS = frozenset(
    ("GLOBAL", "BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "LONG4")
)
_PUTS = frozenset(("BINPUT", "LONG_BINPUT"))
_GETS = frozenset(("BINGET", "LONG_BINGET"))
_FIELDS = 5


def fault(path: pathlib.Path) -> str:
    """What is wrong with the first tensor whose bytes are not all there; "" if there is none. What else is wrong with the file is for the load to find."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _fault_of(archive)
    except UNREADABLE:
        return ""


def _fault_of(archive: zipfile.ZipFile) -> str:
    entries = {each.filename.partition("/")[2]: each for each in archive.infolist()}
    for pickle, folder in _PICKLES.items():
        if pickle not in entries:
            continue
        with archive.open(entries[pickle]) as file:
            data = file.read(_MOST_PICKLE)
        for key, size in _storages(data):
            entry = entries.get(f"{folder}/{key}")
            if entry is not None and not 0 <= size <= entry.file_size:
                return f"a tensor takes {size} bytes by its description, and '{folder}/{key}' in the archive has {entry.file_size}"
    return ""


def _storages(pickled: bytes) -> collections.abc.Iterator[tuple[str, int]]:
    """The entry and the bytes of each storage: persistent ids, which are tuples of "storage", the class, the entry, the device and the number of elements."""
    memo: dict[Any, Any] = {}
    items: list[Any] = []
    found: list[Any] = []
    with contextlib.suppress(ValueError):  # where the part that was read ends
        for code, argument, _ in pickletools.genops(pickled):
            if code.name in _ATOMS:
                items.append(argument)
            elif code.name in _GETS:
                items.append(memo.get(argument))
            elif code.name in _PUTS:
                memo[argument] = items[-1] if items else None
            else:
                if code.name == "BINPERSID" and len(found) == _FIELDS and found[0] == "storage":
                    yield from _size(*found[1:])
                found = items if code.name == "TUPLE" else found if not items else []
                items = []


def _size(
    kind: Any, key: Any, _device: Any, elements: Any
) -> collections.abc.Iterator[tuple[str, int]]:
    name = str(kind).rpartition(" ")[2].removesuffix("Storage")
    if name in _ELEMENT_BYTES and isinstance(elements, int):
        yield str(key), elements * _ELEMENT_BYTES[name]
