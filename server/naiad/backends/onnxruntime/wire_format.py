"""Protobuf's wire format over mapped bytes: fields one after another, those not wanted stepped over by length.

For reading a little out of a big file (`onnx_graph`): no message is built and no payload is touched. Nothing in the
bytes is trusted: every length is checked against what encloses it, nothing recurses, and the number of fields and
the length of texts are bounded.
"""

import collections.abc
import mmap

from naiad.core.record import Record

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
MAX_FIELDS = 10_000_000
"""A graph of 100,000 nodes has about 200,000; walking this many takes some seconds."""
MAX_TEXT = 1 << 20
"""Bytes of a text."""


class MalformedError(Exception):
    """What is wrong with the bytes; completes a sentence that begins with the file's name."""


class Field(Record, frozen=True):
    """A field on the wire: a number's value, or where a length-delimited field's bytes lie."""

    number: int
    wire_type: int
    value: int
    start: int
    end: int


class Wire:
    """Protobuf's wire format over mapped bytes."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._fields_left = MAX_FIELDS

    def whole(self) -> Field:
        """The file as if it were a field that holds the outermost message."""
        return Field(0, LENGTH, len(self._data), 0, len(self._data))

    def fields(self, message: Field) -> collections.abc.Iterator[Field]:
        """The fields of the message that `message` holds."""
        at, end = message.start, message.end
        while at < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise MalformedError(f"has more than {MAX_FIELDS} fields: it is not an ONNX model")
            tag, at = self._varint(at, end)
            number, wire_type = tag >> 3, tag & 7
            value = begin = 0
            if wire_type == LENGTH:
                value, begin = self._varint(at, end)
                at = begin + value
            elif wire_type == VARINT:
                value, at = self._varint(at, end)
            elif wire_type == FIXED32:
                at += 4
            elif wire_type == FIXED64:
                at += 8
            else:
                raise MalformedError("is not an ONNX model")
            if number == 0:
                raise MalformedError("is not an ONNX model")
            if at > end:
                raise MalformedError(self._ended(end))
            yield Field(number, wire_type, value, begin, at)

    def parts(self, message: Field, number: int) -> collections.abc.Iterator[Field]:
        """The length-delimited fields with this number."""
        for part in self.fields(message):
            if part.number == number and part.wire_type == LENGTH:
                yield part

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

    def number_of(self, message: Field, number: int) -> int:
        """The last number with this number, or 0."""
        value = 0
        for field in self.fields(message):
            if field.number == number and field.wire_type == VARINT:
                value = field.value
        return value

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
        raise MalformedError(self._ended(end) if at >= end else "is not an ONNX model")

    def _ended(self, end: int) -> str:
        """Running out of bytes at the end of the file is a partial copy; elsewhere it is another format."""
        size = len(self._data)
        if end == size:
            return f"is cut off after {size} bytes, or is not an ONNX model: copy it again"
        return "is not an ONNX model"
