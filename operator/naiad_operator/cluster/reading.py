"""Reads what the API server sends object by object, so that none keeps the others from being read.

The JSON decoder recurses, and raises on a value that is nested about a thousand levels deep; a list or a watch with one such object would be
lost as a whole. An object beyond the bounds of `api.manifests.unreadable`, or that is not valid JSON, is replaced by its head: who it is, its
labels, owners and status, and of a profile which services it is for where the decoder can skip the rest, with a mark that says why. Nothing here recurses over a value.

What the decoder refuses is cut by searches alone, in microseconds for any size. They rely on how API servers write JSON: without spaces, the
fields of custom resources sorted, those of other objects and of `PartialObjectMetadata` in the order of their declaration. What a tenant
writes cannot imitate a border: quotes in a string are escaped, the metadata before `managedFields` has strings only, the keys of
`managedFields` begin with `f:`, `k:`, `v:` or `i:`, and a border that comes last is searched from the end.
"""

import collections
import collections.abc
import contextlib
import logging
import math
import re
import typing

import msgspec

from naiad_operator.api import names
from naiad_operator.api.manifests.unreadable import (
    CONTAINERS,
    ESCAPES,
    FRACTIONS,
    LEVELS,
    MAX_CONTAINERS,
    MAX_LEVELS,
    VALUES,
    marked,
    problem_of,
)

_log = logging.getLogger(__name__)

Object = dict[str, typing.Any]

_REFUSED = (ValueError, RecursionError)
"""What the decoder raises: its own errors and those of Unicode are ValueErrors."""

_OWNED_LEVELS = 10
"""How many more levels the managed fields have than the fields that they name, at most."""

_NOTED = 10_000
"""How many unreadable objects are remembered, so that each is logged once."""


class _Metadata(msgspec.Struct, omit_defaults=True):
    """What is read of the metadata of an object that cannot be read; `managedFields` are as deep as it is."""

    name: str
    uid: str
    resourceVersion: str  # noqa: N815 - the field's name in JSON
    namespace: str = ""
    generation: int = 0
    creationTimestamp: str | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815
    labels: dict[str, str] | None = None
    ownerReferences: list[dict[str, str | bool]] | None = None  # noqa: N815


class _Kind(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815
    kind: str = ""


class _Policy(msgspec.Struct, omit_defaults=True):
    namespaces: dict[str, typing.Any] = msgspec.field(default_factory=dict)


class _ProfileSpec(msgspec.Struct, omit_defaults=True):
    default: bool = False
    policy: _Policy | None = None


class _Profile(msgspec.Struct):
    """What is read of the spec of a NaiadProfile that cannot be read: which services it is for."""

    spec: _ProfileSpec = msgspec.field(default_factory=_ProfileSpec)


class _ListMetadata(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


encode = msgspec.json.encode
_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_list = msgspec.json.Decoder(_List).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_profile = msgspec.json.Decoder(_Profile).decode


class _Fractions:
    """Reads numbers with a fraction or an exponent, of which the decoder takes ten microseconds for some.

    Attributes:
        left: how many more an object may hold; negative after too many.
    """

    def __init__(self) -> None:
        self.left = 0

    def read(self, text: str) -> float:
        """A number.

        Raises:
            ValueError: it is out of range, or there were too many before it.
        """
        self.left -= 1
        if self.left < 0:
            raise ValueError("Too many numbers")
        value = float(text)
        if not math.isfinite(value):
            raise ValueError("Number out of range")
        return value


_fractions = _Fractions()
_decode_object = msgspec.json.Decoder(Object, float_hook=_fractions.read).decode


def decode(text: bytes) -> Object:
    """An object.

    Raises:
        RecursionError: it is too deep for the decoder.
        ValueError: it is not valid JSON, or has more numbers with a fraction or an exponent than an object may.
    """
    _fractions.left = FRACTIONS.most
    return _decode_object(text)


_decode_event = msgspec.json.Decoder(_Event).decode


class Page(typing.NamedTuple):
    """One page of a list.

    Attributes:
        items: its objects, each read when it is taken.
        version: the list's resourceVersion.
        continue_token: of the next page; "" on the last one.
    """

    items: collections.abc.Iterator[Object]
    version: str
    continue_token: str


class Event(typing.NamedTuple):
    """One line of a watch."""

    type: str
    object: Object


def read_object(text: bytes) -> Object:
    """An object, or the marked head of one that cannot be read.

    Raises:
        ValueError: the text is not JSON, or not an object that has a name.
    """
    item, problem = _read_within_bounds(text)
    return marked(_head(text), problem) if item is None else item


def _read_within_bounds(text: bytes) -> tuple[Object | None, str]:
    """An object, or why it cannot be read. What the text shows is found before it is decoded: to decode a megabyte of values takes 5 to 10 ms."""
    marks = text.translate(None, _NO_MARKS)
    if beyond := _beyond(text, marks):
        return None, beyond
    _fractions.left = 0
    try:
        if _is_shallow(text, marks):
            if not text.isascii():
                text.decode()
            return decode(text), ""
    except RecursionError:
        pass
    except ValueError as error:
        too_many = _fractions.left < 0
        return None, FRACTIONS.message if too_many else f"it is not valid JSON ({error})"
    where = _deep_field(text)
    place = f"{where} is" if where else "it is"
    return None, f"{place} {LEVELS.message}"


def _beyond(text: bytes, marks: bytes) -> str:
    """Which bound on numbers of things a text with these marks exceeds; "" when none."""
    commas = marks.count(b",")
    if commas > VALUES.most:
        return VALUES.message
    opened = marks.count(b"{") + marks.count(b"[")
    if opened > MAX_CONTAINERS:
        where = _deep_field(text)
        return f"{where} is {LEVELS.message}" if where else CONTAINERS.message
    return ESCAPES.message if len(marks) - opened - commas > ESCAPES.most else ""


def read_list(text: bytes) -> Page:
    """A page of a list.

    Raises:
        RecursionError: an object in it is too deep for the decoder: `read_single` reads a page of one object.
        ValueError: the text is not a list of objects.
    """
    page = _decode_list(text)
    raws = (bytes(raw) for raw in page.items or ())
    return Page(_objects(raws), page.metadata.resourceVersion, page.metadata.continue_)


def read_single(text: bytes) -> Page:
    """A page of a list that has at most one object, of any depth.

    Raises:
        ValueError: the text is not a list of objects.
    """
    start, end = text.find(_ITEMS) + len(_ITEMS), _end_of_items(text)
    return _page(text, start, end, [text[start:end]] if end > start else [])


def read_metadata_list(text: bytes) -> Page:
    """A page of a list of PartialObjectMetadata of any depth; their managed fields may have any.

    Raises:
        ValueError: the text is not a list of objects.
    """
    try:
        return read_list(text)
    except RecursionError:
        start, end = text.find(_ITEMS) + len(_ITEMS), _end_of_items(text)
        first, *others = text[start:end].split(b"," + _PARTIAL)
        return _page(text, start, end, [first, *(_PARTIAL + rest for rest in others)])


def read_event(line: bytes) -> Event:
    """A line of a watch.

    Raises:
        ValueError: the line is not an event with an object.
    """
    try:
        event = _decode_event(line)
    except RecursionError:
        start, end = line.find(_OBJECT) + len(_OBJECT), line.rfind(b"}")
        type_ = _decode_event(line[:start] + b"null" + line[end:]).type
        return Event(type_, read_object(line[start:end]))
    return Event(event.type, read_object(bytes(event.object)))


class Unreadable:
    """The objects that could not be read: logs each once, and counts them.

    Attributes:
        counts: by resource.
    """

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self._noted: dict[str, None] = {}

    def note(self, resource: str, item: Object) -> None:
        """Takes in an object that was read, or was not."""
        problem = problem_of(item)
        if not problem:
            return
        metadata = item["metadata"]
        if metadata["uid"] in self._noted:
            return
        while len(self._noted) >= _NOTED:
            del self._noted[next(iter(self._noted))]
        self._noted[metadata["uid"]] = None
        self.counts[resource] += 1
        name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        _log.warning("%s %s cannot be read: %s; the others are not affected", resource, name, problem)  # fmt: skip


def _objects(texts: collections.abc.Iterable[bytes]) -> collections.abc.Iterator[Object]:
    for text in texts:
        try:
            yield read_object(text)
        except ValueError as error:
            _log.warning("an item of a list is left out, since it has no name that can be read: %s", error)  # fmt: skip


def _is_shallow(text: bytes, marks: bytes) -> bool:
    """Whether an object has no more levels than it may; its managed fields, which the API server writes, may have a few more."""
    if marks.count(b"{") + marks.count(b"[") <= MAX_LEVELS:
        return True
    managed, spec = text.find(_MANAGED), text.find(b'},"spec":')
    if not 0 <= managed < spec:
        return _levels(text) <= MAX_LEVELS
    after = text.find(b'],"name":', managed, spec)
    end = after + 2 if after > 0 else spec
    rest, fields = text[:managed] + text[end:], text[managed:end]
    return _levels(rest) <= MAX_LEVELS and _levels(fields) <= MAX_LEVELS + _OWNED_LEVELS


_NO_MARKS = bytes(set(range(256)) - set(b'{["\\,'))
_OTHERS = bytes(set(range(256)) - set(b'{}[]"'))
_TO_BRACES = bytes.maketrans(b"[]", b"{}")
_RUNS = re.compile(rb"(\{+)(\}*)")
"""Few are left once the usual levels are taken away."""
_USUAL_LEVELS = 16
_TOO_MANY = b"{" * (MAX_LEVELS + _OWNED_LEVELS + 1)


def _levels(text: bytes) -> int:
    """How many objects and lists are nested at the deepest place, in a few passes of C code; of very many perhaps fewer, still too many."""
    if b"\\" in text:
        text = _without_escapes(text)
    if text.count(b'"') <= _FEW_QUOTES:  # few long strings perhaps, of any brackets
        text = _outside_strings(text)
    braces = text.translate(_TO_BRACES, _OTHERS).replace(b'""', b"")
    if (
        b'"' in braces
    ):  # strings with brackets in them; neighbours may have become one, with nothing lost between them
        braces = _outside_strings(braces)
    if _TOO_MANY in braces:
        return len(_TOO_MANY)
    levels = 0
    while braces and levels < _USUAL_LEVELS:  # each pass takes the innermost ones away
        braces = braces.replace(b"{}", b"")
        levels += 1
    depth = deepest = 0
    for opened, closed in _RUNS.findall(braces):
        depth += len(opened)
        deepest = max(deepest, depth)
        depth -= len(closed)
    return levels + deepest


_FEW_ESCAPES = 2_000


def _outside_strings(text: bytes) -> bytes:
    """A text without its strings; it has no escaped quotes."""
    return b"".join(text.split(b'"')[::2])


_FEW_QUOTES = 4_000


def _without_escapes(text: bytes) -> bytes:
    """A text without the quotes that do not end its strings."""
    parts = text.split(b'\\"', _FEW_ESCAPES)
    if len(parts) > _FEW_ESCAPES:
        return text.replace(b"\\\\", b"").replace(b'\\"', b"")
    for index, part in enumerate(parts[:-1]):
        if (len(part) - len(part.rstrip(b"\\"))) % 2:  # of an escaped backslash
            parts[index] = part + b'"'
    return b"".join(parts)


_ITEMS = b'"items":['
_OBJECT = b'"object":'
_PARTIAL = b'{"kind":"PartialObjectMetadata",'
_METADATA = b'"metadata":'
_MANAGED = b'"managedFields":['
_STATUS = b'},"status":{'


def _page(text: bytes, start: int, end: int, items: collections.abc.Iterable[bytes]) -> Page:
    """A page whose items are at these positions."""
    page = _decode_list(text[:start] + text[end:])
    return Page(_objects(items), page.metadata.resourceVersion, page.metadata.continue_)


def _end_of_items(text: bytes) -> int:
    """Where the items of a list end: before its kind in a list of custom resources, whose metadata come last, else at the end of the text."""
    is_last = _METADATA in text[: text.find(_ITEMS)]
    return text.rfind(b"]") if is_last else text.rfind(b'],"kind":"')


def _head(text: bytes) -> Object:
    """The head of an object.

    Raises:
        ValueError: it has none.
    """
    start = text.find(_METADATA) + len(_METADATA)
    head = _decode_kind(text[:start] + b"null}")
    made: Object = {
        "apiVersion": head.apiVersion,
        "kind": head.kind,
        "metadata": msgspec.to_builtins(_decode_metadata(_metadata(text, start))),
    }
    at = text.rfind(_STATUS)
    status = text[at + len(_STATUS) - 1 : -1] if at > start else b""
    if status.count(b"{") + status.count(b"[") < MAX_CONTAINERS and _levels(status) < MAX_LEVELS:
        with contextlib.suppress(*_REFUSED):  # a field of this name that is not the object's own
            made["status"] = decode(status)
    if head.kind == names.PROFILE_KIND:
        with contextlib.suppress(*_REFUSED):
            made["spec"] = msgspec.to_builtins(_decode_profile(text).spec)
    return made


def _metadata(text: bytes, start: int) -> bytes:
    """The metadata that begins here, without its managed fields."""
    managed = text.find(_MANAGED, start)
    before = text[start:managed].rstrip(b",")
    if managed < 0:
        end = text.find(b'},"spec":', start)
        return text[start : end + 1] if end > 0 else text[start:-1]
    if text.startswith(b'{"name":', start):
        return before + b"}"
    after = text.find(b'],"name":', managed) + 1
    end = text.find(b'},"spec":', after)
    return before + (text[after:end] if before != b"{" else text[after + 1 : end]) + b"}"


_TOKEN = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)(?:"|\Z)|[{}\[\]]', re.DOTALL)
"""A string, also one that has no end, or a bracket outside of strings."""
_SEARCHED = 1 << 12
"""After how many bytes the search for the field that is too deep ends."""
_NAMED_LEVELS = 4
_LONGEST_NAME = 60


def _deep_field(text: bytes) -> str:
    """The field that is nested too deeply, e.g. "spec.predictor.affinity"; "" when it is far behind, not in the spec, or there is none."""
    start = text.find(b'"spec":{')
    if start < 0:
        return ""
    searched = text[start : start + _SEARCHED].rstrip(b"\\")
    path: list[str] = []
    key = b""
    depth = 1
    for token in _TOKEN.finditer(searched):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth <= _NAMED_LEVELS:
                    path[depth - 2 :] = [key[:_LONGEST_NAME].decode(errors="replace")]
                elif depth > MAX_LEVELS:
                    return ".".join(path)
            case b"}" | b"]":
                depth -= 1
            case _:
                key = token[1]
    return ""
