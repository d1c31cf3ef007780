"""Writes the first page of a report: what a person looks at first. Pure, from masked objects."""

import collections
import collections.abc
import functools

from naiad_operator.builders import kinds
from naiad_operator.report import selection
from naiad_operator.report.selection import CLUSTER, OPERATOR, Object, Snapshot
from naiad_operator.status import pod_failures, pods
from naiad_operator.status.cluster_events import last_seen
from naiad_operator.status.conditions import shortened

_WARNINGS = 40
_LONGEST_MESSAGE = 600
_STARTUP_S = 600.0

_shortened = functools.partial(shortened, longest=_LONGEST_MESSAGE)


def text(snapshot: Snapshot, *, own_version: str, kubernetes: str, time: str) -> str:
    """The page.

    Args:
        snapshot: the objects, masked.
        own_version: of the command.
        kubernetes: the version of the API server; "" if it could not be read.
        time: when the report was made.
    """
    parts = [
        [f"naiad-operator report {own_version}, {time}", f"Kubernetes {kubernetes or 'unknown'}"],
        _titled("Operator", _operator(snapshot)),
        _titled("Services", _services(snapshot)),
        _titled("Pods that are not ready", _pods(snapshot)),
        _titled("Nodes", _nodes(snapshot)),
        _titled("Warnings, the newest last", _warnings(snapshot)),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _titled(title: str, lines: collections.abc.Iterable[str]) -> list[str]:
    return [title, *([f"  {line}" for line in lines] or ["  none"])]


def _all(snapshot: Snapshot, plural: str) -> list[tuple[str, Object]]:
    return [
        (folder, one)
        for (folder, kind), objects in sorted(snapshot.items())
        if kind == plural
        for one in objects
    ]


def _operator(snapshot: Snapshot) -> collections.abc.Iterator[str]:
    for one in snapshot.get((OPERATOR, kinds.DEPLOYMENT.plural), ()):
        spec, status = one["spec"], one.get("status") or {}
        images = ", ".join(c["image"] for c in spec["template"]["spec"]["containers"])
        labels = one["metadata"].get("labels") or {}
        chart = f", chart {labels['helm.sh/chart']}" if "helm.sh/chart" in labels else ""
        ready = f"{status.get('readyReplicas') or 0} of {spec.get('replicas', 1)} ready"
        yield f"{_name(one)}: {images}{chart}, {ready}"


def _services(snapshot: Snapshot) -> collections.abc.Iterator[str]:
    for _, service in _all(snapshot, selection.SERVICES.plural):
        status = service.get("status") or {}
        generation = service["metadata"].get("generation")
        seen = status.get("observedGeneration")
        behind = "" if seen == generation else f", generation {generation}, seen by the operator {seen or 'never'}"  # fmt: skip
        yield f"{_name(service)}: {_ready(status)}{behind}"
        for condition in status.get("conditions") or ():
            what = f"{condition['type']}={condition['status']} {condition.get('reason') or ''}"
            since = condition.get("lastTransitionTime") or ""
            message = _shortened(condition.get("message") or "")
            yield f"  {what.ljust(44)} {since.ljust(20)} {message}".rstrip()
        for model in status.get("models") or ():
            if model.get("state") != "READY":
                reason = f": {_shortened(model['reason'])}" if model.get("reason") else ""
                yield f"  model {model.get('name')} {model.get('version') or ''} {model.get('state')}{reason}"  # fmt: skip


def _ready(status: Object) -> str:
    ready = next((c for c in status.get("conditions") or () if c["type"] == "Ready"), None)
    if ready is None:
        return "no condition Ready: the operator has not seen it"
    models = f", models {status['modelCount']}" if status.get("modelCount") else ""
    return f"Ready={ready['status']} ({ready.get('reason')}){models}"


def _pods(snapshot: Snapshot) -> collections.abc.Iterator[str]:
    for _, pod in _all(snapshot, selection.PODS.plural):
        if not pods.is_ready(pod):
            node = pod["spec"].get("nodeName")
            yield f"{_name(pod)}{f' on {node}' if node else ''}: {_shortened(why_not_ready(pod))}"


def why_not_ready(pod: Object) -> str:
    """Why a pod is not ready, as far as its status shows."""
    status = pod.get("status") or {}
    if "deletionTimestamp" in pod["metadata"]:
        return "is being deleted"
    for failure in pod_failures.failures([pod], startup_s=_STARTUP_S):
        return f"{failure.reason}: {failure.message}"
    unscheduled = (
        condition
        for condition in status.get("conditions") or ()
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    )
    for said in (status, *unscheduled):
        if said.get("reason") or said.get("message"):
            return f"{said.get('reason') or ''}: {said.get('message') or ''}".strip(": ")
    return _what_it_waits_for(status)


def _what_it_waits_for(status: Object) -> str:
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting:
            return f"container {container['name']} waits: {waiting.get('reason') or ''} {waiting.get('message') or ''}".strip()  # fmt: skip
    restarts = sum(container.get("restartCount") or 0 for container in _containers(status))
    unready = [c["name"] for c in _containers(status) if not c.get("ready")]
    if not unready:
        return f"phase {status.get('phase') or 'unknown'}"
    return f"runs, and its readiness probe fails: {', '.join(unready)}; {restarts} restarts"


def _containers(status: Object) -> list[Object]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _nodes(snapshot: Snapshot) -> collections.abc.Iterator[str]:
    for node in snapshot.get((CLUSTER, selection.NODES.plural), ()):
        status = node.get("status") or {}
        bad = [
            f"{one['type']}={one['status']} ({one.get('reason')}: {one.get('message')})"
            for one in status.get("conditions") or ()
            if (one["type"] == "Ready") != (one["status"] == "True")
        ]
        devices = [
            f"{name} {amount}"
            for name, amount in sorted((status.get("allocatable") or {}).items())
            if "/" in name and not name.startswith(("hugepages", "attachable"))
        ]
        size = status.get("allocatable") or {}
        yield "; ".join(
            [
                f"{node['metadata']['name']}: cpu {size.get('cpu')}, memory {size.get('memory')}",
                *devices,
                *(["unschedulable"] if node.get("spec", {}).get("unschedulable") else []),
                *([_shortened(" ".join(bad))] if bad else []),
            ]
        )


def _warnings(snapshot: Snapshot) -> list[str]:
    """One line per object and reason, since the scheduler writes an Event for each attempt: the newest message, and how many there were."""
    newest: dict[tuple[str, str], Object] = {}
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    events = (event for _, event in _all(snapshot, selection.EVENTS.plural))
    for event in sorted(events, key=last_seen):
        if event.get("type") == "Warning":
            key = _about(event), str(event.get("reason"))
            newest[key] = event
            counts[key] += event.get("count") or 1
    in_order = sorted(newest.items(), key=lambda one: last_seen(one[1]))
    return [_event(event, counts[key]) for key, event in in_order[-_WARNINGS:]]


def _event(event: Object, count: int) -> str:
    times = f" ({count} times)" if count > 1 else ""
    message = _shortened(event.get("message") or "")
    return f"{last_seen(event)} {_about(event)}: {event.get('reason')}{times}: {message}"


def _about(event: Object) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind')} {about.get('namespace', '')}/{about.get('name')}"


def _name(item: Object) -> str:
    return f"{item['metadata'].get('namespace')}/{item['metadata']['name']}"
