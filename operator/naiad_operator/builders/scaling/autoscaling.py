"""Builds the autoscaler: a HorizontalPodAutoscaler, or KEDA's ScaledObject, which creates one.

Both use the average time that a request waits for an instance, and the number of waiting requests. The first alone would be 0 at
total overload, because requests that time out in the queue add nothing to it.
"""

import typing

from naiad_operator.api import quantity
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.scaling import Autoscaling
from naiad_operator.builders import kinds, names, server
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.scaling import keda
from naiad_operator.builders.workload import deployment

Object = dict[str, typing.Any]

_MICROSECONDS = 1000

_BEHAVIOR: Object = {
    "scaleUp": {
        "stabilizationWindowSeconds": 30,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 300,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}],
    },
}
"""Small steps: queue time does not grow in proportion to load, so the autoscaler's own computation overshoots."""


def autoscaler(service: InferenceService, facts: ClusterFacts) -> names.Manifest | None:
    """The autoscaler; None when the spec has none, while the service is suspended, or when the cluster lacks KEDA.

    Raises:
        InvalidSpec: the address of Prometheus, which KEDA needs, is not configured.
    """
    scaling = service.spec.predictor.autoscaling
    if scaling is None or not deployment.is_autoscaled(service):
        return None
    if scaling.scaler == "hpa":
        return _hpa(service, scaling)
    if kinds.SCALED_OBJECT.key not in facts.apis:
        return None
    return keda.scaled_object(service, scaling, facts, scaling.behavior or _BEHAVIOR)


def _hpa(service: InferenceService, scaling: Autoscaling) -> names.Manifest:
    metrics: list[Object] = []
    if scaling.queue_time_ms is not None:
        target = str(scaling.queue_time_ms * _MICROSECONDS)
        metrics.append(_pods_metric(server.AVERAGE_QUEUE_METRIC, target))
    if scaling.pending_requests is not None:
        metrics.append(_pods_metric(server.PENDING_METRIC, str(scaling.pending_requests)))
    metrics += [dict(metric) for metric in scaling.metrics or ()]
    manifest = names.child(service, kinds.HPA.api_version, kinds.HPA.kind)
    manifest["spec"] = {
        "scaleTargetRef": {
            "apiVersion": kinds.DEPLOYMENT.api_version,
            "kind": kinds.DEPLOYMENT.kind,
            "name": service.name,
        },
        "minReplicas": scaling.effective_min_replicas,
        "maxReplicas": scaling.effective_max_replicas,
        "metrics": metrics,
        "behavior": scaling.behavior or _BEHAVIOR,
    }
    return manifest


def _pods_metric(name: str, average: str) -> Object:
    return {
        "type": "Pods",
        "pods": {
            "metric": {"name": name},
            "target": {"type": "AverageValue", "averageValue": quantity.canonical(average)},
        },
    }
