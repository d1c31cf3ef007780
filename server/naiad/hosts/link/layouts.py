"""How the header of a message between the server and a worker process describes its tensors: the layouts that `codec` writes, read.

Layouts repeat, so a `Reader` remembers them. Of many requests that all look alike it also says where the tensors of all of them lie as one
array (`Alike`): a view of that costs a third of an array of its own.

Limits: standard library and numpy, Python 3.8.
"""

import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from naiad.errors import unsupported
from naiad.hosts.link.codec import BYTES, DTYPES, HEAD, KNOWN, KNOWN_BYTES, behind, read_json
from naiad.tensors import descriptor
from naiad.tensors.memory import HOST, Memory
from naiad.tensors.region_files import REGION
from naiad.tensors.shared_slots import PLACE_BYTES, SHARED

_ALIKE = 8
"""From so many groups that look alike on, one array of all their tensors and views of it cost less than an array for each."""

_CUDA = "cuda"
_SIZES = {SHARED: PLACE_BYTES, REGION: 0}
_KINDS = frozenset((HOST.kind, _CUDA, SHARED.kind, REGION.kind))


class Column(NamedTuple):
    """One tensor of each of many groups that look alike, as one array: arguments of `np.ndarray`, but for the dtype.

    Attributes:
        resolved: what `resolve` made of each.
        shape: of all, their number first.
        at: where the first lies.
        strides: in bytes.
    """

    resolved: Any
    shape: "tuple[int, ...]"
    at: int
    strides: "tuple[int, ...]"


class Alike(NamedTuple):
    """What groups have in common that all look alike: `extra`, and for each of their tensors a column."""

    extra: Any
    columns: "list[Column]"


class Layout:
    """A layout that was read.

    Attributes:
        groups: for each request or response None, or `extra` and its tensors: what `resolve` made of each, its offset and its bytes.
        size: bytes of all tensors; 0 with BYTES, whose sizes are each message's.
        alike: of many groups that all look alike and have numbers in the host's memory, and some of these; None for others.
    """

    __slots__ = ("alike", "groups", "size")

    def __init__(self, groups: "list[Any]", size: int, alike: "Alike | None" = None) -> None:
        self.groups = groups
        self.size = size
        self.alike = alike


class Reader:
    """Reads headers, and remembers their layouts.

    Args:
        resolve: makes of a tensor's name, datatype, shape and memory what the reader's side needs of it.
    """

    def __init__(self, resolve: "Callable[[str, str, tuple[int, ...], Memory], Any]") -> None:
        self._resolve = resolve
        self._known: dict[bytes, tuple[Layout, int]] = {}

    def __len__(self) -> int:
        """The number of layouts that it remembers."""
        return len(self._known)

    def read(
        self, header: "bytes | bytearray", most: int = 0
    ) -> "tuple[Layout, bytes | bytearray]":
        """The layout of a message and the rest of its header.

        Args:
            header: of the message.
            most: so many groups may come of numbers that stand for several.

        Raises:
            InferenceError: UNSUPPORTED: a tensor is not in the host's memory.
            Exception: it is not a header.
        """
        length, count = HEAD.unpack_from(header)
        start = HEAD.size
        end = start + length
        text = bytes(header[start:end])
        known = self._known.get(text)
        if known is None:
            known = self._parsed(text, most)
        layout, strings = known
        if strings != count:
            raise ValueError(f"{count} sizes for {strings} BYTES tensors")
        if not strings:
            return layout, header[end:]
        sizes = struct.unpack_from(f"<{count}Q", header, end)
        return self._placed(layout, sizes), header[end + 8 * count :]

    def _parsed(self, text: bytes, most: int) -> "tuple[Layout, int]":
        groups: list[Any] = []
        at = 0
        described = read_json(text)
        for group in described:
            if group is None:
                groups.append(None)
            elif type(group) is int:
                at = _repeat(groups, group, most, at)
            else:
                extra, tensors = group
                placed: list[tuple[Any, int, int]] = []
                for tensor in tensors:
                    resolved, size = self._resolved(*tensor)
                    placed.append((resolved, at, size))
                    at = behind(at, size)
                groups.append((extra, placed))
        strings = sum([size < 0 for group in groups if group for _, _, size in group[1]])
        alike = None
        if len(groups) >= _ALIKE and len(described) == 2 and type(described[1]) is int:  # noqa: PLR2004 - a group, and how many more
            alike = _alike(groups, described[0][1], at)
        found = Layout(groups, 0 if strings else at, alike), strings
        if len(text) <= KNOWN_BYTES:
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[text] = found
        return found

    def _resolved(
        self, name: str, datatype: str, dims: "list[int]", memory: str, device: int
    ) -> "tuple[Any, int]":
        """What `resolve` makes of a tensor, and its bytes; -1: BYTES, of which each message says how many."""
        where = Memory(memory, device)
        if where == HOST:
            where = HOST
        if where.kind not in _KINDS:
            raise unsupported(
                f"tensor '{name}' is in memory of kind '{memory}' (device {device}), which is not supported: "
                f"worker processes and the server exchange tensors in '{HOST.kind}' and '{_CUDA}' memory; copy it there first"
            )
        shape = tuple(dims)
        size = -1
        if where is not HOST:
            size = _SIZES.get(where, descriptor.BYTES)
        elif datatype != BYTES:
            size = math.prod(shape) * DTYPES[datatype].itemsize
        return self._resolve(name, datatype, shape, where), size

    def _placed(self, layout: Layout, sizes: "tuple[int, ...]") -> Layout:
        """A layout with the sizes of its BYTES tensors."""
        given = iter(sizes)
        at = 0
        groups: list[Any] = []
        for group in layout.groups:
            if group is None:
                groups.append(None)
                continue
            extra, tensors = group
            placed: list[tuple[Any, int, int]] = []
            for resolved, _, fixed in tensors:
                size = next(given) if fixed < 0 else fixed
                placed.append((resolved, at, size))
                at = behind(at, size)
            groups.append((extra, placed))
        return Layout(groups, at)


def _repeat(groups: "list[Any]", further: int, most: int, at: int) -> int:
    """Add so many groups like the last one, the first of them at `at`; returns where the next tensor lies.

    Raises:
        ValueError: there is none, or they would be too many.
    """
    if not groups or groups[-1] is None or not 0 < further <= most - len(groups):
        raise ValueError(f"{further} groups like the one before, of {most} in all")
    extra, tensors = groups[-1]
    first = tensors[0][1] if tensors else at
    span = 0
    for _, _, size in tensors:
        span = behind(span, size)
    for _ in range(further):
        shift = at - first
        placed = [(resolved, where + shift, size) for resolved, where, size in tensors]
        groups.append((extra, placed))
        at += span
    return at


def _alike(groups: "list[Any]", described: "list[Any]", size: int) -> "Alike | None":
    """What these groups have in common, which all look like the first one; `described`: its tensors."""
    extra, tensors = groups[0]
    if not tensors:
        return None  # no column says how many there are
    count = len(groups)
    columns: list[Column] = []
    for (resolved, at, used), (_, datatype, dims, memory, _) in zip(tensors, described):  # noqa: B905 - 3.8 knows no strict
        if used <= 0 or memory != HOST.kind or not dims:
            return None
        strides = [DTYPES[datatype].itemsize]
        for each in dims[:0:-1]:
            strides.insert(0, strides[0] * each)
        columns.append(Column(resolved, (count, *dims), at, (size // count, *strides)))
    return Alike(extra, columns)
