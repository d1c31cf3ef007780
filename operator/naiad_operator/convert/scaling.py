"""Autoscalers of a Triton workload as predictor.autoscaling. Pure."""

import decimal

from naiad_operator.api import quantity
from naiad_operator.api.manifests.unvalidated import Fields, entries, part
from naiad_operator.builders import server
from naiad_operator.convert.draft import Draft
from naiad_operator.convert.references import Notes, Workload
from naiad_operator.errors import Problem

_UNITS = {"_us": 1000, "_ms": 1}
"""Of a metric of queue times, by the end of its name: how many make a millisecond."""
_SECOND = "left out: another autoscaler of this workload became predictor.autoscaling: write the metrics of both there"


def autoscaler(rest: Fields, _of: Workload, draft: Draft) -> Notes:
    """Moves a HorizontalPodAutoscaler into predictor.autoscaling."""
    if "autoscaling" in draft.predictor:
        rest.pop("spec")
        yield Problem("kind", _SECOND)
        return
    spec = part(rest, "spec")
    scaling: Fields = {"class": "hpa"}
    scaling |= {
        field: spec.pop(field)
        for field in ("minReplicas", "maxReplicas", "behavior")
        if field in spec
    }
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = entries(spec, "metrics")
    spec.pop("metrics", None)
    if not metrics:
        target = {"type": "Utilization", "averageUtilization": percent or 80}
        metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    for index, metric in enumerate(metrics):
        path = f"spec.metrics[{index}]"
        ours = _own_metric(metric)
        if ours:
            scaling |= ours
            field, value = next(iter(ours.items()))
            yield Problem(
                path,
                f"became autoscaling.{field}: {value}{_rounded(metric, ours)}; Prometheus' adapter needs Naiad's rules (manifests/monitoring/prometheus-adapter-values.yaml), and Prometheus the pods' metrics (spec.monitoring.podMonitor: true)",
            )
            continue
        scaling.setdefault("metrics", []).append(_renamed(metric))
        if metric.get("type") not in ("Resource", "ContainerResource"):
            yield Problem(
                path, "copied: see that it counts the new pods, which have other labels and names"
            )
    spec.pop("scaleTargetRef", None)
    draft.predictor["autoscaling"] = scaling
    draft.predictor.pop("replicas", None)


def _own_metric(metric: Fields) -> Fields:
    """QueueTimeMs or pendingRequests for a metric that means the same; {} for any other."""
    pods = part(metric, "pods")
    name = str(part(pods, "metric").get("name") or pods.get("metricName") or "")
    target = part(pods, "target").get("averageValue", pods.get("targetAverageValue"))
    try:
        value = quantity.amount(str(target))
    except decimal.InvalidOperation:
        return {}
    if name == server.PENDING_METRIC:
        return {"pendingRequests": max(1, int(value))}
    if "queue" in name and name[-3:] in _UNITS:
        return {"queueTimeMs": max(1, round(value / _UNITS[name[-3:]]))}
    return {}


def _rounded(metric: Fields, ours: Fields) -> str:
    """What rounding has changed; "" for nothing."""
    pods = part(metric, "pods")
    target = part(pods, "target").get("averageValue", pods.get("targetAverageValue"))
    name = str(part(pods, "metric").get("name") or pods.get("metricName") or "")
    factor = _UNITS[name[-3:]] if "queueTimeMs" in ours else 1
    if quantity.amount(str(target)) == next(iter(ours.values())) * factor:
        return ""
    return f" (rounded from {target}{' µs' if factor > 1 else ''}: the field is an integer, at least 1)"


def _renamed(metric: Fields) -> Fields:
    """A metric of a container names ours."""
    resource = part(metric, "containerResource")
    if resource:
        return {**metric, "containerResource": {**resource, "container": server.CONTAINER}}
    return metric


def scaled_object(rest: Fields, _of: Workload, draft: Draft) -> Notes:
    """Moves KEDA's ScaledObject into predictor.autoscaling."""
    if "autoscaling" in draft.predictor:
        rest.pop("spec")
        yield Problem("kind", _SECOND)
        return
    spec = part(rest, "spec")
    spec.pop("scaleTargetRef", None)
    triggers = entries(spec, "triggers")
    spec.pop("triggers", None)
    scaling: Fields = {"class": "keda"}
    scaling["minReplicas"] = spec.pop("minReplicaCount", 0)
    scaling["maxReplicas"] = spec.pop("maxReplicaCount", 100)
    if triggers:
        scaling["triggers"] = triggers
        yield Problem(
            "spec.triggers",
            "copied: see that queries count the new pods, which have other labels and names; autoscaling.queueTimeMs needs no trigger",
        )
    behavior = part(spec, "advanced", "horizontalPodAutoscalerConfig").pop("behavior", None)
    if behavior:
        scaling["behavior"] = behavior
    draft.predictor["autoscaling"] = scaling
    draft.predictor.pop("replicas", None)
