"""Brings one service in order: the function that every event, every failure and every restart leads to.

It knows nothing of why it is called. It takes the resource as it was just heard, or else reads it from the API server, and the children as the
watches have them (`news` and `cluster.children` say why that is as good), works out what should exist and what has to be written, writes it, and says in
the status how things stand. Run again when all is well, it writes nothing.
"""

import collections
import collections.abc
import contextlib
import dataclasses
import datetime as dt
import logging
import secrets
import typing

from naiad_operator.api import names, service as services
from naiad_operator.builders import build, image, kinds
from naiad_operator.cluster import errors
from naiad_operator.cluster.child_store import Child, ChildStore
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.errors import InvalidSpec, Problem
from naiad_operator.queue import Deleted, Key, Outcome, Result, Retry
from naiad_operator.reconcile import carry_out, events, merge, models, news, ownership, plan
from naiad_operator.reconcile.surroundings import Surroundings
from naiad_operator.status import Observed
from naiad_operator.status.compute import compute, compute_invalid

_log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 30.0
"""After a conflict: what is in the way may go without any event that we would hear."""
_CREATED_S = 1.0
"""After children were made; their own first events mostly bring us back sooner."""
_LEAVING_S = 5.0
"""While an object of ours goes: its last event brings us back sooner, unless its labels hide it from us."""

_TOLD_AFTER = 2
"""Failures of the API server in a row, after which a person is told: one or two go by themselves."""

Clock = collections.abc.Callable[[], dt.datetime]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a reconcile works with.

    Attributes:
        news: versions of services that were heard.
        clock: the time of day, for the times in a status.
    """

    api: Client
    news: news.News
    children: ChildStore
    surroundings: Surroundings
    models: models.Models
    clock: Clock


class Reconciler:
    """Reconciles services, one call a time each.

    Attributes:
        states: by service, its Ready condition's reason, for the metrics.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._carrier = carry_out.Carrier(tools.api, tools.children)
        self.states: dict[Key, str] = {}
        self._troubles: collections.Counter[Key] = collections.Counter()

    async def reconcile(self, key: Key) -> Outcome:
        """Brings a service in order.

        Raises:
            ApiError: the API server could not do its part; nothing is lost by trying again.
        """
        try:
            manifest = self._tools.news.take(key) or await self._tools.api.get(_ref(key))
        except errors.NotFound:
            return self._forget(key)
        if "deletionTimestamp" in manifest["metadata"]:
            return self._forget(key)  # its children go with it, by their owner references
        try:
            service = services.parse(manifest)
            return await self._bring_in_order(key, service)
        except InvalidSpec as invalid:
            status = compute_invalid(manifest, invalid.problems, self._now())
            await self._say(key, manifest, status)
            return Result()
        except errors.ApiError:
            raise
        except Exception as bug:
            # Nobody reads an operator's log while they wait for their service.
            said = f"the operator has a bug that this spec brings out ({bug!r}); its log has more, please report it"
            status = compute_invalid(manifest, [Problem("", said)], self._now())
            await self._say(key, manifest, status)
            raise

    async def _bring_in_order(self, key: Key, service: services.InferenceService) -> Outcome:
        tools = self._tools
        mine, pods = self._split(key)
        replicas, ours = _replicas(mine, service.uid)
        facts = tools.surroundings.facts(
            image.resolve(service, tools.surroundings.defaults), replicas, replicas_are_ours=ours
        )
        wanted = build(service, facts)
        steps = plan.decide(
            wanted,
            mine,
            uid=service.uid,
            owner=f"{names.KIND}.{names.GROUP} {service.name}",
            accepted=self._carrier.accepted,
        )
        try:
            result = await self._carrier.carry_out(
                steps,
                namespace=key.namespace,
                uid=service.uid,
                settled=_is_settled(service),
                fresh=not service.status,
                troubled=self._troubles[key] >= _TOLD_AFTER,
            )
        except errors.ServerTrouble:
            self._troubles[key] += 1
            raise
        if not result.refused:
            self._troubles.pop(key, None)
        # Before the status, whose write may fail: the next look finds nothing to put back and would say nothing of it.
        for event in result.told:
            await self._tell(key, service.raw, event)
        if result.created and not (result.refused or result.conflicts or result.leaving):
            # Their controllers are at work in this moment: a status would be out of date before it is written.
            self._tools.news.saw(key, service.raw["metadata"]["resourceVersion"])
            return Result(requeue_after=_CREATED_S)
        if steps:
            mine, pods = self._split(key)
        port = service.spec.predictor.ports.metrics
        tools.models.follow(key, models.address(pods, port))
        observed = Observed(
            children={
                (child.kind, child.name): child.manifest()
                for child in mine
                if child.controller_uid == service.uid and not child.deleting
            },
            facts=facts,
            pods=pods,
            models=tools.models.of(key),
            conflicts=result.conflicts,
            errors=result.refused,
            leaving=result.leaving,
        )
        status = compute(service, observed, self._now())
        await self._say(key, service.raw, status)
        if result.refused:
            return Retry()
        if result.leaving:
            return Result(requeue_after=_LEAVING_S)
        return Result(requeue_after=_LOOK_AGAIN_S if result.conflicts else None)

    def _split(self, key: Key) -> tuple[list[Child], list[dict[str, typing.Any]]]:
        """The children of a service, and its pods parsed."""
        everything = self._tools.children.of_service(key.namespace, key.name)
        pods = [child.manifest() for child in everything if child.kind == "Pod"]
        return [child for child in everything if child.kind != "Pod"], pods

    async def _say(
        self, key: Key, manifest: services.Manifest, status: dict[str, typing.Any]
    ) -> None:
        """Writes the status if it is another one, and tells what is new."""
        before = manifest.get("status") or {}
        tell: list[events.Event] = []
        seen = manifest["metadata"]["resourceVersion"]
        patch = merge.patch(before, status)
        if patch:
            body = {"metadata": {"resourceVersion": seen}, "status": patch}
            answer = await self._tools.api.merge(_ref(key), body, subresource="status")
            seen = answer["metadata"]["resourceVersion"]
            tell = events.of_transition(before, status)
        self._tools.news.saw(key, seen)
        self.states[key] = _ready_reason(status)
        for event in tell:
            await self._tell(key, manifest, event)

    async def _tell(self, key: Key, manifest: services.Manifest, event: events.Event) -> None:
        """Writes an Event; what a person is told must never stand in the way of the work."""
        now = self._now()
        metadata = manifest["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{key.name}.{secrets.token_hex(8)}",
                "namespace": key.namespace,
            },
            "involvedObject": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": key.name,
                "namespace": key.namespace,
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": names.FIELD_MANAGER},
            "reportingComponent": names.FIELD_MANAGER,
            "reportingInstance": names.FIELD_MANAGER,
        }
        try:
            await self._tools.api.create(ResourceRef("v1", "events", key.namespace), body)
        except errors.ApiError as error:
            _log.warning("%s; it said: %s", error, event.message)

    def _forget(self, key: Key) -> Outcome:
        self._tools.models.follow(key, "")
        self._tools.news.forget(key)
        for known in (self.states, self._troubles):
            with contextlib.suppress(KeyError):
                del known[key]
        return Deleted()

    def _now(self) -> str:
        return self._tools.clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _ref(key: Key) -> ResourceRef:
    return ResourceRef(names.API_VERSION, names.PLURAL, key.namespace, key.name)


def _replicas(mine: collections.abc.Iterable[Child], uid: str) -> tuple[int | None, bool]:
    """How many pods the Deployment says, and whether that is our word."""
    for child in mine:
        if child.kind == kinds.DEPLOYMENT.kind and child.controller_uid == uid:
            spec = child.manifest().get("spec") or {}
            return int(spec.get("replicas", 1)), ownership.owns(child.owned(), "spec", "replicas")
    return None, True


def _is_settled(service: services.InferenceService) -> bool:
    """Whether the present spec was carried out before, and nothing stood in its way."""
    if service.status.get("observedGeneration") != service.generation:
        return False
    reasons = {condition.get("reason") for condition in service.status.get("conditions") or ()}
    return not reasons & {"ResourceConflict", "ApplyFailed", "BeingDeleted", "InvalidSpec"}


def _ready_reason(status: collections.abc.Mapping[str, typing.Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready":
            return str(condition.get("reason") or "Unknown")
    return "Unknown"
