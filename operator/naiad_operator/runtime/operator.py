"""The composition root of the operator: it makes the parts, and starts and stops them in order.

Start: discover the served kinds, list every kind of child (a reconcile before that would take existing children for missing),
acquire the Lease if leader election is on, then start the workers. Stop: take no new keys, wait for running reconciles, release the
Lease, close the connections. The source of services (kopf's handlers, or a test) calls only `on_service_event`.
"""

import asyncio
import collections
import collections.abc
import contextlib
import datetime as dt
import functools
import itertools
import logging
import time

from naiad_operator import logs
from naiad_operator.api import names
from naiad_operator.builders import names as labels
from naiad_operator.cluster import child_store, client, credentials, errors, session
from naiad_operator.cluster.reflector import WatchTimeouts
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.metrics import Gauges, Metrics, page
from naiad_operator.options import Options
from naiad_operator.queue import Deleted, Key, Outcome, Queue, QueueConfig, Retry
from naiad_operator.reconcile import hosts, reconciler
from naiad_operator.reconcile.lookups import model_poller, nodes_and_claims, scale_ups
from naiad_operator.reconcile.lookups.cluster_info import ClusterInfo
from naiad_operator.reconcile.stores import service_store
from naiad_operator.reconcile.stores.profile_store import ProfileStore
from naiad_operator.runtime.health import Health
from naiad_operator.runtime.leadership import Leadership, elected
from naiad_operator.runtime.tasks import Tasks
from naiad_operator.runtime.watches import Watches
from naiad_operator.upgrade.scheduler import UpgradeScheduler

_log = logging.getLogger(__name__)

_CHILD_EVENT_DELAY_S = 0.2
"""How long a child's event waits for further events of the same service: a rollout causes several at once, and each reconcile may cost a request."""
_USER_AGENT = "naiad-operator"


class Runtime:
    """A running operator, without the source of its service events.

    Args:
        options: the options of the command line.
        access: the credentials for the API server.
        watch_timeouts: the timeouts of the watches.

    Attributes:
        health: the responses of the probes.
        stop_requested: set when the process should end.
        failure: why the process ends as failed; "" when it does not.
    """

    def __init__(
        self,
        options: Options,
        access: credentials.Credentials,
        *,
        watch_timeouts: WatchTimeouts | None = None,
    ) -> None:
        self.options = options
        self.access = access
        self.stop_requested = asyncio.Event()
        self.failure = ""
        self._metrics = Metrics()
        self._tasks = Tasks(self.fail)

        self.api = client.Client(
            session.open_session(access, agent=_USER_AGENT),
            server=access.endpoint.server,
            manager=names.FIELD_MANAGER,
            timeouts=client.Timeouts(),
        )
        self._services = service_store.ServiceStore(time.monotonic)
        self._queue = Queue(
            self._work,
            QueueConfig(workers=options.workers, resync_period=options.resync_seconds),
            is_heavy=self._services.is_large,
        )
        self._children = child_store.ChildStore(
            child_store.Labels(
                instance=labels.INSTANCE_LABEL, manager=names.FIELD_MANAGER, owner=names.OWNER
            ),
            on_change=self._on_child_change,
            transforms={"Pod": child_store.trim_pod},
        )
        self._cluster_info = ClusterInfo(self.api)
        timeouts = watch_timeouts if watch_timeouts is not None else WatchTimeouts()
        self._watches = Watches(
            self.api,
            self._children,
            self._tasks,
            namespaces=options.namespaces,
            timeouts=timeouts,
            on_change=self._reconcile_all,
            on_missing=self._cluster_info.refresh_soon,
            on_recovery=self._reconcile_failed,
        )
        self._profiles = ProfileStore(
            self.api,
            enabled=options.profiles,
            fallback=options.default_profile,
            timeouts=timeouts,
            on_change=self._reconcile_all,
            on_namespace=self._reconcile_namespace,
        )
        self._pod_session = model_poller.open_session()
        self._models = model_poller.ModelPoller(
            self._pod_session,
            on_change=functools.partial(self._queue.add, low_priority=True),
            config=model_poller.PollConfig(),
        )
        self._upgrades = UpgradeScheduler(
            limit=options.max_concurrent_restarts,
            time_limit_s=options.upgrades.time_limit_seconds,
            wake=functools.partial(self._queue.add, low_priority=True),
        )
        self._reconciler = reconciler.Reconciler(
            reconciler.Dependencies(
                api=self.api,
                services=self._services,
                children=self._children,
                cluster_info=self._cluster_info,
                defaults=options.defaults,
                nodes=nodes_and_claims.Nodes(
                    self.api, time.monotonic, enabled=options.inspect_nodes
                ),
                claims=nodes_and_claims.Claims(self.api, time.monotonic),
                scale_ups=scale_ups.ScaleUps(self.api, time.monotonic),
                watch_problems=self._watches.problems,
                models=self._models,
                profile_of=self._profiles.of,
                upgrades=self._upgrades,
                hosts=hosts.Hosts(functools.partial(self._queue.add, low_priority=True)),
                upgrade_options=options.upgrades,
                clock=_utc,
                allow_downgrade=options.allow_downgrade,
            )
        )
        self._leadership = Leadership(None)
        if options.leader_election:
            namespace = options.lease_namespace or access.endpoint.namespace
            self._leadership = elected(
                self.api, namespace=namespace, name=options.lease_name, clock=_utc
            )
        self.health = Health(
            watches=self._watches,
            profiles=self._profiles,
            queue=self._queue,
            tasks=self._tasks,
            leadership=self._leadership,
            is_stopping=self.stop_requested.is_set,
        )

    async def start(self) -> None:
        """Starts everything; returns before the first lists are complete.

        Raises:
            ApiError: the API server does not respond, or does not serve the resource.
        """
        await self._cluster_info.refresh()
        for namespace in self.options.namespaces or ("",):
            ref = ResourceRef(names.API_VERSION, names.PLURAL, namespace)
            async for services, _ in self.api.pages(ref):
                for manifest in services:
                    key = _key(manifest["metadata"])
                    self._services.put(key, manifest)
                    self._queue.add(key)
                    self.health.initial_keys.add(key)
                    await asyncio.sleep(0)  # to decode and pack a large one takes a while
        self._watches.follow(self._cluster_info.kinds)
        self._profiles.follow(self._cluster_info.kinds)
        self._tasks.start("watch profiles", self._profiles.run())
        self._tasks.start("poll models", self._models.run())
        self._tasks.start("queue", self._start_queue())

    async def drain(self) -> None:
        """Takes no more work and waits for running reconciles; after a failure they are cancelled at once."""
        cancelled = await self._queue.drain(0.0 if self.failure else self.options.drain_seconds)
        if cancelled:
            _log.warning("%d reconciles did not end in time and were cancelled", cancelled)
        await self._tasks.close()

    async def stop(self) -> None:
        """Drains, releases the Lease and closes the connections. Safe to call after a failed `start` and after `drain`."""
        await self.drain()
        await self._leadership.release()
        await self._pod_session.close()
        await self.api.close()

    def on_service_event(
        self, metadata: service_store.Manifest, *, listed: bool, gone: bool = False
    ) -> None:
        """Takes in an event of a service and adds the service to the queue.

        Args:
            metadata: the metadata of the service as the API server has it, or its last state.
            listed: whether the event comes from a list and not from a watch.
            gone: whether the service was deleted.
        """
        key = _key(metadata)
        if gone:
            self._services.discard(key)
            self._queue.add(key)
        elif self._services.notice(key, metadata, listed=listed):
            self._queue.add(key)

    def fail(self, reason: str) -> None:
        """Requests that the process ends, as failed."""
        _log.error("stopping: %s", reason)
        self.failure = self.failure or reason
        self.stop_requested.set()

    def page(self) -> str:
        """The metrics in the Prometheus text format."""
        now = asyncio.get_running_loop().time()
        schedule = self._queue.schedule
        leads = self._leadership.leads
        gauges = Gauges(
            # A process without the Lease does not reconcile: its queue only keeps the keys until it becomes the leader.
            queue_depth=schedule.depth(now) if leads else 0,
            queue_oldest=schedule.oldest_wait(now) if leads else 0.0,
            queue_failing=schedule.failing(),
            conditions=collections.Counter(
                itertools.chain.from_iterable(self._reconciler.conditions.values())
            ),
            children=len(self._children),
            upgrades=self._upgrades.counts(),
            blocked_upgrades=[(key.namespace, key.name) for key in self._upgrades.blocked()],
            watch_restarts=self._watches.restarts(),
            unwatched=collections.Counter(
                problem.kind.plural for problem in self._watches.all_problems()
            ),
            unreadable=self.api.unreadable.counts,
            left_out=self._children.left_out(),
            leader=leads,
            model_polls=self._models.results,
        )
        return page(self._metrics, gauges)

    async def _start_queue(self) -> None:
        await self._watches.wait()
        await self._profiles.wait()
        self.health.synced = True
        _log.info("%d objects are known", len(self._children))
        await self._leadership.acquire()
        if self._leadership.is_elected:
            self._tasks.start("renew lease", self._leadership.keep(self._on_lease_lost))
            # A process that waits discovers nothing: another kind may be served by now.
            await self._discover()
            await self._watches.wait()
        interval = self.options.discovery_seconds
        self._tasks.start(
            "discovery",
            self._cluster_info.refresh_periodically(interval, self._on_kinds_change),
        )
        await self._queue.run()

    async def _discover(self) -> None:
        try:
            if await self._cluster_info.refresh():
                self._on_kinds_change()
        except errors.ApiError as error:
            _log.warning("%s; the kinds that were served before are used", error)

    def _on_lease_lost(self) -> None:
        self.fail("the lease is lost")

    async def _work(self, key: Key) -> Outcome:
        logs.OBJECT.set(str(key))
        started = time.monotonic()
        result = "bug"
        outcome: Outcome
        try:
            outcome = await self._reconciler.reconcile(key)
            match outcome:
                case Deleted():
                    result = "gone"
                case Retry():
                    result = "refused"
                case _:
                    result = "ok"
        except errors.ApiError as error:
            result = "retry"
            self._metrics.errors[type(error).__name__] += 1
            _log.log(_log_level(error), "%s; trying again", error)
            retry_after = error.retry_after if isinstance(error, errors.TooManyRequests) else None
            outcome = Retry(retry_after)
        finally:
            self._metrics.observe(time.monotonic() - started, result)
            self.health.initial_keys.discard(key)
            if not self.health.initial_keys:
                # Before that, services may be replacing their pods unseen.
                self._upgrades.open()
        return outcome

    def _on_child_change(self, namespace: str, name: str) -> None:
        """Adds a service whose child has changed to the queue. Until all kinds are listed, changes are ignored: they are the first list."""
        if self.health.synced and name:
            self._queue.add(Key(namespace, name), delay=_CHILD_EVENT_DELAY_S, low_priority=True)

    def _on_kinds_change(self) -> None:
        """Starts and stops watches, and reconciles every service, after the served kinds have changed."""
        if f"{names.API_VERSION}/{names.KIND}" not in self._cluster_info.kinds:
            self.fail(f"the API server no longer serves {names.CRD_NAME}")
            return
        self._watches.follow(self._cluster_info.kinds)
        self._profiles.follow(self._cluster_info.kinds)
        self._reconcile_all()

    def _reconcile_failed(self) -> None:
        """Adds the services whose last reconcile failed to the queue: the API server responds again, and the wait for their next attempt may be a minute."""
        for key in self._queue.schedule.failing_keys():
            self._queue.add(key, delay=_CHILD_EVENT_DELAY_S)

    def _reconcile_all(self) -> None:
        for key in self._queue.schedule.all_keys():
            self._queue.add(key, delay=_CHILD_EVENT_DELAY_S, low_priority=True)

    def _reconcile_namespace(self, namespace: str) -> None:
        for key in self._queue.schedule.all_keys():
            if key.namespace == namespace:
                self._queue.add(key, delay=_CHILD_EVENT_DELAY_S, low_priority=True)


@contextlib.asynccontextmanager
async def running(runtime: Runtime) -> collections.abc.AsyncIterator[Runtime]:
    """A runtime that runs as long as the block."""
    try:
        await runtime.start()
        yield runtime
    finally:
        await runtime.stop()


def _key(metadata: service_store.Manifest) -> Key:
    return Key(metadata.get("namespace") or "", metadata["name"])


def _log_level(error: errors.ApiError) -> int:
    """The log level of an API error. A conflict is two concurrent writes, which is ordinary."""
    return logging.INFO if isinstance(error, errors.Conflict) else logging.WARNING


def _utc() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
