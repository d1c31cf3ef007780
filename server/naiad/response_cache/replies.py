"""Whole replies, as a protocol has written them, by the bytes of the request: the same request again is neither decoded nor hashed.

A reply goes with the entry that it was written of, and takes only the room that entries leave: the oldest one goes first. Plain state.
"""

import collections.abc
import typing

from naiad.core.clock import Clock
from naiad.core.record import Record
from naiad.core.tensor import Texts
from naiad.metrics.statistics import ModelStatistics

if typing.TYPE_CHECKING:
    from naiad.response_cache.local import LocalStore

Form = tuple[bytes | int | None, ...]
"""What decides, beside the body of a request, what it gets: headers, and perhaps the length of something that the body is looked up without."""

Place = tuple[str, Form, typing.Any]
"""The model version, the form, and the body or, of a longer one, its length and two pieces."""

_OVERHEAD = 512
"""About the memory of a reply beside its bytes."""

_WHOLE = 1 << 12
"""Bytes of a body that is looked up by all of them: hashing so many takes a microsecond."""

_PIECE = 1 << 10


class CachedReply(Record, frozen=True):
    """A reply.

    Attributes:
        entry: the key of the entry that it was written of.
        body: of the request.
        size: bytes of memory, about.
    """

    entry: bytes
    body: bytes
    reply: typing.Any
    size: int


class ReplyTable:
    """The replies of a store, which bounds them.

    Attributes:
        used: bytes.
    """

    def __init__(self) -> None:
        self._replies: dict[Place, CachedReply] = {}
        self._places: dict[bytes, list[Place]] = {}
        self.used = 0
        self.get: collections.abc.Callable[[Place], CachedReply | None] = self._replies.get

    def __len__(self) -> int:
        return len(self._replies)

    def add(self, place: Place, reply: CachedReply) -> None:
        """Keep a reply, in place of another one there."""
        if place in self._replies:
            self._remove(place)
        self._replies[place] = reply
        self._places.setdefault(reply.entry, []).append(place)
        self.used += reply.size

    def drop_oldest(self) -> bool:
        """Drop the reply that was kept first; False if there is none."""
        place = next(iter(self._replies), None)
        if place is not None:
            self._remove(place)
        return place is not None

    def drop_of(self, entry: bytes) -> None:
        """Drop what was written of an entry."""
        for place in self._places.pop(entry, ()):
            self.used -= self._replies.pop(place).size

    def _remove(self, place: Place) -> None:
        reply = self._replies.pop(place)
        self.used -= reply.size
        places = self._places[reply.entry]
        places.remove(place)
        if not places:
            del self._places[reply.entry]


class KnownReplies:
    """The replies of one model version (implements `engine.api.KnownReplies`).

    Args:
        owner: names the loaded version in the store.
        store: has the entries, and the replies.
        statistics: of the version; each reply that is found counts as a hit (row 14.25).
        clock: gives the time.
    """

    __slots__ = ("_find", "_now", "_owner", "_record", "_store")

    def __init__(
        self, owner: str, store: "LocalStore", *, statistics: ModelStatistics, clock: Clock
    ) -> None:
        self._owner = owner
        self._store = store
        self._find = store.replies.get
        self._now = clock.monotonic_ns
        self._record = statistics.record_cache_hit

    def get(self, body: bytes, form: Form) -> typing.Any:
        """The reply to a request, which counts as a hit; None if it is not known."""
        began = self._now()
        known = self._find((self._owner, form, _place_of(body)))
        if known is None or known.body != body:
            return None
        self._store.get(known.entry)
        took = self._now() - began
        self._record(request_ns=took, queue_ns=0, lookup_ns=took)
        return known.reply

    def keep(self, body: bytes, form: Form, reply: typing.Any, size: int, texts: Texts) -> None:
        """Keep a reply of `size` bytes, if the entry is still there that it was written of; `texts` are those of the entry."""
        if texts.entry is None:
            return
        kept = CachedReply(texts.entry, body, reply, _OVERHEAD + len(body) + size)
        self._store.keep_reply((self._owner, form, _place_of(body)), kept)


def _place_of(body: bytes) -> typing.Any:
    size = len(body)
    if size <= _WHOLE:
        return body
    middle = size >> 1
    return size, body[middle : middle + _PIECE], body[-_PIECE:]
