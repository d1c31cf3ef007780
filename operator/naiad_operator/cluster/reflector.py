"""The reflector: lists one collection and then watches it, for as long as the operator runs.

It handles these cases, each with a test:

* The server ends the watch: the reflector continues from the last version, which bookmarks keep recent.
* The version is too old (410, as a response or inside the stream): it lists again.
* The connection breaks, or no line arrives for longer than the server's bookmark period: it watches again.
* The server responds with 403, 429 or 5xx: it backs off and logs the error.
* The stream contains an event of type ERROR, or a line that is not an event.

A reflector never ends and never raises; `Reflector.last_error` says why the collection is not watched. After each list it calls
`EventHandler.on_replace`, so that objects which were deleted between two watches are removed.
"""

import asyncio
import collections.abc
import dataclasses
import logging
import random
import typing

from naiad_operator.api.manifests.unreadable import problem_of
from naiad_operator.cluster import client, errors, reading
from naiad_operator.cluster.resource_ref import ResourceRef

_log = logging.getLogger(__name__)

GRACE_S = 30.0
"""How long a collection that was never listed may fail with errors that usually pass (5xx, 429) until it counts as one that cannot be listed."""
_MIN_WATCH_S = 1.0
"""A watch that ends sooner and without a line counts as failed: probably a proxy responds in place of the API server."""


class EventHandler(typing.Protocol):
    """Receives the changes of a collection's objects."""

    def on_update(self, ref: ResourceRef, item: client.Object) -> None:
        """Called for an object that is new or has changed."""

    def on_delete(self, ref: ResourceRef, item: client.Object) -> None:
        """Called for an object that was deleted."""

    def on_replace(self, ref: ResourceRef, present: collections.abc.Set[str], version: str) -> None:
        """Called after a complete list: at this version only the objects with these uids existed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WatchTimeouts:
    """The timeouts and backoff of a reflector, in seconds.

    Attributes:
        watch: the shortest duration of a watch; each requests between this and twice this, so that not all end together.
        idle: the longest time without a line, after which a watch counts as broken. API servers send a bookmark about once per
            minute.
        backoff: the wait after the first failure; it doubles with each failure.
        max_backoff: the longest wait: how long, and a quarter more, an outage of the API server outlasts itself in the status of services.
    """

    watch: float = 240.0
    idle: float = 90.0
    backoff: float = 0.2
    max_backoff: float = 10.0


class Reflector:
    """Lists and watches one collection and reports its changes to an event handler.

    Args:
        api: the client of the API server.
        ref: the collection.
        labels: a label selector.
        handler: receives the changes.
        timeouts: the timeouts and backoff.
        on_state: called when the collection was listed, and when a request has failed or succeeded again.

    Attributes:
        listed: set once the first list is complete.
        last_error: why the collection is not watched now; None while it is.
        failing_since: the loop's time of the first failure since the last watch; None while there is no error.
        restarts: how many watches failed, i.e. were not ended by the server at the requested time.
    """

    def __init__(
        self,
        api: client.Client,
        ref: ResourceRef,
        *,
        labels: str,
        handler: EventHandler,
        timeouts: WatchTimeouts,
        on_state: collections.abc.Callable[[], None] = lambda: None,
    ) -> None:
        self._on_state = on_state
        self._api = api
        self.ref = ref
        self._labels = labels
        self._handler = handler
        self._timeouts = timeouts
        self._failures = 0
        self.listed = asyncio.Event()
        self.last_error: errors.ApiError | None = None
        self.failing_since: float | None = None
        self.restarts = 0

    def failing_for(self) -> float:
        """Seconds since the first of the current failures; 0 while there is none."""
        if self.failing_since is None:
            return 0.0
        return asyncio.get_running_loop().time() - self.failing_since

    async def run(self) -> typing.NoReturn:
        """Lists and watches until it is cancelled."""
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
                await self._back_off(error)
                if not isinstance(error, errors.Unreachable):
                    version = ""

    async def _list(self) -> str:
        present: set[str] = set()
        version = ""
        # The first page's version is the one of the whole list; later pages repeat it.
        async for items, at in self._api.pages(self.ref, labels=self._labels):
            version = version or at
            for item in items:
                present.add(item["metadata"]["uid"])
                self._update(item)
                await asyncio.sleep(0)  # to decode and pack a large object takes a while
        self._handler.on_replace(self.ref, present, version)
        # The failure count and the error stay: a successful list before a failing watch is not a recovery.
        self.listed.set()
        self._on_state()
        return version

    async def _watch(self, version: str) -> str:
        seconds = self._timeouts.watch * random.uniform(1.0, 2.0)  # noqa: S311 - jitter, not cryptography
        stream = self._api.watch(
            self.ref,
            labels=self._labels,
            since=version,
            seconds=seconds,
            idle_timeout=self._timeouts.idle,
        )
        last_version = version
        received = False
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with stream as lines:
                self._recovered()
                async for line in lines:
                    last_version = self._handle_line(line) or last_version
                    if not received:
                        received = True
                        self._failures = 0
        except errors.Unreachable as error:
            # Continue after the last event that was received.
            self.restarts += 1
            await self._back_off(error)
            return last_version
        if not received and loop.time() - started < _MIN_WATCH_S:
            raise errors.Unreachable(f"watch {self.ref}", message="it ended at once")
        self._failures = 0
        return last_version

    def _handle_line(self, line: bytes) -> str:
        try:
            event = reading.read_event(line)
        except ValueError:
            raise errors.ServerTrouble(
                f"watch {self.ref}", message=f"a line that is not an event: {line[:200]!r}"
            ) from None
        match event.type:
            case "ADDED" | "MODIFIED":
                if problem_of(event.object):
                    self._api.unreadable.note(self.ref.plural, event.object)
                self._update(event.object)
            case "DELETED":
                self._handler.on_delete(self.ref, event.object)
            case "BOOKMARK":
                pass
            case _:
                code = event.object.get("code") or 500
                raise errors.from_response(f"watch {self.ref}", code=code, status=event.object)
        version: str = (event.object.get("metadata") or {}).get("resourceVersion") or ""
        return version

    def _update(self, item: client.Object) -> None:
        """Reports an object that is new or has changed; one that the handler fails on keeps no other from being reported."""
        try:
            self._handler.on_update(self.ref, item)
        except Exception:  # noqa: BLE001 - one object must not end the watch of the others
            _log.exception("a bug in the operator: it cannot take in one of %s", self.ref)

    def _recovered(self) -> None:
        if self.last_error is not None:
            self.last_error = self.failing_since = None
            self._on_state()

    async def _back_off(self, error: errors.ApiError) -> None:
        timeouts = self._timeouts
        wait = min(timeouts.max_backoff, timeouts.backoff * 2**self._failures)
        if isinstance(error, errors.TooManyRequests) and error.retry_after is not None:
            wait = max(wait, error.retry_after)
        self._failures = min(self._failures + 1, 16)
        self.last_error = error
        if self.failing_since is None:
            self.failing_since = asyncio.get_running_loop().time()
        self._on_state()
        level = logging.WARNING if self._failures > 1 else logging.INFO
        _log.log(level, "%s; trying again in %.1f s", error, wait)
        await asyncio.sleep(wait * random.uniform(0.75, 1.25))  # noqa: S311 - jitter, not cryptography
