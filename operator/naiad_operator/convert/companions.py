"""What the objects beside a Triton Deployment say of its service: Services, autoscalers, Ingresses, monitors and claims. Pure."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries, own_copy, part, texts
from naiad_operator.convert import exposure, scaling
from naiad_operator.convert.draft import Draft, left
from naiad_operator.convert.references import Manifest, Notes, Workload
from naiad_operator.errors import Problem

_METADATA = ("apiVersion", "kind", "metadata", "status")
_ADVICE = {
    "cooldownPeriod": "write autoscaling.activation.idleSeconds where minReplicas is 0",
    "loadBalancerIP": "write the annotation by which your load balancer takes a fixed address in service.annotations",
}
_OTHERWISE = "a service has no such field: leave it out"


def belongs(manifest: Manifest, of: Workload) -> bool:
    """Whether an object says something of a workload, or of one of its Services."""
    spec = part(manifest, "spec")
    if str(manifest.get("kind")) not in KINDS or not _reaches(manifest, of.namespace):
        return False
    match manifest["kind"]:
        case "Service":
            return _selects(spec.get("selector"), of.labels)
        case "HorizontalPodAutoscaler" | "ScaledObject":
            target = part(spec, "scaleTargetRef")
            return target.get("name") == of.name and target.get("kind", "Deployment") == of.kind
        case "Ingress":
            return any(name in of.services for _, _, name, _ in exposure.backends(spec))
        case "ServiceMonitor":
            selector = part(spec, "selector").get("matchLabels")
            return any(_selects(selector, one.labels) for one in of.services.values())
        case _:
            return _selects(part(spec, "selector").get("matchLabels"), of.labels)


def _reaches(manifest: Manifest, namespace: str) -> bool:
    """Whether an object counts in a namespace; one without a namespace gets that of its neighbours when it is applied."""
    given = str(part(manifest, "metadata").get("namespace") or "")
    if given in {"", namespace}:
        return True
    selector = part(manifest, "spec", "namespaceSelector")
    names = texts(selector, "matchNames")
    return selector.get("any") is True or (bool(namespace) and namespace in names)


def _selects(selector: typing.Any, labels: Fields) -> bool:
    return isinstance(selector, dict) and bool(selector) and selector.items() <= labels.items()


def convert(manifest: Manifest, of: Workload, draft: Draft) -> list[Problem]:
    """Moves an object that belongs to a workload into its service; returns what did not fit, by its path in the object."""
    rest = own_copy(manifest)
    notes = list(_CONVERTERS[manifest["kind"]](rest, of, draft))
    for field in _METADATA:
        rest.pop(field, None)
    return [*notes, *left(rest, "", _ADVICE, _OTHERWISE)]


def _monitor(rest: Fields, _of: Workload, draft: Draft) -> Notes:
    if "monitoring" in draft.spec:
        rest.pop("spec")
        yield Problem("kind", "left out: another monitor became spec.monitoring, which makes one")
        return
    spec = part(rest, "spec")
    is_pod = rest["kind"] == "PodMonitor"
    endpoints = entries(spec, "podMetricsEndpoints" if is_pod else "endpoints")
    made: Fields = {"podMonitor" if is_pod else "serviceMonitor": True}
    interval = next((one["interval"] for one in endpoints if "interval" in one), None)
    if interval is not None:
        made["interval"] = interval
    labels = {
        key: value
        for key, value in part(rest, "metadata", "labels").items()
        if not key.startswith(("app.kubernetes.io/", "helm.sh/"))
    }
    if labels:
        made["labels"] = labels
    draft.spec["monitoring"] = made
    rest.pop("spec")
    yield Problem("kind", "became spec.monitoring: relabelings and other fields are not converted")


def _budget(rest: Fields, _of: Workload, draft: Draft) -> Notes:
    spec = part(rest, "spec")
    spec.pop("selector", None)
    if "maxUnavailable" in spec:
        draft.predictor["podDisruptionBudget"] = {"maxUnavailable": spec.pop("maxUnavailable")}
    if spec.pop("minAvailable", None) is not None:
        yield Problem(
            "spec.minAvailable",
            "left out: predictor.podDisruptionBudget.maxUnavailable says it, 1 by default",
        )


_CONVERTERS: dict[str, collections.abc.Callable[[Fields, Workload, Draft], Notes]] = {
    "Service": exposure.service,
    "HorizontalPodAutoscaler": scaling.autoscaler,
    "ScaledObject": scaling.scaled_object,
    "Ingress": exposure.ingress,
    "PodMonitor": _monitor,
    "ServiceMonitor": _monitor,
    "PodDisruptionBudget": _budget,
}
KINDS = frozenset(_CONVERTERS)
"""The kinds that say something of a workload."""


def claim_notes(manifest: Manifest, draft: Draft) -> list[Problem]:
    """What a PersistentVolumeClaim says of the service that mounts it."""
    name = part(manifest, "metadata").get("name")
    model = draft.predictor.get("model", {})
    uris = [
        model.get("storageUri"),
        *(one.get("storageUri") for one in model.get("repositories", ())),
    ]
    if not any(str(uri).partition("pvc://")[2].partition("/")[0] == name for uri in uris):
        return []
    modes = part(manifest, "spec").get("accessModes") or []
    autoscaling = draft.predictor.get("autoscaling", {})
    several = autoscaling.get("maxReplicas", draft.predictor.get("replicas", 1)) != 1
    if several and set(modes) <= {"ReadWriteOnce", "ReadWriteOncePod"}:
        return [
            Problem(
                "spec.accessModes",
                "one node at a time can mount it: several pods on several nodes need ReadOnlyMany or ReadWriteMany",
            )
        ]
    return []
