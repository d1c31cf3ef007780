"""The composition root of the operator: client, reflectors, queue, reconciler and metrics, and the order of start and stop.

Start: discover the cluster, list every kind of child (a reconcile before that would take existing children for missing), acquire
the Lease if leader election is on, then start the workers. Stop: take no new keys, wait for running reconciles, release the
Lease, close the connections. The source of services (kopf's handlers, or a test) calls only `on_service_event`.
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

from naiad_operator import logs
from naiad_operator.api import names
from naiad_operator.builders import kinds, names as labels
from naiad_operator.cluster import (
    child_store,
    client,
    credentials,
    errors,
    lease,
)
from naiad_operator.cluster.reflector import Reflector, WatchTimeouts
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.metrics import Gauges, Metrics, page
from naiad_operator.options import Options
from naiad_operator.queue import Deleted, Key, Outcome, Queue, QueueConfig, Retry
from naiad_operator.reconcile import model_poller, pending_objects, reconciler
from naiad_operator.reconcile.cluster_info import ClusterInfo

_log = logging.getLogger(__name__)

_CHILD_EVENT_DELAY_S = 0.2
"""How long a child's event waits for further events of the same service: a rollout causes several at once, and each reconcile may cost a request."""
_STUCK_WAITING_S = 120.0
_STUCK_WORKING_S = 180.0
_POD = ResourceRef("v1", "pods")
_NEWEST = str(2**63)
"""A resourceVersion that is newer than any other."""
_USER_AGENT = "naiad-operator"


class Runtime:
    """A running operator, without the source of its service events.

    Args:
        options: the options of the command line.
        endpoint: the API server and its credentials.
        watch_timeouts: the timeouts of the watches.

    Attributes:
        synced: set once every kind of child is listed.
        stop_requested: set when the process should end.
        failure: why the process ends as failed; "" when it does not.
    """

    def __init__(
        self,
        options: Options,
        endpoint: credentials.Endpoint,
        *,
        watch_timeouts: WatchTimeouts | None = None,
    ) -> None:
        self.options = options
        self.endpoint = endpoint
        self._watch_timeouts = watch_timeouts if watch_timeouts is not None else WatchTimeouts()
        self.metrics = Metrics()
        self.synced = asyncio.Event()
        self.stop_requested = asyncio.Event()
        self.failure = ""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._reflectors: dict[tuple[str, str], Reflector] = {}
        self._initial_keys: set[Key] = set()

        self.api = client.Client(
            client.open_session(endpoint, agent=_USER_AGENT),
            server=endpoint.server,
            manager=names.FIELD_MANAGER,
            timeouts=client.Timeouts(),
        )
        self.queue = Queue(
            self._work,
            QueueConfig(workers=options.workers, resync_period=options.resync_seconds),
        )
        self.children = child_store.ChildStore(
            child_store.Labels(instance=labels.INSTANCE_LABEL, manager=names.FIELD_MANAGER),
            on_change=self._on_child_change,
            transforms={"Pod": child_store.trim_pod},
        )
        self.cluster_info = ClusterInfo(
            self.api, options.defaults, inspect_nodes=options.inspect_nodes
        )
        self._pod_session = model_poller.open_session()
        self.models = model_poller.ModelPoller(
            self._pod_session,
            on_change=functools.partial(self.queue.add, low_priority=True),
            config=model_poller.PollConfig(),
        )
        self.pending = pending_objects.PendingObjects(time.monotonic)
        self.reconciler = reconciler.Reconciler(
            reconciler.Dependencies(
                api=self.api,
                pending=self.pending,
                children=self.children,
                cluster_info=self.cluster_info,
                models=self.models,
                clock=_utc,
            )
        )
        self._lease = self._make_lease() if options.leader_election else None

    async def start(self) -> None:
        """Starts everything; returns before the first lists are complete.

        Raises:
            ApiError: the API server does not respond, or does not serve the resource.
        """
        await self.cluster_info.refresh()
        for namespace in self.options.namespaces or ("",):
            ref = ResourceRef(names.API_VERSION, names.PLURAL, namespace)
            async for services, _ in self.api.pages(ref):
                for manifest in services:
                    self._initial_keys.add(self._add_listed(manifest))
        self._watch_kinds()
        interval = self.options.discovery_seconds
        self._spawn(
            "discovery", self.cluster_info.refresh_periodically(interval, self._on_cluster_change)
        )
        self._spawn("poll models", self.models.run())
        self._spawn("queue", self._start_queue())

    async def drain(self) -> None:
        """Takes no more work and waits for running reconciles; after a failure they are cancelled at once."""
        cancelled = await self.queue.drain(0.0 if self.failure else self.options.drain_seconds)
        if cancelled:
            _log.warning("%d reconciles did not end in time and were cancelled", cancelled)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def stop(self) -> None:
        """Drains, releases the Lease and closes the connections. Safe to call after a failed `start` and after `drain`."""
        await self.drain()
        if self._lease is not None:
            await self._lease.release()
        await self._pod_session.close()
        await self.api.close()

    def on_service_event(
        self, manifest: pending_objects.Manifest, *, listed: bool, gone: bool = False
    ) -> None:
        """Takes in an event of a service and adds the service to the queue.

        Args:
            manifest: the service as the API server has it, or its last state.
            listed: whether the event comes from a list and not from a watch.
            gone: whether the service was deleted.
        """
        key = _key(manifest)
        if gone:
            self.pending.discard(key)
            self.queue.add(key)
        elif self.pending.add(key, manifest, listed=listed):
            self.queue.add(key)

    def liveness_problem(self) -> str:
        """Why this process should be restarted, as a message; "" when it is healthy."""
        if self.stop_requested.is_set():
            return ""  # the process is ending
        for name, task in self._tasks.items():
            if task.done():
                return f"the task {name!r} has ended"
        if self._lease is not None and not self._lease.held:
            return ""  # waiting for the Lease is healthy
        if not self.synced.is_set():
            return ""  # waiting for the API server: a restart would not help
        return self.queue.stall_reason(waiting=_STUCK_WAITING_S, working=_STUCK_WORKING_S)

    def readiness_problem(self) -> str:
        """What is missing until every service has been reconciled once after the start, as a message; "" when nothing is."""
        if not self._reflectors:
            return "no watch has been started yet"
        for reflector in self._reflectors.values():
            if not reflector.listed.is_set():
                last_error = f": {reflector.last_error}" if reflector.last_error is not None else ""
                return f"{reflector.ref} are not listed yet{last_error}"
        if self._lease is not None and not self._lease.held:
            return ""
        pending = sum(1 for key in self._initial_keys if self.queue.schedule.known(key))
        return f"{pending} services have not been reconciled since the start" if pending else ""

    def page(self) -> str:
        """The metrics in the Prometheus text format."""
        now = asyncio.get_running_loop().time()
        schedule = self.queue.schedule
        restarts: collections.Counter[str] = collections.Counter()
        for reflector in self._reflectors.values():
            restarts[reflector.ref.plural] += reflector.restarts
        leads = self._lease is None or self._lease.held
        gauges = Gauges(
            # A process without the Lease does not reconcile: its queue only keeps the keys until it becomes the leader.
            queue_depth=schedule.depth(now) if leads else 0,
            queue_oldest=schedule.oldest_wait(now) if leads else 0.0,
            queue_failing=schedule.failing(),
            states=collections.Counter(self.reconciler.states.values()),
            children=len(self.children),
            watch_restarts=restarts,
            model_polls=self.models.results,
            leader=leads,
        )
        return page(self.metrics, gauges)

    def _add_listed(self, manifest: pending_objects.Manifest) -> Key:
        self.on_service_event(manifest, listed=True)
        return _key(manifest)

    async def _start_queue(self) -> None:
        for reflector in list(self._reflectors.values()):
            await reflector.listed.wait()
        self.synced.set()
        _log.info("%d objects are known", len(self.children))
        if self._lease is None:
            await self.queue.run()
            return
        await self._lease.acquire()
        self._spawn("renew lease", self._keep_lease(self._lease))
        await self.queue.run()

    async def _keep_lease(self, held: lease.Lease) -> None:
        await held.renew()
        # From now on another process may write, so this one must end as soon as possible.
        self.fail("the lease is lost")
        await asyncio.get_running_loop().create_future()

    def fail(self, reason: str) -> None:
        """Requests that the process ends, as failed."""
        _log.error("stopping: %s", reason)
        self.failure = self.failure or reason
        self.stop_requested.set()

    async def _work(self, key: Key) -> Outcome:
        logs.OBJECT.set(str(key))
        started = time.monotonic()
        result = "bug"
        outcome: Outcome
        try:
            outcome = await self.reconciler.reconcile(key)
            match outcome:
                case Deleted():
                    result = "gone"
                case Retry():
                    result = "refused"
                case _:
                    result = "ok"
        except errors.ApiError as error:
            result = "retry"
            self.metrics.errors[type(error).__name__] += 1
            _log.log(_log_level(error), "%s; trying again", error)
            retry_after = error.retry_after if isinstance(error, errors.TooManyRequests) else None
            outcome = Retry(retry_after)
        finally:
            self.metrics.observe(time.monotonic() - started, result)
            self._initial_keys.discard(key)
        return outcome

    def _on_child_change(self, namespace: str, name: str) -> None:
        """Adds a service whose child has changed to the queue. Until all kinds are listed, changes are ignored: they are the first list."""
        if self.synced.is_set() and name:
            self.queue.add(Key(namespace, name), delay=_CHILD_EVENT_DELAY_S, low_priority=True)

    def _on_cluster_change(self) -> None:
        """Starts and stops watches, and reconciles every service, after the served kinds or the nodes have changed."""
        if f"{names.API_VERSION}/{names.KIND}" not in self.cluster_info.current.kinds:
            self.fail(f"the API server no longer serves {names.CRD_NAME}")
            return
        self._watch_kinds()
        for key in self.queue.schedule.all_keys():
            self.queue.add(key, delay=_CHILD_EVENT_DELAY_S, low_priority=True)

    def _watch_kinds(self) -> None:
        """Starts a reflector for each served kind that has none, and stops the reflectors of kinds that are no longer served."""
        served_kinds = self.cluster_info.current.kinds
        wanted = [
            (kind.kind, ResourceRef(kind.api_version, kind.plural))
            for kind in kinds.KINDS
            if not kind.optional or kind.key in served_kinds
        ]
        wanted.append(("Pod", _POD))
        wanted_kinds = {kind for kind, _ in wanted}
        for kind, namespace in [key for key in self._reflectors if key[0] not in wanted_kinds]:
            reflector = self._reflectors.pop((kind, namespace))
            self._tasks.pop(_watch_task_name(reflector.ref)).cancel()
            self.children.prune(kind, namespace, present=frozenset(), version=_NEWEST)
        for kind, ref in wanted:
            for namespace in self.options.namespaces or ("",):
                if (kind, namespace) not in self._reflectors:
                    self._start_reflector(kind, ResourceRef(ref.api_version, ref.plural, namespace))

    def _start_reflector(self, kind: str, ref: ResourceRef) -> None:
        reflector = Reflector(
            self.api,
            ref,
            labels=labels.CHILD_SELECTOR,
            handler=_StoreHandler(self.children, kind),
            timeouts=self._watch_timeouts,
        )
        self._reflectors[kind, ref.namespace] = reflector
        self._spawn(_watch_task_name(ref), reflector.run())

    def _spawn(
        self, name: str, work: collections.abc.Coroutine[typing.Any, typing.Any, None]
    ) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_task_done)
        self._tasks[name] = task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Ends the process when one of its tasks has died: that is a bug, and a restart is the safest reaction."""
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
    """Passes the events of a reflector to the store, with the kind, which items of a list do not contain."""

    def __init__(self, store: child_store.ChildStore, kind: str) -> None:
        self._store = store
        self._kind = kind

    def on_update(self, ref: ResourceRef, item: client.Object) -> None:
        """Stores an object that is new or has changed."""
        self._store.update(self._kind, item)

    def on_delete(self, ref: ResourceRef, item: client.Object) -> None:
        """Removes an object that was deleted."""
        metadata = item["metadata"]
        self._store.remove(metadata["uid"], metadata["resourceVersion"])

    def on_replace(self, ref: ResourceRef, present: collections.abc.Set[str], version: str) -> None:
        """Removes the objects that are not in a complete list."""
        self._store.prune(self._kind, ref.namespace, present=present, version=version)


@contextlib.asynccontextmanager
async def running(runtime: Runtime) -> collections.abc.AsyncIterator[Runtime]:
    """A runtime that runs as long as the block."""
    try:
        await runtime.start()
        yield runtime
    finally:
        await runtime.stop()


def _key(manifest: pending_objects.Manifest) -> Key:
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def _watch_task_name(ref: ResourceRef) -> str:
    """The name of the task that watches a collection."""
    return f"watch {ref}"


def _log_level(error: errors.ApiError) -> int:
    """The log level of an API error. A conflict is two concurrent writes, which is ordinary."""
    return logging.INFO if isinstance(error, errors.Conflict) else logging.WARNING


def _utc() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
