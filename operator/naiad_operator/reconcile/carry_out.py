"""Carries a plan out: the writes to children, with what each must hold to.

Never somebody else's object. For a service that is new the creating apply names a version that no object has, so that the API
server makes the object or refuses to touch the one that is there: one request a child, which is what counts when a thousand services come
at once. Afterwards a missing child is looked for first, because what stands in its way is known to stay for a while, and a refused
write is a write; the creating apply then takes no field by force. A refusal of one child (a quota, an admission policy,
a missing verb) is noted and the others go on; a failure of the API server itself ends the attempt, for the queue to try again.
"""

import collections.abc
import dataclasses
import logging
import typing

from naiad_operator.builders import kinds
from naiad_operator.cluster import child_store, errors
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.reconcile import events, ownership, plan
from naiad_operator.status import ApiError, Conflict

_log = logging.getLogger(__name__)

_NO_VERSION = "1"
"""A resourceVersion that no object has: etcd's first revision is that of the empty store."""

_PLURALS = {kind.kind: kind.plural for kind in kinds.KINDS}


@dataclasses.dataclass(slots=True)
class Result:
    """What became of a plan.

    Attributes:
        refused: children that the API server does not take.
        told: what a person should hear of it.
        created: whether children were made.
        relabelled: those of them, by kind and name, that were there without the labels by which we find them.
        leaving: what is in the way and goes by itself, by kind and name.
        writes: how many requests changed something, or tried to.
    """

    conflicts: list[Conflict] = dataclasses.field(default_factory=list)
    refused: list[ApiError] = dataclasses.field(default_factory=list)
    told: list[events.Event] = dataclasses.field(default_factory=list)
    created: bool = False
    relabelled: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    leaving: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    writes: int = 0


class Carrier:
    """Carries plans out.

    Args:
        api: where to write.
        store: hears each answer.
    """

    def __init__(self, api: Client, store: child_store.ChildStore) -> None:
        self._api = api
        self._store = store
        # What the API server made of an apply that it did not take whole, by the child's uid: applying it again would change
        # nothing. Only a manifest with a field that this API server drops gets here.
        self._partial: dict[str, tuple[str, bytes]] = {}

    @property
    def partial(self) -> int:
        """Of how many children it is kept that a part was changed by others."""
        return len(self._partial)

    def accepted(self, child: child_store.Child, stamp: str) -> bool:
        """Whether the child is what the API server makes of this manifest, though it lacks fields."""
        return self._partial.get(child.uid) == (stamp, child.fields)

    async def carry_out(
        self,
        steps: collections.abc.Iterable[plan.Step],
        *,
        namespace: str,
        uid: str,
        settled: bool,
        fresh: bool,
        troubled: bool,
    ) -> Result:
        """Takes the steps in order.

        Args:
            steps: from `plan.decide`.
            namespace: the service's.
            uid: the service's.
            settled: whether all this was there before, so that a child which has to be made is worth an Event.
            fresh: whether the service is new, so that most likely nothing stands where its children shall.
            troubled: whether the API server failed at this more than once already. Then it is a thing to tell, and no reason to leave the other
                children: a broken admission webhook answers so for weeks, for one kind.

        Raises:
            ApiError: one that has to do with the API server and not with one child.
        """
        result = Result()
        for step in steps:
            try:
                before = result.writes
                await self._step(step, result, namespace=namespace, uid=uid, fresh=fresh)
                if isinstance(step, plan.Create) and result.writes > before:
                    result.created = True
                    if settled:
                        result.told.append(_told_of(step, result))
            except (
                errors.Invalid,
                errors.Forbidden,
                errors.NotFound,
                errors.ServerTrouble,
            ) as error:
                if isinstance(error, errors.ServerTrouble) and not troubled:
                    raise
                kind, name = _of(step)
                _log.warning("%s", error)
                result.refused.append(ApiError(kind, name, error.message or str(error)))
        return result

    async def _step(
        self, step: plan.Step, result: Result, *, namespace: str, uid: str, fresh: bool
    ) -> None:
        match step:
            case plan.Create(manifest):
                if not (fresh and await self._created_at_once(manifest, result)):
                    await self._create(manifest, result, uid=uid)
            case plan.Apply(manifest, child_uid, drift, version):
                result.writes += 1
                await self._apply_as_read(_with_uid(manifest, child_uid), version)
                if drift:
                    kind, name = _of(step)
                    _log.info("put %s %s back: %s", kind, name, ", ".join(drift))
                    result.told.append(events.of_drift(kind, name, drift))
            case plan.HandOver(name, child_uid, replicas):
                result.writes += 1
                await self._hand_over(namespace, name, child_uid, replicas)
            case plan.Delete(child):
                result.writes += 1
                _log.info("deleting %s %s, which is no longer wanted", child.kind, child.name)
                await self._api.delete(_ref_of_child(child), uid=child.uid)
                self._store.mark_deleting(child.uid)
                self._partial.pop(child.uid, None)
            case plan.Wait(kind, name):
                _log.debug("%s %s is still being deleted", kind, name)
                result.leaving.append((kind, name))

    async def _created_at_once(self, manifest: plan.Manifest, result: Result) -> bool:
        """Creates an object unless one is there; False when one is, or when the API server minds the version."""
        try:
            await self._apply(manifest, force=False, version=_NO_VERSION)
        except (errors.Conflict, errors.NotFound):
            return False
        result.writes += 1
        return True

    async def _create(self, manifest: plan.Manifest, result: Result, *, uid: str) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            present = await self._api.get(_ref(manifest))
        except errors.NotFound:
            present = None
        if present is not None:
            await self._found(manifest, present, result, uid=uid)
            return
        result.writes += 1
        try:
            await self._apply(manifest, force=False)
        except errors.Conflict:
            present = await self._api.get(_ref(manifest))
            if child_store.controller_of(present["metadata"]).get("uid") == uid:
                raise  # another operator of ours was quicker: look again
            self._conflict(kind, name, present, result)

    async def _found(
        self, manifest: plan.Manifest, present: dict[str, typing.Any], result: Result, *, uid: str
    ) -> None:
        """An object of that name is there, though no watch has told of it under our labels."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        metadata = present["metadata"]
        owner = child_store.controller_of(metadata)
        before = child_store.qualified_name(child_store.controller_of(manifest["metadata"]))
        if "deletionTimestamp" in metadata or plan.is_left_over(
            child_store.qualified_name(owner), owner.get("uid") or "", owner=before, uid=uid
        ):
            result.leaving.append((kind, name))
        elif owner.get("uid") != uid:
            self._conflict(kind, name, present, result)
        else:
            # Ours: somebody took the labels off by which we find it, or the watch is a moment late.
            result.writes += 1
            result.relabelled.add((kind, name))
            await self._apply(_with_uid(manifest, metadata["uid"]))

    @staticmethod
    def _conflict(kind: str, name: str, present: dict[str, typing.Any], result: Result) -> None:
        owner = _named(child_store.controller_of(present["metadata"]))
        result.conflicts.append(Conflict(kind, name, owner or "nobody"))

    async def _apply_as_read(self, manifest: plan.Manifest, version: str) -> None:
        try:
            await self._apply(manifest, version=version)
        except errors.Conflict:
            if version:
                # The watch is behind; the next look shall decide by what there is.
                self._store.put(manifest["kind"], await self._api.get(_ref(manifest)))
            raise

    async def _apply(
        self, manifest: plan.Manifest, *, force: bool = True, version: str = ""
    ) -> None:
        metadata = manifest["metadata"]
        stamp = metadata["annotations"][child_store.APPLIED_ANNOTATION]
        sent = manifest
        if version:
            sent = {**manifest, "metadata": {**metadata, "resourceVersion": version}}
        answer = await self._api.apply(_ref(manifest), sent, force=force)
        child = self._store.put(manifest["kind"], answer)
        lost = ownership.lost(manifest, child.owned()) if child.applied == stamp else []
        if lost:
            _log.warning(
                "the API server does not keep %s of %s %s; an older version of it, or a field of podTemplate that does not exist",
                ", ".join(lost),
                child.kind,
                child.name,
            )
            # Children mostly go with their service, and no step of ours tells of it.
            self._partial = {uid: seen for uid, seen in self._partial.items() if uid in self._store}
            self._partial[child.uid] = (stamp, child.fields)
        else:
            self._partial.pop(child.uid, None)

    async def _hand_over(self, namespace: str, name: str, uid: str, replicas: int) -> None:
        kind = kinds.DEPLOYMENT
        manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "spec": {"replicas": replicas},
        }
        ref = ResourceRef(kind.api_version, kind.plural, namespace, name)
        manager = f"{self._api.manager}-handover"
        answer = await self._api.apply(ref, manifest, manager=manager)
        self._store.put(kind.kind, answer)
        _log.info("the autoscaler takes over %s at %d replicas", name, replicas)


def _told_of(step: plan.Create, result: Result) -> events.Event:
    """That a child was missing; or only its labels were."""
    kind, name = _of(step)
    if (kind, name) in result.relabelled:
        return events.of_drift(kind, name, ("metadata.labels",))
    return events.of_recreation(kind, name)


def _with_uid(manifest: plan.Manifest, uid: str) -> plan.Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "uid": uid}}


def _ref(manifest: plan.Manifest) -> ResourceRef:
    metadata = manifest["metadata"]
    plural = _PLURALS[manifest["kind"]]
    return ResourceRef(manifest["apiVersion"], plural, metadata["namespace"], metadata["name"])


def _ref_of_child(child: child_store.Child) -> ResourceRef:
    kind = next(kind for kind in kinds.KINDS if kind.kind == child.kind)
    return ResourceRef(kind.api_version, kind.plural, child.namespace, child.name)


def _of(step: plan.Step) -> tuple[str, str]:
    match step:
        case plan.Create(manifest) | plan.Apply(manifest):
            return manifest["kind"], manifest["metadata"]["name"]
        case plan.HandOver(name):
            return kinds.DEPLOYMENT.kind, name
        case plan.Delete(child):
            return child.kind, child.name
        case plan.Wait(kind, name):
            return kind, name


def _named(owner: dict[str, typing.Any]) -> str:
    """An owner reference in words; "" where there is none."""
    return f"{owner['kind']} {owner['name']}" if owner else ""
