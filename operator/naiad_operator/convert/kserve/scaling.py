"""The numbers of pods and the metrics of KServe's predictors as replicas or autoscaling. Pure."""

import typing

from naiad_operator.api.manifests.unvalidated import Fields, part
from naiad_operator.convert.kserve import metrics
from naiad_operator.errors import Problem

METRIC = "serving.kserve.io/metric"
TARGET = "serving.kserve.io/targetUtilizationPercentage"
"""Annotations that say what scaleMetric and scaleTarget say."""
CLASS = "serving.kserve.io/autoscalerClass"
"""The annotation that says who scales: hpa, keda, external or none."""


def replicas(
    predictor: Fields, resources: typing.Any, metadata: Fields, notes: list[Problem]
) -> Fields:
    """The number of pods: KServe scales when maxReplicas is above minReplicas, whose default is 1.

    Args:
        predictor: the fields of the predictor about the number of pods.
        resources: the resources of the server's container.
        metadata: the metadata of the InferenceService, whose annotations may say that Knative scaled it.
        notes: what does not fit is added.
    """
    notes += _of_type(predictor)
    low = _number(predictor, "minReplicas", 1, notes)
    high = _number(predictor, "maxReplicas", 0, notes)
    annotations = part(metadata, "annotations")
    scaler = str(annotations.get(CLASS))
    if scaler in {"external", "none"}:
        return _unscaled(predictor, scaler, max(low, 1), notes)
    rules = part(predictor, "autoScaling")
    if high > low and (scaling := metrics.convert(rules, low, high, notes)):
        if scaling["minReplicas"] != low:
            notes.append(Problem("spec.predictor.minReplicas", _RAISED))
        return {"autoscaling": scaling}
    if 0 < high < low:
        message = f"left out: {high} is less than minReplicas, {low}"
        notes.append(Problem("spec.predictor.maxReplicas", message))
    elif high == 0 and _is_serverless(predictor, metadata):
        message = f"is not set, so that Knative added pods without a limit by requests in flight: here the number of pods is {max(low, 1)}; write predictor.autoscaling, e.g. {{class: hpa, maxReplicas: 4, queueTimeMs: 10}}"
        notes.append(Problem("spec.predictor.maxReplicas", message))
    if low == 0:
        low = 1
        notes.append(Problem("spec.predictor.minReplicas", _RAISED))
    if high <= low:
        message = f"left out: maxReplicas is not above minReplicas, so that nothing scales: the number of pods is {low}"
        unused = [
            field
            for field in ("scaleMetric", "scaleTarget", "autoScaling")
            if predictor.pop(field, None) is not None
        ]
        notes += [Problem(f"spec.predictor.{field}", message) for field in unused]
        return {"replicas": low}
    default = annotations.get(METRIC, "cpu" if TARGET in annotations else None)
    metric = predictor.pop("scaleMetric", default)
    given = predictor.pop("scaleTarget", _percent(annotations.get(TARGET)))
    name = metric if metric in ("cpu", "memory") else "cpu"
    target = given if given is not None and name == metric else 80
    if name != metric:
        message = f"the pods scale by {target} % CPU of resources.requests[cpu]{_other_metric(metric, given)}"
        field = "maxReplicas" if metric is None else "scaleMetric"
        notes.append(Problem(f"spec.predictor.{field}", message))
    if not _is_requested(name, resources):
        message = f"the autoscaler computes a share of resources.requests[{name}], which is not set: write it, e.g. {_AMOUNTS[name]}"
        notes.append(Problem("spec.predictor.maxReplicas", message))
    utilization = {"type": "Utilization", "averageUtilization": target}
    resource = {"type": "Resource", "resource": {"name": name, "target": utilization}}
    scaling = {"class": "hpa", "minReplicas": low, "maxReplicas": high, "metrics": [resource]}
    behavior = part(rules, "behavior")
    return {"autoscaling": scaling | ({"behavior": behavior} if behavior else {})}


_RAISED = "became 1: for no pods without requests, write autoscaling.class: keda and minReplicas: 0 (docs/operator.md)"


def _of_type(predictor: Fields) -> list[Problem]:
    """What does not fit of the type of scaleTarget: it is a share unless written otherwise."""
    kind = predictor.pop("scaleMetricType", None)
    if kind in (None, "Utilization"):
        return []
    message = f"left out: {kind}: write a metric with such a target in autoscaling.metrics"
    return [Problem("spec.predictor.scaleMetricType", message)]


def _unscaled(predictor: Fields, scaler: str, low: int, notes: list[Problem]) -> Fields:
    """A service without an autoscaler of KServe's."""
    unused = [field for field in _OF_SCALER if predictor.pop(field, None) is not None]
    message = f"left out: {CLASS}: {scaler} says that KServe scales nothing"
    notes += [Problem(f"spec.predictor.{field}", message) for field in unused]
    if scaler == "none":
        return {"replicas": low}
    message = "became autoscaling.class: external: your autoscaler's target is now the InferenceService, through its subresource scale, and no longer a Deployment"
    notes.append(Problem("metadata.annotations", message))
    return {"replicas": low, "autoscaling": {"class": "external"}}


_OF_SCALER = ("maxReplicas", "scaleMetric", "scaleTarget", "autoScaling")


def _percent(text: typing.Any) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() else None


def _number(predictor: Fields, field: str, default: int, notes: list[Problem]) -> int:
    value = predictor.get(field)
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    notes.append(Problem(f"spec.predictor.{field}", f"left out: {value!r} is not an integer"))
    return default


def _is_serverless(predictor: Fields, metadata: Fields) -> bool:
    """Whether a service ran on Knative, as far as its manifest shows."""
    annotations = part(metadata, "annotations")
    mode = str(annotations.get("serving.kserve.io/deploymentMode"))
    if mode in {"RawDeployment", "Standard"}:
        return False
    return (
        mode in {"Serverless", "Knative"}
        or predictor.get("minReplicas") == 0
        or predictor.get("scaleMetric") in ("concurrency", "rps")
        or any(key.startswith("autoscaling.knative.dev/") for key in annotations)
    )


_AMOUNTS = {"cpu": '"2"', "memory": "4Gi"}


def _is_requested(name: str, resources: Fields) -> bool:
    return any(name in part(resources, field) for field in ("requests", "limits"))


def _other_metric(metric: typing.Any, target: typing.Any) -> str:
    """What to write in place of a metric that has no counterpart."""
    number = target if isinstance(target, int) else 10
    match metric:
        case "concurrency":
            return (
                f": concurrency counted the requests in flight per pod; autoscaling.pendingRequests: {number} counts those that wait for an instance, and "
                "queueTimeMs: 10 how long they wait, which fits batching"
            )
        case "rps":
            return (
                f": for {number} requests per second and pod write autoscaling.class: keda and a trigger: {{type: prometheus, metadata: {{threshold: "
                f'"{number}", query: sum(rate(nv_inference_request_success{{pod=~"NAME-.*"}}[1m]))}}}}; queueTimeMs: 10 needs no number per model'
            )
        case None:
            return ": autoscaling.queueTimeMs: 10 scales by the time that requests wait for an instance"
        case _:
            return f": {metric} is not a metric of KServe that is known here; autoscaling.queueTimeMs: 10 scales by the time that requests wait"
