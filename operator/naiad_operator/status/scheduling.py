"""Pods without a node: whether one may still come, and why there is none."""

import collections.abc
import dataclasses
import datetime as dt
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.workload import accelerator
from naiad_operator.status import pods
from naiad_operator.status.reasons import Reason

Manifest = collections.abc.Mapping[str, typing.Any]

_MOST_NAMED = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unscheduled:
    """A pod without a node.

    Attributes:
        waits: whether that does not count as a failure: a node may be on its way, or the pod is held back on purpose.
        until: when it becomes a failure; None if it is one, or never becomes one.
    """

    pod: str
    reason: Reason
    message: str
    waits: bool
    until: dt.datetime | None = None


def unscheduled(
    pod: Manifest,
    service: InferenceService,
    facts: ClusterFacts,
    now: dt.datetime,
    claims: collections.abc.Sequence[str] = (),
) -> Unscheduled | None:
    """Why a pod has no node; None if it has one, or if the scheduler has not looked at it yet.

    An autoscaler of nodes reacts to exactly these pods, so for `Defaults.node_wait_seconds` they only wait, as they do for a volume that is being made.
    What neither provides, like a missing claim, is a failure at once.

    Args:
        pod: the pod.
        service: the service.
        facts: what the cluster has.
        now: the time.
        claims: the PersistentVolumeClaims that the pods mount.
    """
    status: Manifest = pod.get("status") or {}
    name = pod["metadata"]["name"]
    condition = _unscheduled_condition(status)
    if condition is None:
        return None
    text = condition.get("message") or condition.get("reason") or "no node fits"
    if condition.get("reason") == "SchedulingGated":
        message = f"pod {name} is not scheduled until its scheduling gates are removed (a queue such as Kueue sets them)"
        return Unscheduled(pod=name, reason="SchedulingGated", message=message, waits=True)
    reason, explained = _explained(text, service, facts)
    awaited = _awaited_claims(text, claims)
    if awaited:
        explained = f"{awaited}: {text}"
    scale_up = facts.scale_ups.get(name)
    since = pods.time(condition.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])
    if scale_up is not None and scale_up.is_coming:
        since = max(since, scale_up.time)
    elif scale_up is not None:
        explained = (
            f"{explained.rstrip('.')}; {scale_up.autoscaler} adds no node: {scale_up.message}"
        )
    until = since + dt.timedelta(seconds=facts.defaults.node_wait_seconds)
    if now >= until or _needs_no_node(text):
        return Unscheduled(
            pod=name, reason=reason, message=f"pod {name} has no node: {explained}", waits=False
        )
    if awaited:
        message = f"pod {name} waits for its volumes: {explained}"
        return Unscheduled(
            pod=name, reason="WaitingForVolume", message=message, waits=True, until=until
        )
    nominated = status.get("nominatedNodeName")
    node = f"for node {nominated}, which is to make room" if nominated else "for a node"
    if scale_up is not None and scale_up.is_coming:
        node = f"for a node that is coming ({scale_up.autoscaler}: {scale_up.message})"
    return Unscheduled(
        pod=name,
        reason="WaitingForNode",
        message=f"pod {name} waits {node}: {explained}",
        waits=True,
        until=until,
    )


def without_node(pods_: collections.abc.Iterable[Manifest]) -> str:
    """The name of the newest pod for which the scheduler has found no node; "" if there is none."""
    waiting = [
        pod
        for pod in pods_
        if (condition := _unscheduled_condition(pod.get("status") or {})) is not None
        and condition.get("reason") != "SchedulingGated"
        and "deletionTimestamp" not in pod["metadata"]
    ]
    return str(max(waiting, key=pods.age)["metadata"]["name"]) if waiting else ""


def needs_nodes(service: InferenceService, pods_: collections.abc.Iterable[Manifest]) -> bool:
    """Whether a pod that requests an extended resource has no node: then what nodes offer explains why."""
    if not accelerator.device_request(service).resource:
        return False
    return any(_unscheduled_condition(pod.get("status") or {}) is not None for pod in pods_)


def _unscheduled_condition(status: Manifest) -> Manifest | None:
    if status.get("phase") in ("Failed", "Succeeded"):
        return None
    matches = (
        condition
        for condition in status.get("conditions") or ()
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    )
    return next(matches, None)


def _needs_no_node(message: str) -> bool:
    """Whether the scheduler misses an object, as in `persistentvolumeclaim "models" not found`."""
    return any(words in message for words in _MISSING)


_MISSING = (" not found", "bound to non-existent persistentvolume", '" is being deleted')
_UNBOUND = "unbound immediate PersistentVolumeClaims"
"""What the scheduler says of claims whose volume does not wait for a pod's node: it has to be made first."""


def _awaited_claims(message: str, claims: collections.abc.Sequence[str]) -> str:
    """Which claims are not bound to a volume, in words; "" when the scheduler misses none."""
    if _UNBOUND not in message:
        return ""
    if len(claims) == 1:
        return f"PersistentVolumeClaim {claims[0]} is not bound to a volume (kubectl describe pvc {claims[0]})"
    named = f" ({', '.join(claims)})" if claims else ""
    return (
        f"a PersistentVolumeClaim of the pod is not bound to a volume{named} (kubectl describe pvc)"
    )


def _explained(message: str, service: InferenceService, facts: ClusterFacts) -> tuple[Reason, str]:
    """The reason and the scheduler's message, in terms of the accelerator if that is what no node has."""
    device_request = accelerator.device_request(service)
    resource, offered = device_request.resource, facts.node_resources
    if device_request.claim_template:
        is_missing = "claim" in message.lower()
        explained = f"no node can give what the claim asks for: {message}"
    elif device_request.is_device and offered is not None and not offered.get(resource):
        is_missing = True
        explained = f"no node offers {resource}; {_offers(offered)}"
    else:
        is_missing = device_request.is_device and resource in message
        taken = f"no node has {device_request.count} free {resource}"
        if offered is not None:
            taken = f"every {resource} is taken or on a node that does not fit"
        explained = f"{taken}: {message}"
    reason: Reason = "AcceleratorUnavailable" if is_missing else "Unschedulable"
    text = explained if is_missing else message
    labels = _required_labels(device_request) if _OTHER_LABELS in message else ""
    return reason, f"{text.rstrip('.')}. {labels}" if labels else text


_OTHER_LABELS = "match Pod's node affinity"
"""In the scheduler's message when nodes have other labels than the pod wants. A volume may have a node affinity as well."""


def _required_labels(device_request: accelerator.DeviceRequest) -> str:
    """What the accelerator requires of a node's labels, which the scheduler's message does not say; "" for nothing."""
    wanted = [f"{key}={value}" for key, value in device_request.node_labels.items()]
    for requirement in device_request.node_requirements:
        if requirement["key"] == accelerator.SLICES_LABEL:
            return f"On nodes with the label {accelerator.SLICES_LABEL}, {accelerator.GPU} is a MIG slice, so pods with whole GPUs do not go there: for a slice, write type: mig and strategy: single"
        wanted.append(f"{requirement['key']} in ({', '.join(requirement['values'])})")
    return f"The accelerator needs nodes with the label {wanted[0]}" if wanted else ""


def _offers(offered: collections.abc.Mapping[str, int]) -> str:
    """The devices that nodes offer, so that a user sees which profile to write."""
    devices = [name for name, count in sorted(offered.items()) if count and _is_device(name)]
    if not devices:
        return "no node offers any accelerator (is the device plugin running?)"
    named = ", ".join(f"{name} ({offered[name]})" for name in devices[:_MOST_NAMED])
    return f"nodes offer {named}"


def _is_device(resource: str) -> bool:
    return "/" in resource and not resource.startswith(("kubernetes.io/", "attachable-volumes"))
