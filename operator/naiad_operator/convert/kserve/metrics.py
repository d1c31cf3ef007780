"""The field autoScaling of KServe's predictors as predictor.autoscaling: resources as those of autoscaling/v2, queries as KEDA's triggers. Pure."""

import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries, part
from naiad_operator.errors import Problem

_PATH = "spec.predictor.autoScaling"


def convert(given: Fields, low: int, high: int, notes: list[Problem]) -> Fields:
    """The fields of an autoscaling; {} when no metric fits.

    Args:
        given: the field autoScaling.
        low: the lowest number of pods.
        high: the highest one.
        notes: what does not fit is added.
    """
    resources: list[Fields] = []
    triggers: list[Fields] = []
    for index, metric in enumerate(entries(given, "metrics")):
        kind, external = metric.get("type"), part(metric, "external")
        if kind == "Resource":
            resources.append(metric)
        elif part(external, "metric").get("backend") == "prometheus":
            triggers.append(_prometheus(external))
            message = "became a trigger of KEDA: see that its query counts the new pods, which have other labels and names"
            notes.append(Problem(f"{_PATH}.metrics[{index}]", message))
        else:
            message = f"not converted: {kind}: autoscaling.queueTimeMs: 10 scales by the time that requests wait for an instance; class: keda takes triggers for others"
            notes.append(Problem(f"{_PATH}.metrics[{index}]", message))
    if not resources and not triggers:
        return {}
    scaling: Fields = {"class": "keda" if triggers else "hpa"}
    scaling |= {"minReplicas": low if triggers else max(low, 1), "maxReplicas": high}
    if triggers:
        scaling["triggers"] = [*map(_resource, resources), *triggers]
    else:
        scaling["metrics"] = resources
    if part(given, "behavior"):
        scaling["behavior"] = given["behavior"]
    return scaling


def _resource(metric: Fields) -> Fields:
    """A resource as a trigger, beside other triggers."""
    resource = part(metric, "resource")
    target = part(resource, "target")
    return {
        "type": resource.get("name"),
        "metricType": target.get("type", "Utilization"),
        "metadata": {"value": _value(target)},
    }


def _prometheus(external: Fields) -> Fields:
    metric, target = part(external, "metric"), part(external, "target")
    metadata: dict[str, str] = {
        key: str(metric[key]) for key in ("serverAddress", "query", "namespace") if key in metric
    }
    authentication = part(external, "authenticationRef")
    if "authModes" in authentication:
        metadata["authModes"] = str(authentication["authModes"])
    made: Fields = {
        "type": "prometheus",
        "metricType": target.get("type", "AverageValue"),
        "metadata": {**metadata, "threshold": _value(target)},
    }
    reference = part(authentication, "authenticationRef")
    return made | ({"authenticationRef": reference} if reference else {})


def _value(target: Fields) -> str:
    named: typing.Any = (target.get(key) for key in ("averageUtilization", "averageValue", "value"))
    return str(next((one for one in named if one is not None), ""))
