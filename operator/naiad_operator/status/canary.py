"""Divides what was observed between the main pods of a service and its canary."""

import collections.abc
import dataclasses
import datetime as dt

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import canary, names
from naiad_operator.status import autoscaling, scheduling, workload
from naiad_operator.status.observed import Manifest, Observed


def divided(service: InferenceService, observed: Observed) -> tuple[Observed, Observed]:
    """What belongs to the main pods, and what belongs to the canary.

    Pods of a canary that was removed from the spec are still the canary's: what they do does not count for the service.
    """
    main = _part(service, observed, of_canary=False)
    beside = _part(service, observed, of_canary=True)
    facts = canary.facts_of(service, observed.facts)
    return main, dataclasses.replace(beside, models=observed.canary_models, facts=facts)


def _part(service: InferenceService, observed: Observed, *, of_canary: bool) -> Observed:
    """The pods and problems of the one or the other."""
    return dataclasses.replace(
        observed,
        pods=[pod for pod in observed.pods if is_canary(pod) is of_canary],
        conflicts=[it for it in observed.conflicts if _named(service, it.name) is of_canary],
        errors=[it for it in observed.errors if _named(service, it.name) is of_canary],
        terminating=[it for it in observed.terminating if _named(service, it[1]) is of_canary],
        unwatched={
            child: why
            for child, why in observed.unwatched.items()
            if _named(service, child[1]) is of_canary
        },
    )


def is_canary(pod: Manifest) -> bool:
    """Whether a pod is one of a canary."""
    labels = pod["metadata"].get("labels") or {}
    return labels.get(names.COMPONENT_LABEL) == names.CANARY


def without_node(pods: collections.abc.Iterable[Manifest]) -> list[str]:
    """The names of the newest pod without a node, of the service and of its canary."""
    pods = list(pods)
    parts = [[pod for pod in pods if is_canary(pod) is of_canary] for of_canary in (False, True)]
    return [name for part in parts if (name := scheduling.without_node(part))]


def _named(service: InferenceService, name: str) -> bool:
    """Whether a child of this name is one of the canary's."""
    return name == canary.name(service) or name.startswith(f"{canary.name(service)}-")


def next_change(
    service: InferenceService, observed: Observed, now: dt.datetime
) -> dt.datetime | None:
    """When the passing of time alone changes the status of a service or of its canary; None if it does not."""
    parts = zip((service, canary.service_of(service)), divided(service, observed), strict=True)
    times = (
        change(part, seen, now)
        for part, seen in parts
        if part is not None
        for change in (workload.next_change, autoscaling.next_change)
    )
    return min((time for time in times if time is not None), default=None)
