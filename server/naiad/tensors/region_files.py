"""Clients' shared memory objects that a worker process reads inputs from and writes outputs to itself: what both sides say of them.

The server sends the descriptor of an object before the first batch that refers to it, and says when the last of its regions is gone, so that an object that its client
has removed and unregistered is not kept. The worker uses `preadv` and `pwrite`, and for large tensors of objects that come again a mapping (`region_mappings.py`), which an object that has become smaller
does not let end the process. What it cannot write goes to the server as any other output; the server then writes it, or finds the same fault and says what is wrong. Limits: standard library and numpy,
Python 3.8.
"""

import collections
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from naiad.tensors.memory import Memory

REGION = Memory("region", 0)
"""In place of an output's values: they were written to the place that its request names."""

REGION_FILE = 1 << 9
"""A bit in the number of a shared file: it is such an object, which is not mapped."""

PLACED_FROM = 1 << 16
"""Bytes of the smallest tensor that a worker reads from its place or writes there. For fewer, the copy costs less than what is said of it."""

MAPPED_FROM = 1 << 18
"""Bytes of the smallest tensor that is copied by a mapping. For fewer, what a mapping needs costs as much as it saves."""

_UNMAPPED = 2
"""Tensors of an object that are copied without a mapping first: each of its pages is a fault when it is used for the first time."""

_NUMBER_SHIFT = 16
_NUMBERS = 1 << 32
_LABEL_BYTES = 1 << 12
NO_DESCRIPTOR = "its worker process could not take the request: the process has no file descriptor left for its shared memory region"
"""Why a request fails whose object the worker does not have: it is sent again for the next one."""


def numbered(count: int) -> int:
    """The number of the object that is sent as the so many-th."""
    return (count % _NUMBERS) << _NUMBER_SHIFT | REGION_FILE


NOWHERE = numbered(_NUMBERS - 1)
"""The number of an object that no worker has: a request that refers to it fails alone, with `NO_DESCRIPTOR`."""


_RIGHT = "", ""


class Placed:
    """What a worker sends of an output that it has written to its place; written as `Exported` is."""

    __slots__ = ("shape",)

    placed = REGION
    descriptor = b""

    def __init__(self, shape: "tuple[int, ...]") -> None:
        self.shape = shape


def too_small(label: str, end: int) -> str:
    """What is wrong with an object that does not reach to byte `end` any more."""
    return (
        f"{label} was made smaller than the tensor in it needs: byte {end} of the object is gone; "
        "register the region again with its size"
    )


def unreadable(label: str, why: str) -> str:
    """What is wrong with an object that the system does not read."""
    return f"{label} cannot be read: {why}"


class SentFiles:
    """The server's side of a link: which objects the worker has. One thread; regions may end in any.

    Attributes:
        copied: bytes that the worker is to copy from or to objects; its user sets it back.
        on_gone: called in whatever thread when the worker has a descriptor that it does not need any more, because a region has ended, for example; `forget` is to come soon.
    """

    __slots__ = ("_count", "_gone", "_numbers", "copied", "on_gone")

    def __init__(self) -> None:
        self.copied = 0
        self.on_gone: Callable[[], object] = int
        self._count = 0
        self._gone: collections.deque[int] = collections.deque()
        self._numbers: dict[weakref.ref[Any], int] = {}

    def number(self, region: Any, size: int, send: "Callable[[int, int, bytes], None]") -> int:
        """The number of a region's object, which has a `descriptor` and a `label`, from or to which so many bytes are copied; it is sent if the worker does not have it.

        Raises:
            Exception: as `send`; the worker does not have it then.
        """
        self.copied += size
        known = self._numbers.get(weakref.ref(region))
        if known is not None:
            return known
        number = numbered(self._count)
        send(number, region.descriptor, region.label.encode("utf-8", "replace")[:_LABEL_BYTES])
        self._count += 1
        self._numbers[weakref.ref(region, self._ended)] = number
        return number

    def _ended(self, region: "weakref.ref[Any]") -> None:
        number = self._numbers.pop(region, None)
        if number is not None:
            self._gone.append(number)
            self.on_gone()

    def forget(self, send: "Callable[[int, int, bytes], None]") -> None:
        """Have the worker close what belongs to no region any more; raises as `send`, and the rest is for another time then."""
        while self._gone:
            send(self._gone[0], -1, b"")
            self._gone.popleft()

    def send_again(self) -> None:
        """The worker does not have them all: those that are needed are sent again, and it closes what it has."""
        self._gone.extend(self._numbers.values())
        self._numbers.clear()
        self.on_gone()


class _File:
    """An object that the worker has.

    Attributes:
        descriptor: its own.
        label: how messages name its region.
    """

    __slots__ = ("_copies", "_mapping", "descriptor", "label")

    def __init__(self, descriptor: int, label: str) -> None:
        self.descriptor = descriptor
        self.label = label
        self._copies = 0
        self._mapping: Any = None

    def mapping(self, end: int) -> Any:
        """A `RegionMapping` that reaches to a byte of the object; None if there is none."""
        mapping = self._mapping
        if mapping is not None:
            if end <= mapping.size:
                return mapping
            self.forget(mapping)
        self._copies += 1
        if self._copies <= _UNMAPPED:
            return None
        from naiad.tensors import region_mappings  # noqa: PLC0415 - few workers use it, and ctypes takes milliseconds

        try:
            size = os.fstat(self.descriptor).st_size
            if end <= size and region_mappings.is_possible():
                self._mapping = region_mappings.RegionMapping(self.descriptor, size)
        except OSError:
            return None
        return self._mapping

    def has(self, end: int) -> bool:
        """Whether the object reaches to a byte."""
        try:
            return os.fstat(self.descriptor).st_size >= end
        except OSError:
            return False

    def forget(self, mapping: Any) -> None:
        """Unmap the object: it has other bytes, or there is memory of this process in its place, which would stay as long as the region."""
        if mapping is self._mapping:
            self._mapping, self._copies = None, 0


class ReceivedFiles:
    """The worker's side: the objects that it has, by number."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._files)

    def add(self, number: int, descriptor: int, label: str = "") -> None:
        """One came; -1 if it is to be closed, or if this process could not take it."""
        known = self._files.pop(number, None)
        if known is not None:
            os.close(known.descriptor)
        if descriptor >= 0:
            self._files[number] = _File(descriptor, label)

    def close(self) -> None:
        """The link is closed."""
        while self._files:
            os.close(self._files.popitem()[1].descriptor)

    def read(self, reads: "Sequence[tuple[int, Any, int]]") -> "list[tuple[str, str]]":
        """Fill arrays of bytes from objects.

        Args:
            reads: for each the object's number, the array, and where its bytes begin in the object.

        Returns:
            For each the name of an `ErrorCode` and a message if that failed, else two empty texts.
        """
        copies = _Copies()
        found: list[tuple[str, str]] = [_RIGHT] * len(reads)
        by_calls: list[int] = []
        for index, (number, values, at) in enumerate(reads):
            file = self._files.get(number)
            if file is None:
                found[index] = "UNAVAILABLE", NO_DESCRIPTOR
            elif not copies.take(index, file, values, at, reads=True):
                by_calls.append(index)
        # Behind the end of an object its last page has zeros.
        by_calls += [index for index, file, end in copies.run() if not file.has(end)]
        for index in (*by_calls, *copies.torn):
            number, values, at = reads[index]
            found[index] = _read(self._files[number], values, at)
        return found

    def write(self, writes: "Sequence[tuple[int, Any, int, int]]") -> "list[Any]":
        """Write the values of outputs, numbers, to objects.

        Args:
            writes: for each the object's number, the output, and where its place begins, in bytes from the beginning of the object, and the bytes of the place.

        Returns:
            For each a `Placed`; the values themselves if they are still to be written.
        """
        copies = _Copies()
        found: list[Any] = []
        by_calls: list[int] = []
        for index, (number, values, at, size) in enumerate(writes):
            file = self._files.get(number)
            fits = type(values) is np.ndarray and PLACED_FROM <= values.nbytes <= size
            if file is None or not (fits and values.flags.c_contiguous and file.has(at + values.nbytes)):  # fmt: skip
                found.append(values)
                continue
            found.append(Placed(values.shape))
            if not copies.take(index, file, _octets(values), at, reads=False):
                by_calls.append(index)
        copies.run()
        for index in (*by_calls, *copies.torn):
            number, values, at, _ = writes[index]
            if not _write(self._files[number], _octets(values).data, at):
                found[index] = values
        return found


class _Copies:
    """Copies of a batch from or to mappings, of large tensors.

    Attributes:
        torn: once they were made, which of them failed, because the object had become smaller.
    """

    __slots__ = ("_mapped", "_pairs", "torn")

    def __init__(self) -> None:
        self._mapped: list[tuple[int, _File, int, Any]] = []
        self._pairs: list[tuple[Any, Any]] = []
        self.torn: list[int] = []

    def take(self, index: int, file: _File, values: Any, at: int, *, reads: bool) -> bool:
        """Add one; False if it is to be made in another way."""
        size = len(values)
        if size < MAPPED_FROM:
            return False
        mapping = file.mapping(at + size)
        if mapping is None:
            return False
        part = mapping.part(at, size)
        self._pairs.append((values, part) if reads else (part, values))
        self._mapped.append((index, file, at + size, mapping))
        return True

    def run(self) -> "list[tuple[int, _File, int]]":
        """Make them. Returns those that were made: which one, the object, and the byte to which it must reach."""
        if not self._pairs:
            return []
        from naiad.tensors import region_mappings  # noqa: PLC0415 - as above

        region_mappings.copy_all(self._pairs, {mapping for *_, mapping in self._mapped})
        made: list[tuple[int, _File, int]] = []
        for index, file, end, mapping in self._mapped:
            if mapping.intact:
                made.append((index, file, end))
            else:
                file.forget(mapping)
                self.torn.append(index)
        return made


def _octets(values: Any) -> Any:
    return values.reshape(-1).view(np.uint8)


def _read(file: _File, values: Any, at: int) -> "tuple[str, str]":
    octets = memoryview(values)
    try:
        while octets:
            count = os.preadv(file.descriptor, [octets], at)
            if not count:
                return "INVALID_ARG", too_small(file.label, at + len(octets))
            octets, at = octets[count:], at + count
    except OSError as error:
        return "INTERNAL", unreadable(file.label, str(error.strerror))
    return _RIGHT


def _write(file: _File, octets: Any, at: int) -> bool:
    """Whether the object has them; it does not grow."""
    try:
        if not file.has(at + len(octets)):
            return False
        while octets:
            count = os.pwrite(file.descriptor, octets, at)
            octets, at = octets[count:], at + count
    except OSError:
        return False
    return True
