"""Reads what the API server sends object by object, so that none keeps the others from being read.

The JSON decoder recurses, and raises on a value that is nested about a thousand levels deep; a list or a watch with one such object would be
lost as a whole. An object beyond the bounds of `api.manifests.unreadable`, or that is not valid JSON, is replaced by its head (`heads`): who it is, its
labels, owners and status, and of a profile which services it is for where the decoder can skip the rest, with a mark that says why. Nothing here recurses
over a value. What the decoder refuses is cut by searches alone, which rely on how API servers write JSON; `heads` says why no tenant can imitate that.
"""

import collections
import collections.abc
import logging
import typing

import msgspec

from naiad_operator.api.manifests.unreadable import FRACTIONS, LEVELS, marked, problem_of
from naiad_operator.cluster import decoding, heads, scanning

_log = logging.getLogger(__name__)

Object = dict[str, typing.Any]

_NOTED = 10_000
"""How many unreadable objects are remembered, so that each is logged once."""


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
_decode_list = msgspec.json.Decoder(_List).decode
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
    return marked(heads.head(text), problem) if item is None else item


def _read_within_bounds(text: bytes) -> tuple[Object | None, str]:
    """An object, or why it cannot be read. What the text shows is found before it is decoded: to decode a megabyte of values takes 5 to 10 ms."""
    marks = scanning.marks_of(text)
    if beyond := scanning.beyond(text, marks):
        return None, beyond
    decoding.reset()
    try:
        if scanning.is_shallow(text, marks):
            if not text.isascii():
                text.decode()
            return decoding.decode(text), ""
    except RecursionError:
        pass
    except ValueError as error:
        too_many = decoding.has_too_many_fractions()
        return None, FRACTIONS.message if too_many else f"it is not valid JSON ({error})"
    where = scanning.deep_field(text)
    place = f"{where} is" if where else "it is"
    return None, f"{place} {LEVELS.message}"


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


_ITEMS = b'"items":['
_OBJECT = b'"object":'
_PARTIAL = b'{"kind":"PartialObjectMetadata",'


def _page(text: bytes, start: int, end: int, items: collections.abc.Iterable[bytes]) -> Page:
    """A page whose items are at these positions."""
    page = _decode_list(text[:start] + text[end:])
    return Page(_objects(items), page.metadata.resourceVersion, page.metadata.continue_)


def _end_of_items(text: bytes) -> int:
    """Where the items of a list end: before its kind in a list of custom resources, whose metadata come last, else at the end of the text."""
    is_last = heads.METADATA in text[: text.find(_ITEMS)]
    return text.rfind(b"]") if is_last else text.rfind(b'],"kind":"')
