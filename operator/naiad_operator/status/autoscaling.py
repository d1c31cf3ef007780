"""The AutoscalingReady condition: whether the autoscaler can read its metrics and scale."""

import collections.abc
import datetime as dt
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import kinds
from naiad_operator.builders.workload import deployment
from naiad_operator.status import pods, traffic
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
_OUTAGE_HINTS = {
    **_HPA_PROBLEMS,
    "FailedGetPodsMetric": " (do prometheus-adapter and the Prometheus that it asks run? Until then the number of pods stays as it is)",
}
"""The hints when requests for the metric fail."""
_NOT_BLOCKING = frozenset((*_HPA_PROBLEMS, "ScalingDisabled"))

_GRACE = dt.timedelta(minutes=3)
"""How long an autoscaler may lack its metrics: those of new pods are scraped, and listed by the adapter, a minute or two later."""
_OUTAGE_GRACE = dt.timedelta(seconds=10)
"""How long a HorizontalPodAutoscaler's requests for metrics may fail, e.g. while the adapter restarts."""
_REQUEST_FAILED = "unable to fetch metrics from"
"""What a HorizontalPodAutoscaler writes when the metrics API responds with an error; when it responds without metrics, the words are others."""
_UNKNOWN_METRIC = "could not find the metric"
"""The error of an adapter that has not found a series of this name in Prometheus yet."""

_TRIGGER_PROBLEMS = ("TriggerError", "PartialTriggerError")
_PROMETHEUS = " (does Prometheus answer at autoscaling.prometheusAddress, does it want autoscaling.prometheusAuth, and does it scrape these pods and the ingress controller?)"


def ready(service: InferenceService, observed: Observed, now: dt.datetime) -> Condition:
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
        return _keda(service, observed, now)
    return _hpa(_hpa_conditions(service, observed), now)


def next_change(
    service: InferenceService, observed: Observed, now: dt.datetime
) -> dt.datetime | None:
    """When the passing of time alone changes the condition; None if it does not."""
    active = _hpa_conditions(service, observed).get("ScalingActive") or {}
    if active.get("status") == "False":
        until = _until(active)
    elif _keda_conditions(service, observed).get("Ready", {}).get("reason") in _TRIGGER_PROBLEMS:
        until = _keda_until(service, observed)
    else:
        return None
    return until if now < until else None


def _hpa_conditions(service: InferenceService, observed: Observed) -> dict[str, Manifest]:
    """The conditions of the HorizontalPodAutoscaler by type; empty without one."""
    return _conditions(observed.children.get((kinds.HPA.kind, service.name)))


def _keda_conditions(service: InferenceService, observed: Observed) -> dict[str, Manifest]:
    """The conditions of the ScaledObject by type; empty without one."""
    return _conditions(observed.children.get((kinds.SCALED_OBJECT.kind, service.name)))


def _conditions(manifest: Manifest | None) -> dict[str, Manifest]:
    status = (manifest or {}).get("status") or {}
    return {condition["type"]: condition for condition in status.get("conditions") or ()}


def _until(condition: Manifest) -> dt.datetime:
    """When metrics that are missing become a failure."""
    since = condition.get("lastTransitionTime")
    grace = _OUTAGE_GRACE if _is_outage(condition) else _GRACE
    return pods.time(since) + grace if since else dt.datetime.min.replace(tzinfo=dt.UTC)


def _is_outage(condition: Manifest) -> bool:
    """Whether requests for the metric fail, rather than that there is none of these pods yet."""
    message = condition.get("message") or ""
    return _REQUEST_FAILED in message and _UNKNOWN_METRIC not in message


def _keda_until(service: InferenceService, observed: Observed) -> dt.datetime:
    """The same with KEDA, whose conditions have no time: it counts from the ScaledObject, or from the first pod that serves, if that came later."""
    scaled = observed.children.get((kinds.SCALED_OBJECT.kind, service.name)) or {}
    serving = _conditions(observed.children.get((kinds.DEPLOYMENT.kind, service.name)))
    since = (
        scaled.get("metadata", {}).get("creationTimestamp"),
        serving.get("Available", {}).get("lastTransitionTime"),
    )
    known = [pods.time(each) for each in since if each]
    return max(known) + _GRACE if known else dt.datetime.min.replace(tzinfo=dt.UTC)


def _condition(status: State, reason: Reason, message: str) -> Condition:
    return Condition(AUTOSCALING_READY, status, reason, message)


def _without_metrics(message: str, *, is_late: bool) -> Condition:
    """The condition of an autoscaler that cannot read its metrics: no failure as long as they may only be late."""
    if is_late:
        return _condition("Unknown", "Pending", f"there are no metrics yet: {message}")
    return _condition("False", "MetricsUnavailable", message)


def _said(condition: Manifest) -> str:
    """The reason and message of another controller's condition, which may have neither."""
    words = filter(None, (condition.get("reason"), condition.get("message")))
    return ": ".join(words) or f"{condition['type']} is {condition['status']}, without a reason"


def _hpa(conditions: collections.abc.Mapping[str, Manifest], now: dt.datetime) -> Condition:
    active = conditions.get("ScalingActive")
    for condition in filter(None, (conditions.get("AbleToScale"), active)):
        if condition["status"] == "False" and condition.get("reason") not in _NOT_BLOCKING:
            return _condition("False", "CannotScale", _said(condition))
    if active is None:
        return _condition("Unknown", "Pending", "the HorizontalPodAutoscaler has no status yet")
    if active["status"] == "False" and active.get("reason") in _HPA_PROBLEMS:
        hints = _OUTAGE_HINTS if _is_outage(active) else _HPA_PROBLEMS
        message = f"{active.get('message', '')}{hints[active['reason']]}"
        return _without_metrics(message, is_late=now < _until(active))
    limited = conditions.get("ScalingLimited")
    if (
        limited is not None
        and limited["status"] == "True"
        and limited.get("reason") == "TooManyReplicas"
    ):
        message = "more pods are wanted than autoscaling.maxReplicas allows"
        return _condition("True", "AtMaximum", message)
    return _condition("True", "Scaling", "")


def _keda(  # noqa: PLR0911 - one return per state
    service: InferenceService, observed: Observed, now: dt.datetime
) -> Condition:
    missing = traffic.missing_kinds(observed.facts, (kinds.SCALED_OBJECT,))
    if missing:
        message = f"this cluster has no {missing}: install KEDA 2.17 or newer, or set autoscaling.class: hpa"
        return _condition("False", "KedaMissing", message)
    conditions = _keda_conditions(service, observed)
    if (conditions.get("Paused") or {}).get("status") == "True":
        message = f"KEDA does not scale: ScaledObject {service.name} is paused by an annotation (autoscaling.keda.sh/paused, paused-replicas)"
        return _condition("True", "AutoscalingPaused", message)
    ready_ = conditions.get("Ready")
    if ready_ is not None and ready_.get("reason") in _TRIGGER_PROBLEMS:
        message = f"{ready_.get('message', '')}{_PROMETHEUS}"
        return _without_metrics(message, is_late=now < _keda_until(service, observed))
    if ready_ is None or ready_["status"] == "Unknown":
        return _condition("Unknown", "Pending", "the ScaledObject has no status yet")
    if ready_["status"] == "False":
        return _condition("False", "ScaledObjectNotReady", _said(ready_))
    fallback = conditions.get("Fallback")
    if fallback is not None and fallback["status"] == "True":
        message = "KEDA cannot read its metrics and keeps the fallback number of pods"
        return _condition("False", "MetricsUnavailable", message)
    return _condition("True", "Scaling", "")
