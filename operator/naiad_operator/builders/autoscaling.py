"""Builds the autoscaler: a HorizontalPodAutoscaler, or KEDA's ScaledObject, which creates one.

Both use the average time that a request waits for an instance, and the number of waiting requests. The first alone would be 0 at
total overload, because requests that time out in the queue add nothing to it.
"""

import typing

from naiad_operator.api import quantity
from naiad_operator.api.scaling import Autoscaling
from naiad_operator.api.service import InferenceService
from naiad_operator.builders import deployment, kinds, names, server
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.errors import InvalidSpec, Problem

Object = dict[str, typing.Any]

RATE_WINDOW = "2m"
"""The window of rates; at least four scrape intervals, so that one lost scrape has no effect."""

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

_KEDA_COOLDOWN_SECONDS = 300
_KEDA_POLLING_SECONDS = 15
_KEDA_FAILURES = 3

_LONGEST_HASH = 10
_LONGEST_BASE = 58


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
    return _scaled_object(service, scaling, facts)


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


def _scaled_object(
    service: InferenceService, scaling: Autoscaling, facts: ClusterFacts
) -> names.Manifest:
    address = scaling.prometheus_address or facts.defaults.prometheus_address
    if not address and not (scaling.queue_time_ms is None and scaling.pending_requests is None):
        raise InvalidSpec(
            [
                Problem(
                    "spec.predictor.autoscaling.prometheusAddress",
                    "the operator was installed without an address of Prometheus: write one, e.g. http://prometheus.monitoring:9090",
                )
            ]
        )
    pods = f'namespace="{service.namespace}",pod=~"{_pod_names(service.name)}"'
    triggers: list[Object] = []
    if scaling.queue_time_ms is not None:
        queued = f"sum(rate({server.QUEUE_METRIC}{{{pods}}}[{RATE_WINDOW}]))"
        answered = f"sum(rate({server.SUCCESS_METRIC}{{{pods}}}[{RATE_WINDOW}]))"
        query = f"{queued} / clamp_min({answered}, 1e-9)"
        # The query is an average already.
        target = scaling.queue_time_ms * _MICROSECONDS
        triggers.append(_trigger(address, query, target, metric_type="Value"))
    if scaling.pending_requests is not None:
        query = f"sum({server.PENDING_METRIC}{{{pods}}})"
        triggers.append(
            _trigger(address, query, scaling.pending_requests, metric_type="AverageValue")
        )
    triggers += [dict(trigger) for trigger in scaling.triggers or ()]
    manifest = names.child(service, kinds.SCALED_OBJECT.api_version, kinds.SCALED_OBJECT.kind)
    manifest["spec"] = {
        "scaleTargetRef": {
            "apiVersion": kinds.DEPLOYMENT.api_version,
            "kind": kinds.DEPLOYMENT.kind,
            "name": service.name,
        },
        "minReplicaCount": scaling.effective_min_replicas,
        "maxReplicaCount": scaling.effective_max_replicas,
        "pollingInterval": _KEDA_POLLING_SECONDS,
        "cooldownPeriod": _KEDA_COOLDOWN_SECONDS,
        # Unreadable metrics must not cause a scale-down.
        "fallback": {
            "failureThreshold": _KEDA_FAILURES,
            "replicas": max(scaling.effective_min_replicas, 1),
            "behavior": "currentReplicasIfHigher",
        },
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": scaling.behavior or _BEHAVIOR}},
        "triggers": triggers,
    }
    return manifest


def _pod_names(deployment_name: str) -> str:
    """A regular expression for the names of a Deployment's pods: <deployment>-<hash>-<random>.

    The API server truncates a generated name to 58 characters before the random suffix, so that with a long name the second '-' and
    more is lost.
    """
    if len(deployment_name) + len("--") + _LONGEST_HASH <= _LONGEST_BASE:
        return f"{deployment_name}-[a-z0-9]+-[a-z0-9]+"
    return f"{deployment_name}-[a-z0-9]+(-[a-z0-9]+)?"


def _trigger(address: str, query: str, threshold: int, *, metric_type: str) -> Object:
    return {
        "type": "prometheus",
        "metricType": metric_type,
        "metadata": {
            "serverAddress": address,
            "query": query,
            "threshold": str(threshold),
            "ignoreNullValues": "false",
        },
    }
