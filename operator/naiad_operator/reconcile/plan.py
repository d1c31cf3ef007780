"""What has to be written so that a service's children are as they should be. Pure: manifests and live objects in, steps out.

No step means that nothing is written. The rules:

* a child that is as we left it (`ownership`) is left alone;
* one that exists and is ours is applied by force, under its uid, so that it cannot be another object by then;
* one that is not known to exist is *created*: whoever carries that out looks first, and never takes over what is somebody else's;
* one that is ours and no longer wanted is deleted, under its uid; autoscalers go before the Deployment is applied, because
  they would scale it meanwhile, everything else after, so that traffic finds the new way before it loses the old one;
* one that is being deleted is waited for, and so is one of a service that had this name before: the garbage collector is at it;
* when the Deployment's replicas stop being ours (an autoscaler takes over) and we are their owner, they are first given to a
  second field manager: a field that its only owner stops applying is removed, and the Deployment would fall back to 1;
* when they become ours, it is applied only if it is still as it was when their number was read: an autoscaler may have scaled it
  since, and what it added a moment ago would be lost.
"""

import collections.abc
import dataclasses
import hashlib
import typing

import msgspec

from naiad_operator.cluster.child_store import APPLIED_ANNOTATION, Child
from naiad_operator.reconcile import ownership

Manifest = dict[str, typing.Any]
Accepted = collections.abc.Callable[[Child, str], bool]

_AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Make an object that nobody has, if that is so."""

    manifest: Manifest


@dataclasses.dataclass(frozen=True, slots=True)
class Apply:
    """Make an object of ours as it should be.

    Attributes:
        drift: the fields that somebody else changed; empty when it is us who want something new.
        version: the only resourceVersion that it may have; "" for any.
    """

    manifest: Manifest
    uid: str
    drift: tuple[str, ...] = ()
    version: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class HandOver:
    """Let the second field manager own a Deployment's replicas as they are."""

    name: str
    uid: str
    replicas: int


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object of ours that is no longer wanted."""

    child: Child


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """An object is on its way out; its watch event comes back here."""

    kind: str
    name: str


Step = Create | Apply | HandOver | Delete | Wait


def decide(
    wanted: collections.abc.Sequence[Manifest],
    live: collections.abc.Iterable[Child],
    *,
    uid: str,
    owner: str,
    accepted: Accepted,
) -> list[Step]:
    """The steps, in order.

    Args:
        wanted: every child that should exist.
        live: every object that the service's labels name, pods left out.
        uid: the service's; only objects that it controls are ours.
        owner: the service as an object's owner is named, see `children.in_full`.
        accepted: whether the API server's answer to applying this digest to this child was known to lack fields, so that applying
            it again would change nothing.
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
        steps += _one(stamped(manifest), child, uid=uid, accepted=accepted)
    steps += [step for step in unwanted if step.child.kind not in _AUTOSCALERS]
    return steps


def is_left_over(controller_name: str, controller_uid: str, *, owner: str, uid: str) -> bool:
    """Whether an object belongs to a service of this name that is gone."""
    return controller_name == owner and controller_uid != uid


def stamped(manifest: Manifest) -> Manifest:
    """The manifest with the digest of itself among its annotations."""
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), APPLIED_ANNOTATION: digest(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def digest(manifest: Manifest) -> str:
    """Tells whether a manifest is the one that was applied."""
    text = msgspec.json.encode(manifest, order="sorted")
    return hashlib.blake2b(text, digest_size=10).hexdigest()


def _one(
    manifest: Manifest, child: Child | None, *, uid: str, accepted: Accepted
) -> collections.abc.Iterator[Step]:
    if child is None:
        yield Create(manifest)
        return
    if child.controller_uid != uid:
        yield Create(manifest)  # somebody else's, with our labels: whoever creates will see whose
        return
    fields = child.owned()
    stamp = manifest["metadata"]["annotations"][APPLIED_ANNOTATION]
    lost = ownership.lost(manifest, fields)
    same = child.applied == stamp
    if same and (not lost or accepted(child, stamp)):
        return
    version = ""
    if child.kind == "Deployment":
        wanted = "replicas" in manifest["spec"]
        ours = ownership.owns(fields, "spec", "replicas")
        if ours and not wanted:
            yield HandOver(child.name, child.uid, child.manifest()["spec"].get("replicas", 1))
        if wanted and not ours and not same:
            version = child.version
    yield Apply(manifest, child.uid, drift=tuple(lost) if same else (), version=version)
