"""Model files in protobuf's wire format, walked over a memory map without a framework and without their weights.

A field that is not needed is stepped over by its length, whatever it weighs. (Parsing by protobuf would read and copy all weights, and ends at 2 GB.)
Nothing in the file is trusted: every length is checked against what encloses it, nothing recurses, and the number of fields and the length of texts are
bounded.
"""

import collections.abc
import errno
import mmap
import pathlib
import typing

from naiad.core.file_kind import special_kind
from naiad.core.record import Record

MAX_FIELDS = 10_000_000
"""A graph of 100,000 nodes has about 200,000; walking this many takes some seconds."""
MAX_TEXT = 1 << 20
"""Bytes of a text."""

_LFS_HEAD = b"version https://git-lfs"

_Found = typing.TypeVar("_Found")


class ModelFileError(Exception):
    """The file is not a whole model; the message says in what way and what to do."""


VARINT, _FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""The wire types: what a field number stands with."""

FIXED32_ENTRY = 5
"""Bytes of an entry of a run, see `WireFormat.fields`: one of its tag and four of its value."""

_FIRST_LOOK = 64
"""Entries that are looked at first for the end of a run; the number doubles with each look."""


class MalformedError(Exception):
    """What is wrong with the bytes; completes a sentence that begins with the file's name."""


class Field(Record, frozen=True):
    """A field on the wire: its number and wire type, a number's value, or where a length-delimited field's bytes lie."""

    tag: tuple[int, int]
    value: int
    start: int
    end: int


class WireFormat:
    """Protobuf's wire format over mapped bytes; `what` the file should be, for messages."""

    def __init__(self, data: mmap.mmap | bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._fields_left = MAX_FIELDS

    def whole(self) -> Field:
        """The file as if it were a field that holds the outermost message."""
        return Field((0, LENGTH), len(self._data), 0, len(self._data))

    def fields(self, message: Field, *, run_of: int = 0) -> collections.abc.Iterator[Field]:
        """The fields of the message that `message` holds.

        A list of floats that is not packed is a field for each of its values. Those with the number `run_of`, below 16, are given as one: from the tag of the
        first one to the end of the last one of a run, `FIXED32_ENTRY` bytes for each.
        """
        at, end = message.start, message.end
        while at < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise MalformedError(f"has more than {MAX_FIELDS} fields: it is not {self._what}")
            tag, at = self._varint(at, end)
            number, wire_type = tag >> 3, tag & 7
            value = begin = 0
            if wire_type == LENGTH:
                value, begin = self._varint(at, end)
                at = begin + value
            elif wire_type == VARINT:
                value, at = self._varint(at, end)
            elif wire_type == FIXED32 and number == run_of:
                begin = at - 1
                at = self._run_end(begin, end)
                value = (at - begin) // FIXED32_ENTRY
            elif wire_type == FIXED32:
                begin = at
                at += 4
            elif wire_type == _FIXED64:
                at += 8
            else:
                number = 0
            if number == 0:
                raise MalformedError(f"is not {self._what}")
            if at > end:
                raise MalformedError(self._ended(end))
            yield Field((number, wire_type), value, begin, at)

    def parts(self, message: Field, number: int) -> collections.abc.Iterator[Field]:
        """The length-delimited fields with this number."""
        for part in self.fields(message):
            if part.tag == (number, LENGTH):
                yield part

    def view(self, field: Field) -> memoryview:
        """The bytes of a field where they lie; to be released before the walk ends."""
        with memoryview(self._data) as whole:
            return whole[field.start : field.end]

    def varints(self, field: Field) -> collections.abc.Iterator[int]:
        """The numbers of a packed list."""
        at = field.start
        while at < field.end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise MalformedError(f"has more than {MAX_FIELDS} fields: it is not {self._what}")
            value, at = self._varint(at, field.end)
            yield value

    def content(self, field: Field) -> bytes:
        """The bytes of a field, copied."""
        return self._data[field.start : field.end]

    def text(self, field: Field) -> str:
        """A string field."""
        if field.end - field.start > MAX_TEXT:
            raise MalformedError(f"holds a name of more than {MAX_TEXT} bytes")
        return self._data[field.start : field.end].decode("utf-8", "replace")

    def text_of(self, message: Field, number: int) -> str:
        """The last string with this number, as protobuf has it, or ""."""
        text = ""
        for part in self.parts(message, number):
            text = self.text(part)
        return text

    def _run_end(self, begin: int, end: int) -> int:
        """Where the entries end that begin with the same byte as the one at `begin`; past `end` for a first one that is cut off."""
        tag = self._data[begin : begin + 1]
        at = begin + FIXED32_ENTRY
        look = _FIRST_LOOK
        while at < end:
            whole = min(look, (end - at) // FIXED32_ENTRY)
            tags = self._data[at : at + whole * FIXED32_ENTRY : FIXED32_ENTRY]
            same = len(tags) - len(tags.lstrip(tag))
            at += same * FIXED32_ENTRY
            if same < look:
                break
            look *= 2
        return at

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """The number at `at` and the position after it."""
        data = self._data
        value = shift = 0
        while at < end and shift < 70:  # noqa: PLR2004 - ten groups of seven bits hold 64 bits
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the continuation bit
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
        raise MalformedError(self._ended(end) if at >= end else f"is not {self._what}")

    def _ended(self, end: int) -> str:
        """Running out of bytes at the end of the file is a partial copy; elsewhere it is another format."""
        size = len(self._data)
        if end == size:
            return f"is cut off after {size} bytes, or is not {self._what}: copy it again"
        return f"is not {self._what}"


def walk(
    path: pathlib.Path,
    visit: collections.abc.Callable[[WireFormat], _Found],
    *,
    what: str,
    error: type[ModelFileError] = ModelFileError,
) -> _Found:
    """What `visit` finds in a file that should be `what` ("an ONNX model").

    Raises:
        ModelFileError: as the class `error`: the file is missing, empty, cut off, or of another format.
    """
    try:
        if kind := special_kind(path):
            raise error(f"'{path}' is {kind}, and not a file: copy the model there")
        with path.open("rb") as file:
            try:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # what mmap says of a file without a byte
                raise error(f"'{path}' is empty: copy the model again") from None
    except OSError as failure:
        if failure.errno == errno.ENOENT:
            raise error(f"unable to find '{path}'") from failure
        raise error(f"unable to read '{path}': {failure.strerror}") from failure
    with data:
        if data[: len(_LFS_HEAD)] == _LFS_HEAD:
            raise error(
                f"'{path}' is a Git LFS pointer, not the model itself: run `git lfs pull` in its checkout"
            )
        try:
            return visit(WireFormat(data, what))
        except MalformedError as malformed:
            raise error(f"'{path}' {malformed}") from None
