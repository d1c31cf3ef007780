"""Computes the steps that bring a service's children to their wanted state. Pure: manifests and live objects in, steps out.

Without a step, nothing is written. The rules:

* A child that is unchanged (`ownership`) is left alone.
* A child that exists and is controlled by the service is applied with force, under its uid, so that the write cannot affect
  another object of the same name.
* A child that is not known to exist is *created*; the applier never takes over an object of another owner.
* A child that is controlled by the service and no longer wanted is deleted, under its uid. Autoscalers are deleted before the
  Deployment is applied, because they would scale it; everything else is deleted afterwards, so that new routes exist before old
  ones are removed.
* Pods and Services that are no longer wanted stay until each Gateway has taken up the routes without them: a Gateway that sees a
  Service go before the route's new version answers every request of the route with an error.
* A child that is being deleted is waited for, and so is a child of an earlier service of the same name, which the garbage
  collector deletes.
* When an autoscaler takes over the Deployment's replicas, the operator first applies them as a second field manager: a field whose
  only owner stops applying it is removed, and the Deployment would fall back to one pod.
* When the operator takes over the replicas, it applies the Deployment only at the version from which the number was read, because
  an autoscaler may have scaled it since.
"""

import collections.abc
import dataclasses
import hashlib
import typing

import msgspec

from naiad_operator.cluster.child_store import APPLIED_ANNOTATION, Child
from naiad_operator.reconcile.decisions import ownership

Manifest = dict[str, typing.Any]
Accepted = collections.abc.Callable[[Child, str], bool]

_AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_ROUTES = ("HTTPRoute", "GRPCRoute")
_REACHED = ("Deployment", "Service")
"""What requests of a route reach."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Create an object that does not exist."""

    manifest: Manifest


@dataclasses.dataclass(frozen=True, slots=True)
class Apply:
    """Apply the wanted state of an existing child.

    Attributes:
        drift: the fields that another client changed; empty when the wanted state has changed.
        version: the resourceVersion that the object must have; "" for any.
    """

    manifest: Manifest
    uid: str
    drift: tuple[str, ...] = ()
    version: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class HandOver:
    """Apply a Deployment's replicas as the second field manager, so that the field keeps an owner."""

    name: str
    uid: str
    replicas: int


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """Delete a child that is no longer wanted."""

    child: Child


@dataclasses.dataclass(frozen=True, slots=True)
class Keep:
    """Delete a child that is no longer wanted later: a Gateway may still send requests to it."""

    child: Child


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """Wait for an object that is being deleted; its watch event causes the next reconcile."""

    kind: str
    name: str


Step = Create | Apply | HandOver | Delete | Keep | Wait


def decide(
    wanted: collections.abc.Sequence[Manifest],
    live: collections.abc.Iterable[Child],
    *,
    uid: str,
    owner: str,
    accepted: Accepted,
    keeps: bool = True,
) -> list[Step]:
    """The steps, in order.

    Args:
        wanted: every child that should exist.
        live: every object that has the service's labels, without pods.
        uid: the service's uid; only objects that it controls are changed.
        owner: the service as `child_store.qualified_name` writes it.
        accepted: whether applying this digest to this child has already resulted in missing fields, so that another apply would
            change nothing.
        keeps: whether to wait for Gateways before pods and Services are deleted.
    """
    by_name = {(child.kind, child.name): child for child in live}
    names = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in wanted}
    unwanted = [
        Delete(child)
        for key, child in sorted(by_name.items())
        if key not in names and child.controller_uid == uid and not child.deleting
    ]
    steps: list[Step] = [step for step in unwanted if step.child.kind in _AUTOSCALERS]
    for manifest in wanted:
        child = by_name.get((manifest["kind"], manifest["metadata"]["name"]))
        if child is not None and (
            child.deleting
            or is_left_over(child.controller_name, child.controller_uid, owner=owner, uid=uid)
        ):
            steps.append(Wait(child.kind, child.name))
            continue
        steps += _steps_for(stamped(manifest), child, uid=uid, accepted=accepted)
    gone = [step.child for step in unwanted if step.child.kind not in _AUTOSCALERS]
    waits = any(child.kind in _REACHED for child in gone) and _leads_elsewhere(steps, by_name)
    steps += [
        Keep(child) if keeps and waits and child.kind in _REACHED else Delete(child)
        for child in gone
    ]
    return steps


def _leads_elsewhere(
    steps: collections.abc.Iterable[Step],
    live: collections.abc.Mapping[tuple[str, str], Child],
) -> bool:
    """Whether a Gateway still has an older version of a wanted route. A route that no Gateway has taken up does not count."""
    changed = {
        (step.manifest["kind"], step.manifest["metadata"]["name"])
        for step in steps
        if isinstance(step, Apply)
    }
    for key, child in live.items():
        if child.kind not in _ROUTES or child.deleting:
            continue
        route = child.manifest()
        generation = route["metadata"].get("generation") or 0
        conditions = [
            condition
            for parent in (route.get("status") or {}).get("parents") or ()
            for condition in parent.get("conditions") or ()
            if condition["type"] == "Accepted"
        ]
        if conditions and key in changed:
            return True
        # A Gateway that leaves the field out says nothing about the version that it has.
        if any((c.get("observedGeneration") or generation) < generation for c in conditions):
            return True
    return False


def is_left_over(controller_name: str, controller_uid: str, *, owner: str, uid: str) -> bool:
    """Whether an object belongs to a deleted service of the same name."""
    return controller_name == owner and controller_uid != uid


def stamped(manifest: Manifest) -> Manifest:
    """The manifest with its own digest as an annotation."""
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED_ANNOTATION: digest(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def digest(manifest: Manifest) -> str:
    """The digest of a manifest, by which an unchanged manifest is recognised."""
    text = msgspec.json.encode(manifest, order="sorted")
    return hashlib.blake2b(text, digest_size=10).hexdigest()


def _steps_for(
    manifest: Manifest, child: Child | None, *, uid: str, accepted: Accepted
) -> collections.abc.Iterator[Step]:
    if child is None:
        yield Create(manifest)
        return
    if child.controller_uid != uid:
        yield Create(
            manifest
        )  # another owner's, with the operator's labels: the applier reports the owner
        return
    fields = child.owned()
    stamp = manifest["metadata"]["annotations"][APPLIED_ANNOTATION]
    unowned = ownership.unowned_fields(manifest, fields)
    same = child.applied == stamp
    if same and (not unowned or accepted(child, stamp)):
        return
    version = ""
    if child.kind == "Deployment":
        wanted = "replicas" in manifest["spec"]
        ours = ownership.owns(fields, "spec", "replicas")
        if ours and not wanted:
            yield HandOver(child.name, child.uid, child.manifest()["spec"].get("replicas", 1))
        if wanted and not ours and not same:
            version = child.version
    yield Apply(manifest, child.uid, drift=tuple(unowned) if same else (), version=version)
