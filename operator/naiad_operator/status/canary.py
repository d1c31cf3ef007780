"""Divides what was observed between the main pods of a service, its canary, its transformers and its explainer."""

import collections.abc
import dataclasses
import datetime as dt

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import canary, components, names
from naiad_operator.status import autoscaling, scheduling, workload
from naiad_operator.status.observed import NOT_REPORTED, Manifest, Observed


def divided(service: InferenceService, observed: Observed) -> tuple[Observed, Observed]:
    """What belongs to the main pods, and what belongs to the canary.

    Pods of a canary that was removed from the spec are still the canary's: what they do does not count for the service.
    """
    main = _part(service, observed, "")
    beside = _part(service, observed, names.CANARY)
    facts = canary.facts_of(service, observed.facts)
    return main, dataclasses.replace(beside, models=observed.canary_models, facts=facts)


def of_component(service: InferenceService, observed: Observed, component: str) -> Observed:
    """What belongs to the transformer or the explainer; its pods report no models."""
    part = _part(service, observed, component)
    made = components.service_of(service, component)
    facts = observed.facts if made is None else components.facts_of(made, observed.facts)
    return dataclasses.replace(
        part, models=NOT_REPORTED, canary_models=NOT_REPORTED, facts=facts, upgrade=None
    )


def _part(service: InferenceService, observed: Observed, of: str) -> Observed:
    """The pods and problems of the one or the other."""
    return dataclasses.replace(
        observed,
        pods=[pod for pod in observed.pods if _part_of_pod(pod) == of],
        conflicts=[it for it in observed.conflicts if _part_named(service, it.name) == of],
        errors=[it for it in observed.errors if _part_named(service, it.name) == of],
        terminating=[it for it in observed.terminating if _part_named(service, it[1]) == of],
        unwatched={
            child: why
            for child, why in observed.unwatched.items()
            if _part_named(service, child[1]) == of
        },
    )


_PARTS = (names.CANARY, *components.NAMES)


def _part_of_pod(pod: Manifest) -> str:
    """Whose pod it is: "" for the service's own."""
    component = (pod["metadata"].get("labels") or {}).get(names.COMPONENT_LABEL)
    return component if component in _PARTS else ""


def is_canary(pod: Manifest) -> bool:
    """Whether a pod is one of a canary."""
    return _part_of_pod(pod) == names.CANARY


def without_node(pods: collections.abc.Iterable[Manifest]) -> list[str]:
    """The names of the newest pod without a node, of the service and of its canary."""
    pods = list(pods)
    parts = [[pod for pod in pods if _part_of_pod(pod) == of] for of in ("", *_PARTS)]
    return [name for part in parts if (name := scheduling.without_node(part))]


def _part_named(service: InferenceService, name: str) -> str:
    """Whose child has this name: "" for the service's own."""
    named = (one for one in components.NAMES if name == components.name(service, one))
    if (component := next(named, None)) is not None:
        return component
    if name == canary.name(service) or name.startswith(f"{canary.name(service)}-"):
        return names.CANARY
    return ""


def next_change(
    service: InferenceService, observed: Observed, now: dt.datetime
) -> dt.datetime | None:
    """When the passing of time alone changes the status of a service or of its canary; None if it does not."""
    parts = [
        *zip((service, canary.service_of(service)), divided(service, observed), strict=True),
        *(
            (one, of_component(service, observed, one.component))
            for one in components.services_of(service)
        ),
    ]
    times = (
        change(part, seen, now)
        for part, seen in parts
        if part is not None
        for change in (workload.next_change, autoscaling.next_change)
    )
    return min((time for time in times if time is not None), default=None)
