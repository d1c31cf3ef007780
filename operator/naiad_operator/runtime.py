"""The one place that wires: client, watches, queue, reconciler, what it says about itself; and the order of start and stop.

Start: look around once, list every kind of child (a service reconciled before that would take its children for missing), hold
the Lease if there is one, then let the queue's workers go. Stop: no new keys, what is being worked on ends, the Lease is given
back, connections are closed. Whoever brings services here (kopf's handlers, a test) calls `heard` and nothing else.
"""

import asyncio
import collections
import collections.abc
import contextlib
import datetime as dt
import functools
import logging
import secrets
import socket
import time
import typing

import aiohttp

from naiad_operator import logs
from naiad_operator.api import names
from naiad_operator.builders import kinds, names as labels
from naiad_operator.cluster import (
    child_store,
    client,
    credentials,
    errors,
    lease,
    reflector,
)
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.metrics import Levels, Metrics, page
from naiad_operator.options import Options
from naiad_operator.queue import Forget, Key, Outcome, Pace, Queue, Retry
from naiad_operator.reconcile import models, news, reconciler
from naiad_operator.reconcile.surroundings import Surroundings

_log = logging.getLogger(__name__)

_SETTLE_S = 0.2
"""How long a child's event waits for others of the same service: a rollout makes several at once, and each look costs a read."""
_STUCK_WAITING_S = 120.0
_STUCK_WORKING_S = 180.0
_POD = ResourceRef("v1", "pods")
_NEWEST = str(2**63)
"""Newer than any version."""
_AGENT = "naiad-operator"


class Runtime:
    """A running operator, apart from where it hears of services.

    Args:
        options: how it runs.
        endpoint: which API server.
        rhythm: of its watches.
    """

    def __init__(
        self,
        options: Options,
        endpoint: credentials.Endpoint,
        *,
        watch_timeouts: reflector.WatchTimeouts | None = None,
    ) -> None:
        self.options = options
        self.endpoint = endpoint
        self._watch_timeouts = (
            watch_timeouts if watch_timeouts is not None else reflector.WatchTimeouts()
        )
        self.metrics = Metrics()
        self.synced = asyncio.Event()
        self.stop_wanted = asyncio.Event()
        self.failure = ""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._followers: dict[tuple[str, str], reflector.Reflector] = {}
        self._at_start: set[Key] = set()

        self.api = client.Client(
            client.open_session(endpoint, agent=_AGENT),
            server=endpoint.server,
            manager=names.FIELD_MANAGER,
            timeouts=client.Timeouts(),
        )
        self.queue = Queue(
            self._work,
            Pace(workers=options.workers, resync=options.resync_seconds),
        )
        self.children = child_store.ChildStore(
            child_store.Labels(instance=labels.INSTANCE_LABEL, manager=names.FIELD_MANAGER),
            on_change=self._woken,
            transforms={"Pod": child_store.trim_pod},
        )
        self.surroundings = Surroundings(
            self.api, options.defaults, inspect_nodes=options.inspect_nodes
        )
        self._pod_session = aiohttp.ClientSession()
        self.models = models.Models(
            self._pod_session,
            changed=functools.partial(self.queue.add, behind=True),
            pace=models.AskingPace(),
        )
        self.news = news.News(time.monotonic)
        self.reconciler = reconciler.Reconciler(
            reconciler.Tools(
                api=self.api,
                news=self.news,
                children=self.children,
                surroundings=self.surroundings,
                models=self.models,
                clock=_utc,
            )
        )
        self._lease = self._make_lease() if options.leader_election else None

    async def start(self) -> None:
        """Starts everything; returns once it runs, which is before it has caught up.

        Raises:
            ApiError: the API server cannot be asked, or does not know the resource.
        """
        await self.surroundings.look()
        for namespace in self.options.namespaces or ("",):
            ref = ResourceRef(names.API_VERSION, names.PLURAL, namespace)
            async for services, _ in self.api.pages(ref):
                for manifest in services:
                    self._at_start.add(self._heard_first(manifest))
        self._follow_kinds()
        every = self.options.discovery_seconds
        self._spawn("look around", self.surroundings.keep_looking(every, self._changed))
        self._spawn("ask for models", self.models.run())
        self._spawn("work", self._begin())

    async def wind_down(self) -> None:
        """Takes no more work, and lets what is being worked on end; for a process that failed there is no time for that."""
        late = await self.queue.drain(0.0 if self.failure else self.options.drain_seconds)
        if late:
            _log.warning("%d reconciles did not end in time and were cancelled", late)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def stop(self) -> None:
        """Ends in order; safe to call when `start` did not get far, and after `wind_down`."""
        await self.wind_down()
        if self._lease is not None:
            await self._lease.release()
        await self._pod_session.close()
        await self.api.close()

    def heard(self, manifest: news.Manifest, *, listed: bool, gone: bool = False) -> None:
        """Something was heard of a service.

        Args:
            manifest: the service as the API server has it, or had it last.
            listed: whether a list said so and not a watch.
            gone: whether it was deleted.
        """
        key = _key(manifest)
        if gone:
            self.news.gone(key)
            self.queue.add(key)
        elif self.news.hear(key, manifest, listed=listed):
            self.queue.add(key)

    def stuck(self) -> str:
        """Why this process should be restarted, in words; "" when all is well."""
        if self.stop_wanted.is_set():
            return ""  # it ends anyway
        for name, task in self._tasks.items():
            if task.done():
                return f"the task {name!r} has ended"
        if self._lease is not None and not self._lease.held:
            return ""  # waiting for one's turn is no trouble
        if not self.synced.is_set():
            return ""  # held up by the API server: a restart would not help
        return self.queue.stuck(waiting=_STUCK_WAITING_S, working=_STUCK_WORKING_S)

    def unready(self) -> str:
        """What is still missing before every service has been looked at once, in words."""
        if not self._followers:
            return "the API server has not been asked yet"
        for follower in self._followers.values():
            if not follower.listed.is_set():
                last_error = f": {follower.last_error}" if follower.last_error is not None else ""
                return f"{follower.ref} are not listed yet{last_error}"
        if self._lease is not None and not self._lease.held:
            return ""
        left = sum(1 for key in self._at_start if self.queue.schedule.known(key))
        return f"{left} services have not been looked at since the start" if left else ""

    def page(self) -> str:
        """The Prometheus page."""
        now = asyncio.get_running_loop().time()
        schedule = self.queue.schedule
        restarts: collections.Counter[str] = collections.Counter()
        for follower in self._followers.values():
            restarts[follower.ref.plural] += follower.restarts
        leads = self._lease is None or self._lease.held
        levels = Levels(
            # Without the Lease nothing waits for this process: its queue only keeps the names for when it leads.
            queue_depth=schedule.depth(now) if leads else 0,
            queue_oldest=schedule.oldest_wait(now) if leads else 0.0,
            queue_failing=schedule.failing(),
            states=collections.Counter(self.reconciler.states.values()),
            children=len(self.children),
            watch_restarts=restarts,
            leader=leads,
        )
        return page(self.metrics, levels)

    def _heard_first(self, manifest: news.Manifest) -> Key:
        self.heard(manifest, listed=True)
        return _key(manifest)

    async def _begin(self) -> None:
        for follower in list(self._followers.values()):
            await follower.listed.wait()
        self.synced.set()
        _log.info("%d objects are known", len(self.children))
        if self._lease is None:
            await self.queue.run()
            return
        await self._lease.acquire()
        self._spawn("lead", self._lead(self._lease))
        await self.queue.run()

    async def _lead(self, held: lease.Lease) -> None:
        await held.renew()
        # Another one may write from now on; the fewer moments this process goes on, the better.
        self.fail("the lease is lost")
        await asyncio.get_running_loop().create_future()

    def fail(self, why: str) -> None:
        """Asks for the process to end, as failed."""
        _log.error("stopping: %s", why)
        self.failure = self.failure or why
        self.stop_wanted.set()

    async def _work(self, key: Key) -> Outcome:
        logs.OBJECT.set(str(key))
        began = time.monotonic()
        result = "bug"
        outcome: Outcome
        try:
            outcome = await self.reconciler.reconcile(key)
            match outcome:
                case Forget():
                    result = "gone"
                case Retry():
                    result = "refused"
                case _:
                    result = "ok"
        except errors.ApiError as error:
            result = "retry"
            self.metrics.errors[type(error).__name__] += 1
            _log.log(_level(error), "%s; trying again", error)
            asked = error.retry_after if isinstance(error, errors.TooManyRequests) else None
            outcome = Retry(asked)
        finally:
            self.metrics.took(time.monotonic() - began, result)
            self._at_start.discard(key)
        return outcome

    def _woken(self, namespace: str, name: str) -> None:
        """A watch of children has news. Before all are listed it is no news but the first list."""
        if self.synced.is_set() and name:
            self.queue.add(Key(namespace, name), delay=_SETTLE_S, behind=True)

    def _changed(self) -> None:
        """The surroundings are different."""
        if f"{names.API_VERSION}/{names.KIND}" not in self.surroundings.seen.kinds:
            self.fail(f"the API server no longer serves {names.CRD_NAME}")
            return
        self._follow_kinds()
        for key in self.queue.schedule.everyone():
            self.queue.add(key, delay=_SETTLE_S, behind=True)

    def _follow_kinds(self) -> None:
        """Follows every kind that the API server has and that is not followed yet, and no longer one that it has lost."""
        served = self.surroundings.seen.kinds
        wanted = [
            (kind.kind, ResourceRef(kind.api_version, kind.plural))
            for kind in kinds.KINDS
            if not kind.optional or kind.key in served
        ]
        wanted.append(("Pod", _POD))
        kept = {kind for kind, _ in wanted}
        for kind, namespace in [each for each in self._followers if each[0] not in kept]:
            follower = self._followers.pop((kind, namespace))
            self._tasks.pop(_watching(follower.ref)).cancel()
            self.children.prune(kind, namespace, present=frozenset(), version=_NEWEST)
        for kind, ref in wanted:
            for namespace in self.options.namespaces or ("",):
                if (kind, namespace) not in self._followers:
                    self._follow(kind, ResourceRef(ref.api_version, ref.plural, namespace))

    def _follow(self, kind: str, ref: ResourceRef) -> None:
        follower = reflector.Reflector(
            self.api,
            ref,
            labels=labels.CHILD_SELECTOR,
            handler=_StoreHandler(self.children, kind),
            timeouts=self._watch_timeouts,
        )
        self._followers[kind, ref.namespace] = follower
        self._spawn(_watching(ref), follower.run())

    def _spawn(
        self, name: str, work: collections.abc.Coroutine[typing.Any, typing.Any, None]
    ) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks[name] = task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """None of them ends by itself while the operator runs; one that does is a bug, and a restart heals more than it hurts."""
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("the task %r has died", task.get_name(), exc_info=error)
            self.fail(f"the task {task.get_name()!r} has died: {error!r}")

    def _make_lease(self) -> lease.Lease:
        namespace = self.options.lease_namespace or self.endpoint.namespace
        return lease.Lease(
            self.api,
            ResourceRef("coordination.k8s.io/v1", "leases", namespace, self.options.lease_name),
            identity=f"{socket.gethostname()}-{secrets.token_hex(4)}",
            config=lease.LeaseConfig(),
            clock=_utc,
        )


class _StoreHandler:
    """Puts what a watch says into the store, under the kind that lists leave out."""

    def __init__(self, store: child_store.ChildStore, kind: str) -> None:
        self._store = store
        self._kind = kind

    def on_update(self, ref: ResourceRef, item: client.Object) -> None:
        """An object is new or different."""
        self._store.update(self._kind, item)

    def on_delete(self, ref: ResourceRef, item: client.Object) -> None:
        """An object is gone."""
        metadata = item["metadata"]
        self._store.remove(metadata["uid"], metadata["resourceVersion"])

    def on_replace(self, ref: ResourceRef, present: collections.abc.Set[str], version: str) -> None:
        """A list is complete."""
        self._store.prune(self._kind, ref.namespace, present=present, version=version)


@contextlib.asynccontextmanager
async def running(runtime: Runtime) -> collections.abc.AsyncIterator[Runtime]:
    """A runtime that runs as long as the block."""
    try:
        await runtime.start()
        yield runtime
    finally:
        await runtime.stop()


def _key(manifest: news.Manifest) -> Key:
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def _watching(ref: ResourceRef) -> str:
    """The name of the task that follows a collection."""
    return f"watch {ref}"


def _level(error: errors.ApiError) -> int:
    """A conflict is two writers at once, which is ordinary."""
    return logging.INFO if isinstance(error, errors.Conflict) else logging.WARNING


def _utc() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
