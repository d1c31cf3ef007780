"""Cuts a serialised ModelInferRequest into its raw tensors, its id and the rest, without parsing it. Pure.

This has two effects: a raw tensor is a slice of the message, not a copy of it (protobuf copies twice: into its arena and out of it),
and the rest is the same bytes in request after request, so that its parsed form can be remembered. Protobuf stays the
arbiter: a message that is not a plain sequence of known length-delimited fields is not cut, and the caller parses it as a whole.
"""

from naiad.core.record import Record

_ID = 0x1A
_RAW = 0x3A
_ID_TAG = bytes((_ID,))
_NAME, _VERSION = 0x0A, 0x12
_REST = frozenset((_NAME, _VERSION, 0x22, 0x2A, 0x32))
"""Tags (field number * 8 + 2): model_name, model_version, parameters, inputs, outputs."""

_MAX_FIELDS = 512
"""Protobuf parses a message of more fields: this loop is Python, and a field can be as short as two bytes."""

_BEGINNING_FIELDS = 64

_MAX_FIELD_BYTES = 1 << 31
_TEMPLATE_RAWS = 64
_MORE = 0x80
_MAX_LENGTH_BITS = 35
"""Bits of the longest length that is read here; a message is at most 2 GiB (row 10.7)."""


class Split(Record, frozen=True):
    """The parts of a message.

    Attributes:
        head: everything but id and raw tensors, in order; a message of its own.
        id: the id; "" if the message has none.
        raws: where each raw tensor begins and how many bytes it has.
        cut: how many bytes of `head` come before the first id or raw tensor.
        is_mixed: whether anything but raw tensors comes behind one.
    """

    head: bytes
    id: str
    raws: list[tuple[int, int]]
    cut: int
    is_mixed: bool = False


def split(body: bytes | memoryview, *, longest_field: int = _MAX_FIELD_BYTES) -> Split | None:
    """The parts of a message; None if protobuf has to parse it, or if a field other than a raw tensor is longer than `longest_field` bytes.

    Fields of one number keep their order, which is all that protobuf's merging depends on: parsing `head` and adding id and
    raw tensors gives what parsing `body` gives.
    """
    try:
        return _split(body, longest_field)
    except (IndexError, ValueError):
        return None


def _split(body: bytes | memoryview, longest_field: int) -> Split:  # noqa: C901 - one loop over the fields
    """As `split`; raises ValueError or IndexError if protobuf has to parse the message."""
    heads: list[bytes | memoryview] = []
    raws: list[tuple[int, int]] = []
    request_id = ""
    at = head_from = fields = before = 0
    end = cut = len(body)
    while at < end:
        field_from = at
        tag = body[at]
        size = body[at + 1]
        at += 2
        if size >= _MORE:
            size, at = _long_size(body, at - 1)
            if size > longest_field and tag != _RAW:
                raise ValueError(size)
        value_from = at
        at += size
        fields += 1
        if fields > _MAX_FIELDS:
            raise ValueError(fields)
        if tag in _REST:
            continue
        cut = min(cut, field_from)
        if field_from > head_from:
            heads.append(body[head_from:field_from])
        head_from = at
        if tag == _RAW:
            if not raws:
                before = fields - 1
            raws.append((value_from, size))
        elif tag == _ID:
            # Each of several: protobuf refuses one that is not UTF-8.
            request_id = bytes(body[value_from:at]).decode()
        else:
            raise ValueError(tag)
    if at > end:
        raise ValueError(at)
    if end > head_from:
        heads.append(body[head_from:end])
    return Split(b"".join(heads), request_id, raws, cut, bool(raws) and fields > before + len(raws))


def values_in(beginning: memoryview) -> tuple[str, int] | None:
    """Of a message that begins like this: the model and version that it names before its raw tensors, and where the first of those begins; None if that is not to be seen."""
    name = version = b""
    at = 0
    try:
        for _ in range(_BEGINNING_FIELDS):
            tag = beginning[at]
            size = beginning[at + 1]
            at += 2
            if size >= _MORE:
                size, at = _long_size(beginning, at - 1)
            if tag == _RAW:
                return f"{name!r} {version!r}", at
            if tag == _NAME:
                name = bytes(beginning[at : at + size])
            elif tag == _VERSION:
                version = bytes(beginning[at : at + size])
            elif tag not in _REST and tag != _ID:
                return None
            at += size
    except (IndexError, ValueError):
        pass
    return None


class _Layout:
    """Where an earlier message has its id and its raw tensors: one of the same length that is equal everywhere else has them there, too.

    Args:
        at: where the id stands, or would stand.

    Attributes:
        size: the length.
        raws: as in `Split`; not to be changed.
        id_from, id_to: where the id is.
        pieces: what stands around the id and the raw tensors, and where.
    """

    __slots__ = ("id_from", "id_to", "pieces", "raws", "size")

    def __init__(self, body: bytes, at: int, raws: list[tuple[int, int]]) -> None:
        self.size = len(body)
        self.raws = raws
        has_id = body[at : at + 1] == _ID_TAG
        self.id_from = at + 2 if has_id else at
        self.id_to = self.id_from + (body[at + 1] if has_id else 0)
        self.pieces: list[tuple[bytes, int]] = []
        at = 0
        for start, size in ((self.id_from, self.id_to - self.id_from), *raws):
            self.pieces.append((body[at:start], at))
            at = start + size
        if at < len(body):
            self.pieces.append((body[at:], at))


class Template:
    """The head of an earlier message, in two where its id was: a message with the same head is cut without a walk through its fields."""

    __slots__ = ("_after", "_before", "_last_size", "_layout")

    def __init__(self, parts: Split) -> None:
        self._before, self._after = parts.head[: parts.cut], parts.head[parts.cut :]
        self._last_size = 0
        self._layout: _Layout | None = None

    def match(self, body: bytes) -> tuple[str, list[tuple[int, int]]] | None:
        """The id and the raw tensors of a message with this head, as `split` finds them; None if it has another one, or fields in another order."""
        layout = self._layout
        if layout is not None and layout.size == len(body):
            for piece, at in layout.pieces:
                if not body.startswith(piece, at):
                    break
            else:
                try:
                    return body[layout.id_from : layout.id_to].decode(), layout.raws
                except UnicodeDecodeError:
                    return None
        found = self._walk(body)
        if found is not None and self._last_size == len(body):
            self._layout = _Layout(body, len(self._before), found[1])
        self._last_size = len(body)
        return found

    def _walk(self, body: bytes) -> tuple[str, list[tuple[int, int]]] | None:
        """As `match`, wherever the id ends and whatever raw tensors there are."""
        before, after = self._before, self._after
        if not body.startswith(before):
            return None
        at, end = len(before), len(body)
        request_id = ""
        raws: list[tuple[int, int]] = []
        try:
            if at < end and body[at] == _ID:
                size = body[at + 1]
                if size >= _MORE:
                    return None
                at += 2 + size
                request_id = body[at - size : at].decode()
            if not body.startswith(after, at):
                return None
            at += len(after)
            while at < end:
                if body[at] != _RAW or len(raws) >= _TEMPLATE_RAWS:
                    return None
                size = body[at + 1]
                at += 2
                if size >= _MORE:
                    size, at = _long_size(body, at - 1)
                raws.append((at, size))
                at += size
        except (IndexError, ValueError):
            return None
        return (request_id, raws) if at == end else None


def _long_size(body: bytes | memoryview, at: int) -> tuple[int, int]:
    """A length of several bytes, seven bits in each, the lowest first; and where the value begins."""
    size = 0
    for shift in range(0, _MAX_LENGTH_BITS, 7):
        byte = body[at]
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < _MORE:
            return size, at
    raise ValueError(size)
