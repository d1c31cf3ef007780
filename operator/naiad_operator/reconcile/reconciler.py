"""Reconciles one service: the same function runs after every event, every failure and every restart.

It is level-based: it does not know why it runs. It takes the service from the service store, or reads it from the API
server, and the children from the informer store (`service_store` and `cluster.child_store` say why that is safe). It computes
what should exist and what has to be written, writes it, and has the status written. When nothing has changed, it writes nothing.
"""

import collections
import collections.abc
import dataclasses
import datetime as dt
import functools
import logging
import typing

from naiad_operator.api.manifests.unreadable import problem_of
from naiad_operator.api.parsing import service as services
from naiad_operator.api.parsing.service import Manifest, Profile
from naiad_operator.builders import canary, kinds
from naiad_operator.builders.facts import ClusterFacts, Defaults
from naiad_operator.cluster import errors
from naiad_operator.cluster.child_store import Child, ChildStore
from naiad_operator.cluster.client import Client
from naiad_operator.errors import InvalidSpec, Problem
from naiad_operator.options import Upgrades
from naiad_operator.queue import Deleted, Key, Outcome, Result, Retry
from naiad_operator.reconcile import hosts as host_claims, requeue
from naiad_operator.reconcile.decisions import plan
from naiad_operator.reconcile.decisions.desired import claim_names, render, steps_to
from naiad_operator.reconcile.lookups import model_poller, nodes_and_claims, scale_ups
from naiad_operator.reconcile.lookups.cluster_info import ClusterInfo
from naiad_operator.reconcile.stores import service_store
from naiad_operator.reconcile.writers import applier, event_recorder
from naiad_operator.reconcile.writers.status_writer import StatusWriter
from naiad_operator.status import (
    ModelReport,
    Observed,
    pods as service_pods,
    scheduling,
    workload,
)
from naiad_operator.status.canary import divided, without_node
from naiad_operator.status.compute import compute, compute_bug, compute_invalid
from naiad_operator.status.conditions import UPGRADED, reason_of
from naiad_operator.status.upgrade import FAILED
from naiad_operator.upgrade import turn as turns
from naiad_operator.upgrade.newer import NewerOperators
from naiad_operator.upgrade.scheduler import UpgradeScheduler
from naiad_operator.upgrade.turn import Hold

_log = logging.getLogger(__name__)

_KEPT_S = 60.0
"""How long a child is kept at most: a Gateway whose controller is gone never has the new route."""

_REPORT_AFTER = 2
"""The number of server errors in a row after which they are reported in the status: one or two are usually temporary."""

Clock = collections.abc.Callable[[], dt.datetime]
WatchProblems = collections.abc.Callable[[str], collections.abc.Mapping[str, str]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The components that the reconciler uses.

    Attributes:
        services: the newest version of each service.
        defaults: the operator's defaults for services.
        watch_problems: for a namespace, the kinds that cannot be watched there, each with the reason and what to do.
        profile_of: the NaiadProfile of a service; it raises InvalidSpec.
        upgrades: admits services that replace their pods because of a new operator.
        hosts: what services claim.
        upgrade_options: which services are held, and in which order they are admitted.
        clock: the time of day, for the timestamps in a status.
        allow_downgrade: whether to replace the pod templates of newer operators.
    """

    api: Client
    services: service_store.ServiceStore
    children: ChildStore
    cluster_info: ClusterInfo
    defaults: Defaults
    nodes: nodes_and_claims.Nodes
    claims: nodes_and_claims.Claims
    watch_problems: WatchProblems
    scale_ups: scale_ups.ScaleUps
    models: model_poller.ModelPoller
    profile_of: collections.abc.Callable[[Manifest], Profile | None]
    upgrades: UpgradeScheduler
    clock: Clock
    hosts: host_claims.Hosts = dataclasses.field(
        default_factory=lambda: host_claims.Hosts(lambda _: None)
    )
    upgrade_options: Upgrades = dataclasses.field(default_factory=Upgrades)
    allow_downgrade: bool = False


class Reconciler:
    """Reconciles services; at most one call per service at a time.

    Attributes:
        conditions: see `StatusWriter`.
    """

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._applier = applier.Applier(dependencies.api, dependencies.children)
        self._recorder = event_recorder.EventRecorder(dependencies.api, self._now)
        self._status = StatusWriter(dependencies.api, dependencies.services, self._recorder)
        self.conditions = self._status.conditions
        self._newer = NewerOperators()
        self._server_errors: collections.Counter[Key] = collections.Counter()
        self._kept_since: dict[Key, float] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """Reconciles one service.

        Raises:
            ApiError: the API server refused or failed; the reconcile may be repeated.
        """
        manifest = self._dependencies.services.get(key)
        try:
            if manifest is not None:
                outcome = await self._reconcile_manifest(key, manifest, is_fresh=False)
                if outcome is not None:
                    return outcome
            try:
                manifest = await self._dependencies.api.get(service_store.ref(key))
            except errors.NotFound:
                return self._remove(key)
            was_large = self._dependencies.services.is_large(key)
            self._dependencies.services.put(key, manifest)
            if self._dependencies.services.is_large(key) and not was_large:
                return Result(requeue_after=requeue.LARGE_S)
            return await self._reconcile_manifest(key, manifest, is_fresh=True) or Retry()
        except (errors.Conflict, errors.NotFound):
            # The known version may be outdated: the next attempt reads it.
            self._dependencies.services.discard(key)
            raise
        finally:
            self._dependencies.children.shrink(key.namespace, key.name)

    async def _reconcile_manifest(
        self, key: Key, manifest: services.Manifest, *, is_fresh: bool
    ) -> Outcome | None:
        """Reconciles one version of a service.

        Returns:
            None when the version has to be read again first, because it may be outdated.
        """
        if "deletionTimestamp" in manifest["metadata"]:
            return self._remove(key)  # its children go with it, by their owner references
        try:
            service = services.parse(manifest, self._dependencies.profile_of(manifest))
            return await self._reconcile_service(key, service, is_fresh=is_fresh)
        except InvalidSpec as invalid:
            status = compute_invalid(manifest, invalid.problems, self._now(), reason=invalid.reason)
            try:
                await self._status.write(key, manifest, status)
            except errors.ApiError as error:
                is_refused = not error.transient and not isinstance(error, errors.NotFound)
                if not (problem_of(manifest) and is_refused):
                    raise
                # What makes the object unreadable may also keep it from being written.
                self._dependencies.services.mark_seen(key, manifest["metadata"]["resourceVersion"])
                _log.warning("%s; the log alone says that it cannot be read", error)
            return Result()
        except errors.ApiError:
            raise
        except Exception as bug:
            # Also in the status, because a user of the service may not have access to the operator's log.
            message = f"a bug in the operator keeps it from reconciling this service ({bug!r}); the operator's log has the details, please report it"
            status = compute_bug(manifest, message, self._now())
            await self._status.write(key, manifest, status)
            raise

    async def _reconcile_service(
        self, key: Key, service: services.InferenceService, *, is_fresh: bool
    ) -> Outcome | None:
        dependencies = self._dependencies
        await self._complete(key, service.uid)
        children, pods = self._children_and_pods(key)
        own = (child for child in children if child.controller_uid == service.uid)
        if unreadable := [child for child in own if child.problem]:
            raise InvalidSpec([Problem(f"{child.kind} {child.name}", _unreadable(child)) for child in unreadable])  # fmt: skip
        upgrades = dependencies.upgrades
        turn = turns.of(service, dependencies.upgrade_options)
        desired = render(
            service,
            children,
            cluster=await self._facts(key, service, pods),
            running=dependencies.models.report(key).server_version,
            allow_downgrade=dependencies.allow_downgrade,
            turn=turn,
        )
        if desired.defers and (delay := self._newer.edit_delay(key, service, self._seconds())):
            return Result(requeue_after=delay)
        waiting = desired.waiting(is_starting=_are_starting(pods, service.status))
        is_held = turn.hold is not Hold.NONE
        admitted = desired.is_staged and not is_held and upgrades.admit(key, waiting)
        records = desired.choose(admitted=admitted, now=self._now())
        unwatched = dependencies.watch_problems(key.namespace)
        wanted = desired.manifests_with(records)
        steps = steps_to(
            wanted,
            children,
            service,
            unwatched=unwatched,
            only_missing=desired.defers and service.is_observed,
            accepted=self._applier.accepted,
            keeps=self._seconds() - self._kept_since.get(key, self._seconds()) < _KEPT_S,
        )
        if not is_fresh and service.status and any(isinstance(s, plan.Create) for s in steps):
            # Children that are missing may have gone with their service, whose deletion the watch has missed.
            return None
        result = await self._apply(key, service, steps)
        if result.kept:
            self._kept_since.setdefault(key, self._seconds())
        else:
            self._kept_since.pop(key, None)
        waits = result.created or desired.writes_records_only(steps, records)
        if waits and not (result.refused or result.conflicts or result.terminating):
            # The children's controllers are working now: a status would be outdated before it is written.
            self._dependencies.services.mark_seen(key, service.raw["metadata"]["resourceVersion"])
            return Result(requeue_after=requeue.CREATED_S)
        if steps:
            children, pods = self._children_and_pods(key)
        dependencies.hosts.claim(key, host_claims.claimed(wanted))
        shared = dependencies.hosts.shared(key)
        observed = Observed(
            children={
                (child.kind, child.name): child.manifest()
                for child in children
                if child.controller_uid == service.uid and not child.deleting
            },
            facts=desired.facts,
            pods=pods,
            conflicts=result.conflicts,
            errors=result.refused,
            terminating=result.terminating,
            shared_hosts=shared if shared or upgrades.is_open else None,
            upgrade=(
                upgrade := desired.upgrade(records, upgrades, key.namespace, dependencies.clock())
            ),
            unwatched={
                (manifest["kind"], manifest["metadata"]["name"]): unwatched[manifest["kind"]]
                for manifest in wanted
                if manifest["kind"] in unwatched
            },
        )
        beside = canary.service_of(service)
        main, of_canary = divided(service, observed)
        observed = dataclasses.replace(
            observed,
            models=self._poll_models(key, service, main),
            canary_models=self._poll_models(key, beside, of_canary, model_poller.CANARY),
        )
        status = compute(service, observed, self._now())
        is_blocked = reason_of(status, UPGRADED) == FAILED
        state = desired.scheduler_state(
            upgrade, is_blocked=is_blocked, is_starting=_are_starting(pods, status)
        )
        upgrades.observe(key, state)
        if desired.defers and (
            delay := self._newer.status_delay(key, service, status, self._seconds())
        ):
            return Result(requeue_after=delay)
        await self._status.write(key, service.raw, status)
        return requeue.outcome(
            service,
            observed,
            status,
            kept=result.kept,
            now=dependencies.clock(),
            next_look=functools.partial(dependencies.scale_ups.until_next, key.namespace),
        )

    async def _apply(
        self, key: Key, service: services.InferenceService, steps: list[plan.Step]
    ) -> applier.ApplyResult:
        """Applies the steps and writes their Events.

        Raises:
            ApiError: an error of the API server that does not concern a single child.
        """
        try:
            result = await self._applier.apply(
                steps,
                namespace=key.namespace,
                uid=service.uid,
                was_complete=requeue.was_complete(service),
                is_new=not service.status,
                report_server_errors=self._server_errors[key] >= _REPORT_AFTER,
            )
        except errors.ServerTrouble:
            self._server_errors[key] += 1
            raise
        if not result.refused:
            self._server_errors.pop(key, None)
        # Before the status, whose write may fail: the next reconcile would find no drift and write no Event.
        for event in result.events:
            await self._recorder.record(service.raw, event)
        return result

    def _poll_models(
        self,
        key: Key,
        service: services.InferenceService | None,
        observed: Observed,
        of: str = model_poller.MAIN,
    ) -> ModelReport:
        """Starts or continues to poll the pods of a service, or of its canary; returns the last report. None stops polling."""
        poller = self._dependencies.models
        if service is None:
            poller.poll(key, (), of)
            return poller.report(key, of)
        candidates = service_pods.reporting(
            observed.pods,
            observed.children.get((kinds.DEPLOYMENT.kind, service.name)) or {},
            looping=workload.crash_looping(service, observed, self._dependencies.clock()),
        )
        addresses = model_poller.addresses(candidates, service.spec.predictor.ports.metrics)
        poller.poll(key, addresses, of)
        return poller.report(key, of)

    async def _facts(
        self,
        key: Key,
        service: services.InferenceService,
        pods: list[dict[str, typing.Any]],
    ) -> ClusterFacts:
        """The facts about the cluster that this service needs; `desired.render` adds those about the service."""
        dependencies = self._dependencies
        parts = [part for part in (service, canary.service_of(service)) if part is not None]
        waits = any(scheduling.needs_nodes(part, pods) for part in parts)
        unscheduled = without_node(pods)
        return ClusterFacts(
            apis=dependencies.cluster_info.kinds,
            image=dependencies.defaults.image,
            defaults=dependencies.defaults,
            node_resources=await dependencies.nodes.devices() if waits else None,
            scale_ups={
                name: scale_up
                for name in unscheduled
                if (scale_up := await dependencies.scale_ups.of(key.namespace, name)) is not None
            },
            claim_modes=await dependencies.claims.access_modes(key.namespace, claim_names(service)),
        )

    async def _complete(self, key: Key, uid: str) -> None:
        """Reads the service's own children of which only a part is stored, since they are large."""
        store = self._dependencies.children
        for child in store.of_service(key.namespace, key.name):
            if child.is_partial and child.controller_uid == uid and not child.problem:
                try:
                    store.complete(
                        child.kind, await self._dependencies.api.get(applier.ref_of(child))
                    )
                except errors.NotFound:
                    continue  # it is gone, which the watch says later

    def _children_and_pods(self, key: Key) -> tuple[list[Child], list[dict[str, typing.Any]]]:
        """The children of a service without its pods, and its pods as parsed JSON."""
        objects = self._dependencies.children.of_service(key.namespace, key.name)
        pods = [child.manifest() for child in objects if child.kind == "Pod"]
        return [child for child in objects if child.kind != "Pod"], pods

    def _remove(self, key: Key) -> Outcome:
        self._newer.forget(key)
        self._dependencies.hosts.claim(key, frozenset())
        self._dependencies.upgrades.observe(key, None)
        self._dependencies.models.poll(key, ())
        self._dependencies.models.poll(key, (), model_poller.CANARY)
        self._dependencies.services.forget(key)
        self._status.forget(key)
        self._server_errors.pop(key, None)
        self._kept_since.pop(key, None)
        return Deleted()

    def _seconds(self) -> float:
        return self._dependencies.clock().timestamp()

    def _now(self) -> str:
        return self._dependencies.clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _are_starting(
    pods: collections.abc.Iterable[services.Manifest], status: services.Manifest
) -> bool:
    """Whether pods may become ready: a container runs for the first time, and its models have not failed."""
    transition = (status.get("modelStatus") or {}).get("transitionStatus")
    return transition != "BlockedByFailedLoad" and service_pods.are_starting(pods)


def _unreadable(child: Child) -> str:
    return f"the operator cannot read this object, so everything stays as it is: {child.problem}; delete it, and it is created again"
