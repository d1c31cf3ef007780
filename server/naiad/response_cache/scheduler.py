"""A scheduler with the response cache in front of it: what was computed before is not computed again (rows 14.14, 14.25, 14.26).

A look-up comes before the queue, and a hit touches neither the queue nor an instance. Where the key takes long to make, or the store is another
process, the inference waits here; each such wait ends within a time limit. Models without a cache have no such scheduler. All of it belongs to
the event loop; large hashes and copies are made in threads.
"""

import asyncio
import collections.abc
import functools
import logging

from naiad.core.clock import Clock
from naiad.core.inference import Inference, OnResponse
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, FailureReason, InferenceError, internal, unavailable
from naiad.hosts.host import HostedInstance
from naiad.metrics.statistics import ModelStatistics
from naiad.response_cache.entry import CachedResponse, entry_of, size_of
from naiad.response_cache.key import KeyMaker, hashed_aside
from naiad.response_cache.local import LocalStore
from naiad.response_cache.replies import KnownReplies
from naiad.response_cache.store import Inserted, ResponseStore
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.ordering import Reordering
from naiad.scheduling.response_dispatcher import ResponseDispatcher
from naiad.scheduling.scheduler import Scheduler

_log = logging.getLogger(__name__)

COPIED_ASIDE = 1 << 20
"""Responses of more bytes are copied in a thread, after they were sent."""


class CachingScheduler:
    """Implements `Scheduler` in front of another one, which executes what is not in the cache.

    Args:
        inner: executes; it counts what it executes.
        model: the model's name.
        version: its version.
        owner: names the loaded version in the store.
        store: has the entries.
        make_key: makes the keys.
        statistics: of the version, as those of `inner`.
        preserve_ordering: whether responses leave in the order in which the requests came, hits included.
        clock: gives the time.
    """

    def __init__(
        self,
        inner: Scheduler,
        *,
        model: str,
        version: int,
        owner: str,
        store: ResponseStore,
        make_key: KeyMaker,
        statistics: ModelStatistics,
        preserve_ordering: bool,
        clock: Clock,
    ) -> None:
        self.statistics = statistics
        self._inner = inner
        self._model = model
        self._version = version
        self._owner = owner
        self._store = store
        self._local = store if isinstance(store, LocalStore) else None
        self._make_key = make_key
        self._now = clock.monotonic_ns
        self._order = (
            Reordering[collections.abc.Callable[[], None]]() if preserve_ordering else None
        )
        self._dispatcher = ResponseDispatcher(
            model=model, version=version, statistics=statistics, clock=clock
        )
        self._waiting = set[Inference]()
        self._idle: asyncio.Future[None] | None = None
        self._stopping = False
        self._warned = False
        statistics.caches = True
        self.replies: KnownReplies | None = None
        """None also with an order: a response may have to wait for others."""
        if self._local is not None and self._order is None:
            self.replies = KnownReplies(owner, self._local, statistics=statistics, clock=clock)

    def submit(self, inference: Inference) -> None:
        """See `Scheduler`."""
        if self._stopping:
            raise unavailable(
                f"{inference.request.label}Server is stopping, scheduler for model has stopped accepting new inference "
                f"requests: model '{self._model}' is being shut down. Send it to another server, or again later."
            )
        inference.queued_ns = self._now()
        if self._order is None:
            self._begin(inference)
            return
        original = inference.on_response
        ordered = inference.on_response = _Ordered(original, self._order)
        try:
            self._begin(inference)
        except BaseException:
            inference.on_response = original
            ordered.leave()
            raise

    def _begin(self, inference: Inference) -> None:
        local = self._local
        if local is not None and (plain := self._make_key.plain(inference.request)) is not None:
            # The usual hit: no hash, no callback.
            entry = local.get(plain)
            if entry is None:
                self._execute(inference, plain, self._now() - inference.queued_ns)
            else:
                self._hit(inference, entry, inference.queued_ns)
                local.measure(plain, entry)
            return
        if hashed_aside(inference.request):
            self._wait(inference)
            work = asyncio.get_running_loop().run_in_executor(
                None, self._make_key, inference.request
            )
            work.add_done_callback(functools.partial(self._hashed, inference))
            return
        key = self._make_key(inference.request)
        look_up = _LookUp(self, inference, key, self._now())
        self._store.look_up(self._owner, key, look_up)
        look_up.returned()

    def _hashed(self, inference: Inference, work: "asyncio.Future[bytes]") -> None:
        if work.cancelled() or (error := work.exception()) is not None:
            why = (
                "the server is stopping" if work.cancelled() else f"{type(error).__name__}: {error}"
            )
            self._leave(inference)
            text = (
                f"{inference.request.label}the key of the response cache could not be made: {why}"
            )
            self._dispatcher.fail(inference, internal(text))
        elif not inference.completed:
            look_up = _LookUp(self, inference, work.result(), self._now(), waits=True)
            self._store.look_up(self._owner, look_up.key, look_up)

    def found(self, look_up: "_LookUp", entry: CachedResponse | None) -> None:
        """A look-up has ended.

        Raises:
            InferenceError: of an inference that did not wait here: the inner scheduler refuses it.
        """
        inference = look_up.inference
        if look_up.waits:
            self._leave(inference)
        if inference.completed:
            return
        if entry is not None:
            self._hit(inference, entry, look_up.since_ns)
            if self._local is not None:
                self._local.measure(look_up.key, entry)
            return
        try:
            self._execute(inference, look_up.key, self._now() - look_up.since_ns)
        except InferenceError as error:
            if not look_up.waits:
                raise
            self._dispatcher.fail(inference, error)

    def _hit(self, inference: Inference, entry: CachedResponse, since_ns: int) -> None:
        """Respond with an entry, whose look-up began then."""
        now = self._now()
        self._dispatcher.respond_cached(
            inference,
            entry.response_to(inference.request, self._version),
            request_ns=now - inference.received_ns,
            queue_ns=since_ns - inference.queued_ns,
            lookup_ns=now - since_ns,
        )

    def _execute(self, inference: Inference, key: bytes, lookup_ns: int) -> None:
        """Have the inner scheduler execute it.

        Raises:
            InferenceError: that one refuses it.
        """
        original = inference.on_response
        inference.on_response = _Miss(self, inference, key, original, lookup_ns)
        try:
            self._inner.submit(inference)
        except InferenceError:
            inference.on_response = original
            raise

    def wait_for(self, inference: Inference) -> None:
        """The store has not responded yet."""
        self._wait(inference)

    def keep(self, key: bytes, response: InferResponse, lookup_ns: int) -> None:
        """Keep a response, which is sent next, and count the miss."""
        since_ns = self._now()
        size = size_of(response)
        if not self._store.accepts(size):
            self._warn(f"a response of {size} bytes does not fit into the response cache")
        elif size > COPIED_ASIDE:
            work = asyncio.get_running_loop().run_in_executor(None, entry_of, response)
            work.add_done_callback(functools.partial(self._copied, key))
        elif self._insert(key, entry_of(response)) is Inserted.KNOWN:
            return  # the same request was executed twice at the same time: neither a hit nor a miss, as in the reference
        self.statistics.record_cache_miss(lookup_ns + self._now() - since_ns)

    def _copied(self, key: bytes, work: "asyncio.Future[CachedResponse]") -> None:
        if not work.cancelled() and work.exception() is None and not self._stopping:
            self._insert(key, work.result())

    def _insert(self, key: bytes, entry: CachedResponse) -> Inserted:
        inserted = self._store.insert(self._owner, key, entry)
        if inserted is Inserted.TOO_LARGE:
            self._warn(f"a response of {entry.size} bytes does not fit into the response cache")
        return inserted

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("model '%s': %s; this is logged once", self._model, why)

    def _wait(self, inference: Inference) -> None:
        self._waiting.add(inference)
        inference.on_cancel = self._cancel

    def _leave(self, inference: Inference) -> None:
        self._waiting.discard(inference)
        inference.on_cancel = None
        if self._idle is not None and not self._waiting and not self._idle.done():
            self._idle.set_result(None)

    def _cancel(self, inference: Inference) -> None:
        self._leave(inference)
        self._dispatcher.fail(
            inference, InferenceError(ErrorCode.CANCELLED, "", reason=FailureReason.CANCELED)
        )

    def inflight(self) -> int:
        """See `Scheduler`."""
        return self._inner.inflight() + len(self._waiting)

    def occupancy(self) -> Occupancy:
        """See `Scheduler`: a look-up waits for no model."""
        return self._inner.occupancy()

    def ready_now(self) -> bool | None:
        """See `Scheduler`."""
        return self._inner.ready_now()

    async def ready(self) -> bool:
        """See `Scheduler`."""
        return await self._inner.ready()

    def resize(
        self,
        added: collections.abc.Iterable[HostedInstance],
        removed: collections.abc.Iterable[HostedInstance],
    ) -> None:
        """See `Scheduler`."""
        self._inner.resize(added, removed)

    async def stop(self) -> None:
        """See `Scheduler`. The entries of the version are dropped."""
        self._stopping = True
        self._store.forget(self._owner)
        if self._waiting:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)
        await self._inner.stop()
        self._store.forget(self._owner)


class _LookUp:
    """A look-up in progress; called with its result.

    Attributes:
        waits: whether the inference is one of those that wait in the scheduler.
    """

    __slots__ = ("_ended", "_owner", "inference", "key", "since_ns", "waits")

    def __init__(
        self,
        owner: CachingScheduler,
        inference: Inference,
        key: bytes,
        since_ns: int,
        *,
        waits: bool = False,
    ) -> None:
        self._owner = owner
        self._ended = False
        self.inference = inference
        self.key = key
        self.since_ns = since_ns
        self.waits = waits

    def __call__(self, entry: CachedResponse | None) -> None:
        self._ended = True
        self._owner.found(self, entry)

    def returned(self) -> None:
        """The store has returned: from now on the inference waits for the result."""
        if not self._ended:
            self.waits = True
            self._owner.wait_for(self.inference)


class _Miss:
    """An `OnResponse` of an inference that is executed: keeps its response, and passes it on."""

    __slots__ = ("_inference", "_key", "_lookup_ns", "_on_response", "_owner", "_responses")

    def __init__(
        self,
        owner: CachingScheduler,
        inference: Inference,
        key: bytes,
        on_response: OnResponse,
        lookup_ns: int,
    ) -> None:
        self._owner = owner
        self._inference = inference
        self._key = key
        self._on_response = on_response
        self._lookup_ns = lookup_ns
        self._responses = 0

    def __call__(self, response: InferResponse) -> None:
        self._responses += 1
        if response.final:
            self._inference.on_response = self._on_response
            # A request with several responses has no entry, which would have one of them.
            if response.error is None and not response.empty and self._responses == 1:
                self._owner.keep(self._key, response, self._lookup_ns)
        self._on_response(response)


class _Ordered:
    """An `OnResponse` that passes a response on once those to all earlier requests have been."""

    __slots__ = ("_on_response", "_order", "_ticket")

    def __init__(
        self, on_response: OnResponse, order: Reordering[collections.abc.Callable[[], None]]
    ) -> None:
        self._on_response = on_response
        self._order = order
        self._ticket = order.sent()

    def __call__(self, response: InferResponse) -> None:
        if not response.final:
            self._on_response(response)
        elif response.error is not None:
            # A refusal, a timeout or a cancellation waits for nothing, as without a cache.
            self._on_response(response)
            self.leave()
        else:
            self._come_back(functools.partial(self._on_response, response))

    def leave(self) -> None:
        """There is no response to wait for any more."""
        self._come_back(_nothing)

    def _come_back(self, send: collections.abc.Callable[[], None]) -> None:
        for each in self._order.came_back(self._ticket, send):
            try:
                each()
            except Exception:  # noqa: BLE001  a callback may raise anything, and the responses behind it still wait
                _log.exception("a response could not be sent")


def _nothing() -> None:
    """A request that left the order."""
