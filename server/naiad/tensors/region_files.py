"""Clients' shared memory objects that a worker process reads inputs from and writes outputs to itself: what both sides say of them.

The server sends the descriptor of an object before the first batch that refers to it, and says when the last of its regions is gone, so that an object that its client
has removed and unregistered is not kept. The worker uses `preadv` and `pwrite`, and for large tensors of objects that come again a mapping (`region_mappings.py`), which an object that has become smaller
does not let end the process. What it cannot write goes to the server as any other output; the server then writes it, or finds the same fault and says what is wrong. Limits: standard library and numpy,
Python 3.8.
"""

import collections
import os
import weakref
from collections.abc import Callable
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
        on_gone: called in whatever thread when the worker has a descriptor that it does not need any more, because a region has ended, for example; `forget` is to come soon.
    """

    __slots__ = ("_count", "_gone", "_numbers", "on_gone")

    def __init__(self) -> None:
        self.on_gone: Callable[[], object] = int
        self._count = 0
        self._gone: collections.deque[int] = collections.deque()
        self._numbers: dict[weakref.ref[Any], int] = {}

    def number(self, region: Any, send: "Callable[[int, int, bytes], None]") -> int:
        """The number of a region's object, which has a `descriptor` and a `label`; it is sent if the worker does not have it.

        Raises:
            Exception: as `send`; the worker does not have it then.
        """
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
            self._forget()
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

    def read(self, values: Any, at: int) -> bool:
        """Fill an array of bytes by a mapping; False if it is to be read in another way."""
        end = at + len(values)
        mapping = self.mapping(end)
        if mapping is None:
            return False
        if not mapping.read(values, at):
            self._forget()
            return False
        # Behind the end of an object its last page has zeros.
        return os.fstat(self.descriptor).st_size >= end

    def write(self, values: Any, at: int) -> bool:
        """Copy an array of bytes to the object by a mapping; False if it is to be written in another way."""
        mapping = self.mapping(at + len(values))
        if mapping is None:
            return False
        if not mapping.write(values, at):
            self._forget()
            return False
        return True

    def _forget(self) -> None:
        """Unmap the object: it has other bytes, or there is memory of this process in its place, which would stay as long as the region."""
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

    def read(self, number: int, values: Any, at: int) -> "tuple[str, str]":
        """Fill an array of bytes from an object.

        Returns:
            The name of an `ErrorCode` and a message if that failed, else two empty texts.
        """
        file = self._files.get(number)
        if file is None:
            return "UNAVAILABLE", NO_DESCRIPTOR
        try:
            if len(values) >= MAPPED_FROM and file.read(values, at):
                return "", ""
            octets = memoryview(values)
            while octets:
                count = os.preadv(file.descriptor, [octets], at)
                if not count:
                    return "INVALID_ARG", too_small(file.label, at + len(octets))
                octets, at = octets[count:], at + count
        except OSError as error:
            return "INTERNAL", unreadable(file.label, str(error.strerror))
        return "", ""

    def write(self, number: int, values: Any, at: int, size: int) -> Any:
        """Write the values of an output, numbers, to an object.

        Args:
            number: the object's.
            values: the output.
            at: where its place begins, in bytes from the beginning of the object.
            size: bytes of its place.

        Returns:
            A `Placed`; the values themselves if they are still to be written.
        """
        file = self._files.get(number)
        if (
            file is None
            or type(values) is not np.ndarray
            or not PLACED_FROM <= values.nbytes <= size
            or not values.flags.c_contiguous
        ):
            return values
        array = values.reshape(-1).view(np.uint8)
        octets = array.data
        try:
            if os.fstat(file.descriptor).st_size < at + len(octets):
                return values
            if len(octets) < MAPPED_FROM or not file.write(array, at):
                while octets:
                    count = os.pwrite(file.descriptor, octets, at)
                    octets, at = octets[count:], at + count
        except OSError:
            return values
        return Placed(values.shape)
