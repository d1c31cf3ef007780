"""Checks an autoscaler: metrics and triggers, which the schema passes on as they are, and what they need of resources."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import entries, part
from naiad_operator.api.parsing.validation import brief
from naiad_operator.check.finding import Findings, error, warning

_OF_PODS = ("cpu", "memory")
_ADVICE = "write the request, or set it in the NaiadProfile"


def findings(predictor: typing.Any, path: str, default_requests: collections.abc.Iterable[str]) -> Findings:  # fmt: skip
    """What is wrong with the autoscaling of a predictor or a canary.

    Args:
        predictor: the part of the spec, with defaults.
        path: its path.
        default_requests: the resources that pods request by default.
    """
    scaling, path = part(predictor, "autoscaling"), f"{path}.autoscaling"
    requests, limits = (part(predictor, "resources", one) for one in ("requests", "limits"))
    known = {*requests, *limits, *default_requests}
    for index, metric in enumerate(entries(scaling, "metrics")):
        resource = part(metric, "resource")
        name = resource.get("name")
        is_share = part(resource, "target").get("type") == "Utilization"
        if is_share and isinstance(name, str) and name not in known:
            message = f"utilization is a share of resources.requests[{name}], which is not set, so that the autoscaler would not work: {_ADVICE}"
            yield warning(f"{path}.metrics[{index}]", message)
    triggers = entries(scaling, "triggers")
    for index, trigger in enumerate(triggers):
        here = f"{path}.triggers[{index}]"
        yield from _trigger(trigger, here)
        name = trigger.get("type")
        if name in _OF_PODS and name not in known:
            message = f"KEDA refuses a {name} trigger for containers without resources.requests[{name}], which is not set: {_ADVICE}"
            yield warning(here, message)
    of_pods = all(trigger.get("type") in _OF_PODS for trigger in triggers)
    activation = part(scaling, "activation")
    started = activation.get("source") or activation.get("query")
    if triggers and of_pods and scaling.get("minReplicas") == 0 and not started:
        message = "cpu and memory are measured in pods, so they start no first one with minReplicas: 0: write activation.source or activation.query, a trigger of another type, or minReplicas: 1"
        yield error(f"{path}.triggers", message)


def _trigger(trigger: dict[str, typing.Any], where: str) -> Findings:
    """What KEDA requires of every trigger."""
    if not isinstance(trigger.get("type"), str):
        yield error(f"{where}.type", "is missing: write the name of a scaler of KEDA, e.g. cron")
    metadata = trigger.get("metadata")
    if not isinstance(metadata, dict):
        yield error(
            f"{where}.metadata", "is missing: write a mapping with the parameters of the scaler"
        )
        return
    for key, value in metadata.items():
        if not isinstance(value, str):
            yield error(f"{where}.metadata[{key}]", f"is {brief(value)}: write a text, in quotes")
