"""Keeps up with one collection: list, then watch, for as long as it runs.

What it must survive, each with a test: a watch that the server ends (it goes on from the last version seen, which bookmarks
keep fresh), a version that is too old (410, as an answer or inside the stream: list again), a connection that breaks or falls
silent without closing (no line for longer than the server's bookmark period), an answer of 403, 429 or 5xx (backs off, and
says so), an event of type ERROR. It never gives up and never raises; `Follower.trouble` says what holds it up.

The sink hears `replaced` after each list, so that objects which went while nobody watched are noticed.
"""

import asyncio
import collections.abc
import contextlib
import dataclasses
import logging
import random
import typing

import msgspec

from naiad_operator.cluster import client, errors
from naiad_operator.cluster.place import Place

_log = logging.getLogger(__name__)
_TOO_SHORT_S = 1.0
"""A watch that ends sooner, without a line, was no watch: something before the API server answers for it."""


class Sink(typing.Protocol):
    """Who is told about a collection's objects."""

    def changed(self, place: Place, item: client.Object) -> None:
        """An object is new or different."""

    def removed(self, place: Place, item: client.Object) -> None:
        """An object is gone."""

    def replaced(self, place: Place, present: collections.abc.Set[str], version: str) -> None:
        """A list is complete: at this version only the objects with these uids existed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How long things may take, in seconds.

    Attributes:
        watch: one watch; each asks for between this and twice this, so that they do not all end together.
        silence: without any line, after which a watch counts as broken. API servers send bookmarks about each minute.
        backoff: the first wait after a failure; it doubles.
        backoff_most: the longest wait.
    """

    watch: float = 240.0
    silence: float = 90.0
    backoff: float = 0.2
    backoff_most: float = 30.0


class _Event(msgspec.Struct):
    """A line of a watch."""

    type: str
    object: client.Object


_decode = msgspec.json.Decoder(_Event).decode


class Follower:
    """Follows one collection.

    Args:
        api: where to ask.
        place: the collection.
        labels: a label selector.
        sink: who is told.
        rhythm: see there.

    Attributes:
        listed: set once the first list is complete.
        trouble: the last failure, None while all is well.
        restarts: how many watches ended in another way than the server's own end.
    """

    def __init__(
        self,
        api: client.Client,
        place: Place,
        *,
        labels: str,
        sink: Sink,
        rhythm: Rhythm,
    ) -> None:
        self._api = api
        self.place = place
        self._labels = labels
        self._sink = sink
        self._rhythm = rhythm
        self._failures = 0
        self.listed = asyncio.Event()
        self.trouble: errors.ApiError | None = None
        self.restarts = 0

    async def run(self) -> typing.NoReturn:
        """Follows until it is cancelled."""
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                version = await self._watch(version)
            except errors.Gone:
                version = ""
                self.restarts += 1
            except errors.ApiError as error:
                self.restarts += 1
                await self._pause(error)
                if not isinstance(error, errors.Unreachable):
                    version = ""

    async def _list(self) -> str:
        present: set[str] = set()
        version = ""
        # The first page's version is the one of the whole list; later pages repeat it.
        async for items, at in self._api.pages(self.place, labels=self._labels):
            version = version or at
            for item in items:
                present.add(item["metadata"]["uid"])
                self._sink.changed(self.place, item)
        self._sink.replaced(self.place, present, version)
        self.listed.set()
        # The failures stay counted: a list that works before a watch that does not is no recovery.
        self.trouble = None
        return version

    async def _watch(self, version: str) -> str:
        seconds = self._rhythm.watch * random.uniform(1.0, 2.0)  # noqa: S311 - spreads load, guards nothing
        opened = self._api.watch(
            self.place,
            labels=self._labels,
            since=version,
            seconds=seconds,
            silence=self._rhythm.silence,
        )
        seen = version
        heard = False
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with opened as lines:
                self.trouble = None
                async for line in lines:
                    seen = self._hear(line) or seen
                    if not heard:
                        heard = True
                        self._failures = 0
        except errors.Unreachable as error:
            # What was heard stays heard: go on from there.
            self.restarts += 1
            await self._pause(error)
            return seen
        if not heard and loop.time() - began < _TOO_SHORT_S:
            raise errors.Unreachable(f"watch {self.place}", message="it ended at once")
        self._failures = 0
        return seen

    def _hear(self, line: bytes) -> str:
        try:
            event = _decode(line)
        except msgspec.DecodeError:
            raise errors.ServerTrouble(
                f"watch {self.place}", message=f"a line that is no event: {line[:200]!r}"
            ) from None
        match event.type:
            case "ADDED" | "MODIFIED":
                self._sink.changed(self.place, event.object)
            case "DELETED":
                self._sink.removed(self.place, event.object)
            case "BOOKMARK":
                pass
            case _:
                code = event.object.get("code") or 500
                raise errors.from_answer(f"watch {self.place}", code=code, status=event.object)
        version: str = (event.object.get("metadata") or {}).get("resourceVersion") or ""
        return version

    async def _pause(self, error: errors.ApiError) -> None:
        rhythm = self._rhythm
        wait = min(rhythm.backoff_most, rhythm.backoff * 2**self._failures)
        if isinstance(error, errors.TooManyRequests) and error.retry_after is not None:
            wait = max(wait, error.retry_after)
        self._failures = min(self._failures + 1, 16)
        self.trouble = error
        level = logging.WARNING if self._failures > 1 else logging.INFO
        _log.log(level, "%s; trying again in %.1f s", error, wait)
        await asyncio.sleep(wait * random.uniform(0.75, 1.25))  # noqa: S311 - spreads load, guards nothing


@contextlib.asynccontextmanager
async def following(
    followers: collections.abc.Iterable[Follower],
) -> collections.abc.AsyncIterator[None]:
    """Runs followers as long as the block runs."""
    tasks = [asyncio.create_task(each.run(), name=f"watch {each.place}") for each in followers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
