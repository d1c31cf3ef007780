"""Builds KEDA's ScaledObject, which makes a HorizontalPodAutoscaler and, with minReplicas 0, ends the last pod and starts the first.

It holds only what every supported KEDA accepts, from 2.17 on, the first with `fallback.behavior`:
tests/operator/builders/scaling/test_keda.py has the rules of its admission webhooks.
"""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.scaling import Autoscaling
from naiad_operator.builders import canary, kinds, names, server
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.scaling import activation
from naiad_operator.errors import InvalidSpec, Problem

Object = dict[str, typing.Any]

RATE_WINDOW = "2m"
"""The window of rates; at least four scrape intervals, so that one lost scrape has no effect."""

_MICROSECONDS = 1000
_POLLING_SECONDS = 15
_FAILURES = 3
_NEVER_REACHED = 1_000_000
"""The threshold of the trigger that starts the first pod: it never asks for a second one."""

_LONGEST_LABEL = 63
"""The HorizontalPodAutoscaler's name is also the value of a label; KEDA 2.20 refuses a longer one."""
_LONGEST_HASH = 10
_LONGEST_BASE = 58


def scaled_object(
    service: InferenceService, scaling: Autoscaling, facts: ClusterFacts, behavior: Object
) -> names.Manifest:
    """The ScaledObject.

    Raises:
        InvalidSpec: the address of Prometheus is not configured.
    """
    triggers = [
        *_own_triggers(service, scaling, facts),
        *(dict(trigger) for trigger in scaling.triggers or ()),
    ]
    spec: Object = {
        "scaleTargetRef": {
            "apiVersion": kinds.DEPLOYMENT.api_version,
            "kind": kinds.DEPLOYMENT.kind,
            "name": service.name,
        },
        "minReplicaCount": scaling.effective_min_replicas,
        "maxReplicaCount": scaling.effective_max_replicas,
    }
    if scaling.effective_min_replicas == 0:
        # With a pod at all times these have no effect, and KEDA warns of them.
        idle = activation.idle_seconds(service)
        spec |= {
            "pollingInterval": _POLLING_SECONDS,
            "cooldownPeriod": idle,
            # So a new service loads its models once before it has no pod.
            "initialCooldownPeriod": idle,
        }
    if _may_fall_back(triggers):
        # Unreadable metrics must not cause a scale-down. Without a fallback the HorizontalPodAutoscaler keeps the number of pods as well.
        spec["fallback"] = {
            "failureThreshold": _FAILURES,
            "replicas": max(scaling.effective_min_replicas, 1),
            "behavior": "currentReplicasIfHigher",
        }
    config: Object = {"behavior": behavior}
    if len(f"keda-hpa-{service.name}") > _LONGEST_LABEL:  # that of a canary may be
        config["name"] = f"keda-{service.name}"
    spec["advanced"] = {"horizontalPodAutoscalerConfig": config}
    spec["triggers"] = triggers
    manifest = names.child(service, kinds.SCALED_OBJECT.api_version, kinds.SCALED_OBJECT.kind)
    manifest["spec"] = spec
    return manifest


def _may_fall_back(triggers: list[Object]) -> bool:
    """Whether every supported KEDA accepts a fallback: up to 2.17 a trigger must say that its target is an average, and cpu and memory do not count."""
    return any(
        trigger.get("type") not in ("cpu", "memory") and trigger.get("metricType") == "AverageValue"
        for trigger in triggers
    )


def _own_triggers(
    service: InferenceService, scaling: Autoscaling, facts: ClusterFacts
) -> list[Object]:
    """The triggers of the service's metrics, and the one that starts its first pod."""
    started_by = activation.query(service)
    if scaling.queue_time_ms is None and scaling.pending_requests is None and not started_by:
        return []
    address = scaling.prometheus_address or facts.defaults.prometheus_address
    if not address:
        raise InvalidSpec(
            [
                Problem(
                    "spec.predictor.autoscaling.prometheusAddress",
                    "the operator was installed without an address of Prometheus: write one, e.g. http://prometheus.monitoring:9090",
                )
            ]
        )
    prometheus = _Prometheus(service, scaling, address)
    pods = f'namespace="{service.namespace}",pod=~"{_pod_names(service.name)}"'
    if service.spec.canary is not None:
        # After a long name, which is truncated, the expression above would match the canary's pods; a hash never is this word.
        pods += f',pod!~"{canary.name(service)}-.*"'
    # A service without pods has no metrics; as an error this would be reported every 15 s.
    absent = "" if scaling.effective_min_replicas else f" or (vector(0) unless on() up{{{pods}}})"
    triggers: list[Object] = []
    if scaling.queue_time_ms is not None:
        queued = f"sum(rate({server.QUEUE_METRIC}{{{pods}}}[{RATE_WINDOW}]))"
        answered = f"sum(rate({server.SUCCESS_METRIC}{{{pods}}}[{RATE_WINDOW}]))"
        query = f"{queued} / clamp_min({answered}, 1e-9){absent}"
        # The query is an average already.
        target = scaling.queue_time_ms * _MICROSECONDS
        triggers.append(prometheus.trigger(query, target, metric_type="Value"))
    if scaling.pending_requests is not None:
        query = f"sum({server.PENDING_METRIC}{{{pods}}}){absent}"
        triggers.append(prometheus.trigger(query, scaling.pending_requests))
    if started_by:
        trigger = prometheus.trigger(started_by, _NEVER_REACHED)
        trigger["metadata"]["activationThreshold"] = "0"
        triggers.append(trigger)
    return triggers


def _pod_names(deployment_name: str) -> str:
    """A regular expression for the names of a Deployment's pods: <deployment>-<hash>-<random>.

    The API server truncates a generated name to 58 characters before the random suffix, so that with a long name the second '-' and
    more is lost.
    """
    if len(deployment_name) + len("--") + _LONGEST_HASH <= _LONGEST_BASE:
        return f"{deployment_name}-[a-z0-9]+-[a-z0-9]+"
    return f"{deployment_name}-[a-z0-9]+(-[a-z0-9]+)?"


class _Prometheus:
    """The Prometheus that KEDA queries for a service."""

    def __init__(self, service: InferenceService, scaling: Autoscaling, address: str) -> None:
        self._address = address
        self._namespace = service.namespace
        self._auth = scaling.prometheus_auth

    def trigger(self, query: str, threshold: int, *, metric_type: str = "AverageValue") -> Object:
        """A trigger with the credentials of this Prometheus."""
        metadata = {
            "serverAddress": self._address,
            "query": query,
            "threshold": str(threshold),
            "ignoreNullValues": "false",
        }
        trigger: Object = {"type": "prometheus", "metricType": metric_type, "metadata": metadata}
        auth = self._auth
        if auth is not None:
            trigger["authenticationRef"] = {"name": auth.name, "kind": auth.kind}
            if auth.modes:
                metadata["authModes"] = ",".join(auth.modes)
            if auth.aws_region is not None:
                metadata["awsRegion"] = auth.aws_region
            if auth.namespace_parameter:
                metadata["namespace"] = self._namespace
        return trigger
