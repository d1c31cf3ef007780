"""The AutoscalingReady condition: whether the autoscaler can read its metrics and scale."""

import collections.abc
import typing

from naiad_operator.api.service import InferenceService
from naiad_operator.builders import deployment, kinds
from naiad_operator.status import traffic
from naiad_operator.status.conditions import AUTOSCALING_READY, Condition, State
from naiad_operator.status.observed import Observed
from naiad_operator.status.reasons import Reason

Manifest = collections.abc.Mapping[str, typing.Any]

_ADAPTER = " (is prometheus-adapter installed with the rules of manifests/monitoring, and is there a PodMonitor?)"
_HPA_PROBLEMS = {
    "FailedGetPodsMetric": _ADAPTER,
    "FailedGetObjectMetric": "",
    "FailedGetExternalMetric": "",
    "FailedGetResourceMetric": " (is metrics-server installed?)",
    "FailedGetContainerResourceMetric": " (is metrics-server installed?)",
}
"""Reasons with which a HorizontalPodAutoscaler reports that it cannot read a metric, and a hint for each."""

_TRIGGER_PROBLEMS = ("TriggerError", "PartialTriggerError")
_PROMETHEUS = " (does Prometheus answer at autoscaling.prometheusAddress, does it want autoscaling.prometheusAuth, and does it scrape these pods and the ingress controller?)"


def ready(service: InferenceService, observed: Observed) -> Condition:
    """The condition from the status of the HorizontalPodAutoscaler or the ScaledObject."""
    if not deployment.is_autoscaled(service):
        return _condition("True", "Disabled", "")
    refused = traffic.refused(
        observed, lambda kind: kind in (kinds.HPA.kind, kinds.SCALED_OBJECT.kind)
    )
    if refused:
        return _condition("False", *refused)
    unseen = traffic.unwatched(observed, lambda kind: kind == kinds.SCALED_OBJECT.kind)
    if unseen:
        return _condition(*unseen)
    scaling = service.spec.predictor.autoscaling
    assert scaling is not None
    if scaling.scaler == "keda":
        return _keda(service, observed)
    return _hpa(observed.children.get((kinds.HPA.kind, service.name)) or {})


def _condition(status: State, reason: Reason, message: str) -> Condition:
    return Condition(AUTOSCALING_READY, status, reason, message)


def _said(condition: Manifest) -> str:
    """The reason and message of another controller's condition."""
    return ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))


def _hpa(manifest: Manifest) -> Condition:
    conditions: dict[str, Manifest] = {
        condition["type"]: condition
        for condition in (manifest.get("status") or {}).get("conditions") or ()
    }
    active = conditions.get("ScalingActive")
    able = conditions.get("AbleToScale")
    if able is not None and able["status"] == "False":
        return _condition("False", "CannotScale", _said(able))
    if active is None:
        return _condition("Unknown", "Pending", "the HorizontalPodAutoscaler has no status yet")
    if active["status"] == "False" and active["reason"] != "ScalingDisabled":
        hint = _HPA_PROBLEMS.get(active["reason"])
        if hint is None:
            return _condition("False", "CannotScale", _said(active))
        return _condition("False", "MetricsUnavailable", f"{active.get('message', '')}{hint}")
    limited = conditions.get("ScalingLimited")
    if (
        limited is not None
        and limited["status"] == "True"
        and limited["reason"] == "TooManyReplicas"
    ):
        message = "more pods are wanted than autoscaling.maxReplicas allows"
        return _condition("True", "AtMaximum", message)
    return _condition("True", "Scaling", "")


def _keda(service: InferenceService, observed: Observed) -> Condition:
    missing = traffic.missing_kinds(observed.facts, (kinds.SCALED_OBJECT,))
    if missing:
        message = f"this cluster has no {missing}: install KEDA 2.17 or newer, or set autoscaling.class: hpa"
        return _condition("False", "KedaMissing", message)
    manifest = observed.children.get((kinds.SCALED_OBJECT.kind, service.name)) or {}
    conditions = {
        condition["type"]: condition
        for condition in (manifest.get("status") or {}).get("conditions") or ()
    }
    ready_ = conditions.get("Ready")
    if ready_ is not None and ready_.get("reason") in _TRIGGER_PROBLEMS:
        return _condition(
            "False", "MetricsUnavailable", f"{ready_.get('message', '')}{_PROMETHEUS}"
        )
    if ready_ is None or ready_["status"] == "Unknown":
        return _condition("Unknown", "Pending", "the ScaledObject has no status yet")
    if ready_["status"] == "False":
        return _condition("False", "ScaledObjectNotReady", _said(ready_))
    fallback = conditions.get("Fallback")
    if fallback is not None and fallback["status"] == "True":
        message = "KEDA cannot read its metrics and keeps the fallback number of pods"
        return _condition("False", "MetricsUnavailable", message)
    return _condition("True", "Scaling", "")
