"""Memory files of the server that a worker process maps as well: tensors that lie there are not copied into a message, which says where they are.

Each link to a worker has slots. The server sends the descriptor of a file once, for a slot, and after that only slot and offset, so that both sides
have the pages mapped. With each outcome the worker says which slots its model still refers to: a file is not used for another body before. A file is shared with the workers of
one path only (`SharedPool.take`). Limits: standard library and numpy, Python 3.8.
"""

import math
import struct
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from naiad.tensors.input_memory import InputMemory
from naiad.tensors.memory import Memory
from naiad.tensors.reference_counts import ONLY_LISTED
from naiad.tensors.region_files import REGION_FILE, ReceivedFiles
from naiad.tensors.shared_pool import KEPT_EACH, Lease, MemoryFile

SLOTS = 16
"""Files of a link: two batches of eight requests. Further ones are copied."""

SHARED = Memory("shared", 0)
"""In place of an input's values: where they are in the file of a slot, or in the client's shared memory object of a number (`region_files`). Of an output's: which input of its request it is."""

SHARED_FROM = 1 << 16
"""Bytes of the smallest tensor that is not copied."""

ALIGNED = 64
"""The offset of a tensor that is not copied is a multiple of this many bytes, as in segments: models may count on it."""

_PLACE = struct.Struct("<QQ")
PLACE_BYTES = _PLACE.size


def input_at(place: bytes) -> int:
    """Which input of its request an output is, of which a `Place` came."""
    which, _ = _PLACE.unpack(place)
    return int(which)


ONCE = 1 << 8
"""Beside the slot: the file is not used again, and its slot is free after the batch."""


class Place:
    """A tensor that goes to a worker as its place in a shared file; written as `Exported` is."""

    __slots__ = ("descriptor", "placed", "shape")

    def __init__(self, shape: "tuple[int, ...]", slot: int, offset: int) -> None:
        self.shape = shape
        self.placed = SHARED
        self.descriptor = _PLACE.pack(slot, offset)


def lease_of(array: "np.ndarray[Any, Any]") -> "Lease | None":
    """The lease of which an array is a view; None if there is no lease."""
    base: Any = array.base
    while type(base) is np.ndarray:
        base = base.base
    return base if type(base) is Lease else None


class SentSlots:
    """The server's side of a link.

    Attributes:
        held: a bit for each slot to whose file the worker's model referred when the last outcome was sent.
    """

    __slots__ = ("_files", "_lost", "held")

    def __init__(self) -> None:
        self.held = 0
        self._lost = 0
        self._files: list[weakref.ref[MemoryFile] | None] = [None] * SLOTS

    def place(
        self, array: "np.ndarray[Any, Any]", send: "Callable[[int, int], None]"
    ) -> "Place | None":
        """Where a tensor is that the worker can read in place; None if it is to be copied.

        Args:
            array: the tensor.
            send: sends the number and the descriptor of a file that the worker does not have.

        Raises:
            Exception: as `send`; the worker does not have the file then.
        """
        if array.nbytes < SHARED_FROM:
            return None
        lease = lease_of(array)
        file = None if lease is None else lease.file
        if lease is None or file is None:
            return None
        offset = array.__array_interface__["data"][0] - lease.address
        if offset % ALIGNED or not array.flags.c_contiguous:
            return None
        slot = file.places.get(self)
        if slot is None:
            slot = self._free()
            if slot < 0:
                return None
            send(slot if file.written <= KEPT_EACH else slot | ONCE, file.descriptor)
            self._replace(slot, file)
        return Place(array.shape, slot, offset)

    def note(self, bits: int) -> None:
        """What came with an outcome: the slots that are held, and those whose file the worker does not have."""
        self.held = bits & (1 << SLOTS) - 1
        # One that was lost is said again until the next file comes for its slot, which may be in flight.
        lost, self._lost = bits >> SLOTS & ~self._lost, bits >> SLOTS
        for slot in range(SLOTS):
            if lost >> slot & 1:
                self._replace(slot, None)

    def close(self) -> None:
        """The worker is gone, or the instance is."""
        self.held = 0
        for slot in range(SLOTS):
            self._replace(slot, None)

    def _free(self) -> int:
        """A slot whose file nothing refers to, -1 if there is none."""
        for slot in range(SLOTS):
            if not self.held >> slot & 1:
                known = self._files[slot]
                file = None if known is None else known()
                if file is None or not file.is_lent:
                    return slot
        return -1

    def _replace(self, slot: int, file: "MemoryFile | None") -> None:
        known = self._files[slot]
        old = None if known is None else known()
        if old is not None:
            old.places.pop(self, None)
        if file is None:
            self._files[slot] = None
        else:
            self._files[slot] = weakref.ref(file)
            file.places[self] = slot


class ReceivedSlots:
    """The worker's side of a link.

    Attributes:
        files: clients' shared memory objects.
        memory: for what is read from them.
        lost: what could not be read from them for this batch: the array in place of each, and what `ReceivedFiles.read` says.
        arrays: the server's files, as uint8, by slot; None for one that is not here.
    """

    __slots__ = ("_lost", "_once", "_unread", "arrays", "files", "lost", "memory")

    def __init__(self) -> None:
        self.files = ReceivedFiles()
        self.memory = InputMemory()
        self.lost: list[tuple[Any, tuple[str, str]]] = []
        self._unread: list[tuple[Any, tuple[int, Any, int]]] = []
        self.arrays: list[Any] = []
        self._lost = 0
        self._once = 0

    def add(self, number: int, array: Any) -> None:
        """A file came, as uint8; None if it could not be received or mapped."""
        slot = number & (ONCE - 1)
        arrays = self.arrays
        while len(arrays) <= slot:
            arrays.append(None)
        arrays[slot] = array
        self._lost &= ~(1 << slot)
        self._once &= ~(1 << slot)
        if array is None:
            self._lost |= 1 << slot
        elif number & ONCE:
            self._once |= 1 << slot

    def array(self, place: "bytes | bytearray", shape: "tuple[int, ...]", dtype: Any) -> Any:
        """The tensor at a place: a view, or memory for what `read` reads from a client's shared memory object.

        Raises:
            LookupError: its file is not here.
        """
        slot, offset = _PLACE.unpack(place)
        if slot & REGION_FILE:
            return self._read(slot, offset, shape, dtype)
        base = self.arrays[slot] if slot < len(self.arrays) else None
        if base is None:
            raise LookupError(f"shared file {slot} is not there")
        return np.ndarray(shape, dtype, base, offset)

    def _read(self, number: int, at: int, shape: "tuple[int, ...]", dtype: Any) -> Any:
        size = math.prod(shape) * dtype.itemsize
        memory = self.memory.take(size)
        array = np.ndarray(shape, dtype, memory)
        self._unread.append((array, (number, memory[:size], at)))
        return array

    def read(self) -> None:
        """Read what the arrays of this batch are to have from clients' objects, all of it together."""
        if not self._unread:
            return
        unread, self._unread = self._unread, []
        found = self.files.read([read for _, read in unread])
        self.lost += [(array, wrong) for (array, _), wrong in zip(unread, found) if wrong[0]]  # noqa: B905 - 3.8 knows no strict

    def drop_once(self) -> None:
        """The batch has ended: forget the files that are not used again, and what was to be read for one that was refused."""
        self._unread.clear()
        if self._once:
            for slot in range(len(self.arrays)):
                if self._once >> slot & 1:
                    self.arrays[slot] = None
            self._once = 0

    def noted(self) -> int:
        """What `SentSlots.note` takes."""
        arrays, count = self.arrays, sys.getrefcount
        if not arrays:
            return 0
        held = self._lost << SLOTS
        for slot in range(len(arrays)):
            if arrays[slot] is not None and count(arrays[slot]) > ONLY_LISTED:
                held |= 1 << slot
        return held

    def clear(self) -> None:
        """The link is closed."""
        self.arrays.clear()
        self.files.close()
        self.memory.clear()
