"""The local store: entries in the server's memory, up to so many bytes; the least recently used ones make room (row 14.27). Plain state."""

import collections

from naiad.response_cache.entry import CachedResponse
from naiad.response_cache.replies import CachedReply, Place, ReplyTable
from naiad.response_cache.store import Inserted, OnFound


class LocalStore:
    """Implements `ResponseStore`.

    Args:
        size: bytes.

    Attributes:
        used: bytes of the entries that are kept.
        replies: replies that were written of them, in the room that is left.
        evicted: how many entries made room for others.
    """

    shared = False

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries = collections.OrderedDict[bytes, tuple[str, CachedResponse]]()
        self._sizes: dict[bytes, int] = {}
        self._keys: dict[str, set[bytes]] = {}
        self.used = 0
        self.evicted = 0
        self.replies = ReplyTable()

    def __len__(self) -> int:
        return len(self._entries)

    def look_up(self, owner: str, key: bytes, on_found: OnFound) -> None:
        """See `ResponseStore`."""
        on_found(self.get(key))

    def get(self, key: bytes) -> CachedResponse | None:
        """An entry, which is the most recently used one now; None if there is none."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[1]

    def insert(self, owner: str, key: bytes, entry: CachedResponse) -> Inserted:
        """See `ResponseStore`."""
        if key in self._entries:
            return Inserted.KNOWN
        if not self.accepts(entry.size):
            return Inserted.TOO_LARGE
        self._make_room(entry.size)
        self._entries[key] = owner, entry
        entry.texts.entry = key
        self._sizes[key] = entry.size
        self._keys.setdefault(owner, set()).add(key)
        return Inserted.NEW

    def measure(self, key: bytes, entry: CachedResponse) -> None:
        """Count what protocols have written of an entry that was just sent; the least recently used ones make room for it."""
        counted = self._sizes.get(key)
        size = entry.size + entry.texts.size
        if counted is None or counted == size:
            return
        self._entries.move_to_end(key)
        if size > self._size:
            entry.texts.by_name.clear()
            return
        self._sizes[key] = size
        self._make_room(size - counted)

    def _make_room(self, more: int) -> None:
        self.used += more
        while self.used + self.replies.used > self._size:
            if self.replies.drop_oldest():
                continue
            oldest, (its_owner, entry) = self._entries.popitem(last=False)
            self._keys[its_owner].discard(oldest)
            self._left(oldest, entry)
            self.evicted += 1

    def _left(self, key: bytes, entry: CachedResponse) -> None:
        """An entry is not kept any more."""
        self.used -= self._sizes.pop(key)
        self.replies.drop_of(key)
        entry.texts.entry = None

    def keep_reply(self, place: Place, reply: CachedReply) -> None:
        """Keep a reply in the room that entries leave, which older replies make for it."""
        room = self._size - self.used
        if reply.size > room or reply.entry not in self._entries:
            return
        while self.replies.used + reply.size > room:
            self.replies.drop_oldest()
        self.replies.add(place, reply)

    def accepts(self, size: int) -> bool:
        """See `ResponseStore`."""
        return size <= self._size

    def forget(self, owner: str) -> None:
        """See `ResponseStore`."""
        for key in self._keys.pop(owner, ()):
            _, entry = self._entries.pop(key)
            self._left(key, entry)

    async def start(self) -> None:
        """See `ResponseStore`: there is nothing to connect to."""

    async def close(self) -> None:
        """See `ResponseStore`."""
        for owner in tuple(self._keys):
            self.forget(owner)
