"""Computes the whole status. Ready summarises the other conditions and takes its reason and message from the first that fails."""

import collections.abc
import dataclasses
import datetime as dt
import typing

from naiad_operator.api.parsing.service import InferenceService, status_of
from naiad_operator.builders import canary as canaries, names
from naiad_operator.builders.traffic import front
from naiad_operator.builders.workload import accelerator, deployment, image
from naiad_operator.errors import Problem
from naiad_operator.status import autoscaling, canary, components, models, traffic, workload
from naiad_operator.status.conditions import (
    AUTOSCALING_READY,
    AVAILABLE,
    CANARY_MODELS_LOADED,
    CANARY_READY,
    MODELS_LOADED,
    MONITORING_READY,
    NETWORK_READY,
    PROGRESSING,
    READY,
    SPEC_VALID,
    STALLED,
    STOPPED,
    UPGRADED,
    Condition,
    Manifest,
    condition_of,
    dated,
    shortened,
    stalled,
)
from naiad_operator.status.observed import Observed
from naiad_operator.status.reasons import Reason
from naiad_operator.status.upgrade import upgraded

Status = dict[str, typing.Any]

_ELSEWHERE = frozenset(
    (
        "Service", "Ingress", "HTTPRoute", "GRPCRoute", "NetworkPolicy", "HorizontalPodAutoscaler", "ScaledObject", "PodMonitor",
        "ServiceMonitor",
    )
)  # fmt: skip
"""Kinds whose refusal has its own condition; a refusal of another kind blocks the pods."""
_IN_THE_WAY = frozenset(("ApplyFailed", "ResourceConflict", "BeingDeleted"))
_NOTHING_SERVES = frozenset(("RepositoryEmpty", "NoModelReady"))
"""Reasons of ModelsLoaded with which ready pods serve no model. With any other one, they serve the rest."""
_FAILED_LOAD = _NOTHING_SERVES | {"ModelFailed", "ModelNotFound"}


def compute(service: InferenceService, observed: Observed, now: str) -> Status:
    """The status of a resource with a valid spec.

    Args:
        service: the resource, with its current status.
        observed: the observed objects.
        now: the time as Kubernetes writes it, e.g. 2026-01-31T12:00:00Z.
    """
    at = dt.datetime.fromisoformat(now)
    whole = observed
    others = components.of(service, observed, at)
    before_canary = components.of_canary(service, observed, at)
    observed, of_canary = canary.divided(service, observed)
    pods, conditions = _conditions(service, observed, at)
    conditions[0] = _with_components(conditions[0], others.conditions)
    canary_conditions, canary_status = _canary(service, of_canary, at, before_canary)
    model_status = _model_status(service, pods, _of_type(conditions, MODELS_LOADED))
    if observed.upgrade is not None:
        blocked = _blocked(conditions, model_status)
        if observed.upgrade.is_canary:
            blocked = _blocked_canary(service, of_canary, at)
        if observed.upgrade.component:
            blocked = others.blocked.get(observed.upgrade.component, "")
        before = condition_of(service.status, UPGRADED)
        conditions.append(upgraded(observed.upgrade, blocked, before))
    url, grpc_url = traffic.urls(service, whole)
    internal, internal_grpc = traffic.internal_urls(service, whole)
    return {
        "observedGeneration": service.generation,
        "conditions": dated(
            [
                *conditions,
                *canary_conditions,
                *others.conditions,
                stalled(_of_type(conditions, READY)),
            ],
            before=service.status,
            generation=service.generation,
            now=now,
        ),
        "url": url,
        "grpcUrl": grpc_url,
        "address": {"url": internal, "grpcUrl": internal_grpc},
        **_numbers(pods),
        "selector": ",".join(f"{k}={v}" for k, v in sorted(names.selector(service).items())),
        "accelerator": _accelerator(service),
        **({"profile": service.profile.name} if service.profile and service.profile.name else {}),
        "image": {
            "name": observed.facts.image,
            "forPods": image.pods_hash(service),
            "serverVersion": str(observed.facts.server_version),
        },
        "modelStatus": model_status,
        **_kept(service, observed),
        **models.listed(observed, service.status),
        **canary_status,
        **others.status,
    }


def _with_components(ready: Condition, others: collections.abc.Iterable[Condition]) -> Condition:
    """Ready with the first component that is not: only a service whose own pods are ready speaks of them."""
    failing = next((one for one in others if one.status != "True"), None)
    if ready.status != "True" or failing is None:
        return ready
    part = (
        "transformer"
        if failing.type == CANARY_READY
        else failing.type.removesuffix("Ready").lower()
    )
    return Condition(READY, failing.status, failing.reason, f"{part}: {failing.message}")


def _bound(service: InferenceService) -> str:
    """Which profile binds the namespace of a service; "" when none does."""
    profile = service.profile
    if profile is None or profile.spec.policy is None:
        return ""
    other = service.own_spec.profile
    instead = f", so that spec.profile {other} has no effect" if other not in {None, profile.name} else ""  # fmt: skip
    return f"the {profile.title} binds this namespace{instead}"


def _numbers(pods: workload.Workload) -> Status:
    return {
        "replicas": pods.total,
        "readyReplicas": pods.ready,
        "updatedReplicas": pods.updated,
        "availableReplicas": pods.available,
    }


def _canary(
    service: InferenceService,
    observed: Observed,
    now: dt.datetime,
    transformer: Condition | None,
) -> tuple[list[Condition], Status]:
    """The conditions and the status of the canary, from what belongs to it; empty when the spec has none. They do not count for Ready."""
    beside = canaries.service_of(service)
    if beside is None:
        return [], {}
    pods, conditions = _conditions(beside, observed, now)
    ready, loaded = _of_type(conditions, READY), _of_type(conditions, MODELS_LOADED)
    if transformer is not None:
        ready = _with_components(ready, [transformer])
    weight = front.canary_weight(service, observed.facts)
    message = ready.message or f"the canary gets {weight} of 100 requests"
    made = [
        Condition(CANARY_READY, ready.status, ready.reason, message),
        Condition(CANARY_MODELS_LOADED, loaded.status, loaded.reason, loaded.message),
    ]
    status = {
        "weight": weight,
        "image": observed.facts.image,
        **_numbers(pods),
        **models.listed(observed, service.status.get("canary") or {}),
    }
    return made, {"canary": status}


def _conditions(
    service: InferenceService, observed: Observed, now: dt.datetime
) -> tuple[workload.Workload, list[Condition]]:
    """The pods, and every condition about them; Ready first."""
    pods = workload.observe(service, observed, now)
    stopped = workload.stopped(service, pods)
    available = workload.available(pods)
    progressing = workload.progressing(service, pods)
    refused = traffic.refused(observed, lambda kind: kind not in _ELSEWHERE)
    if refused:
        reason, message = refused
        if reason == "ApplyFailed" and service.profile is not None:
            message += f" (with the fields of the {service.profile.title})"
        progressing = Condition(progressing.type, "False", reason, message)
    unseen = traffic.unwatched(observed, lambda kind: kind not in _ELSEWHERE)
    if unseen:
        progressing = Condition(progressing.type, *unseen)
    loaded = models.loaded(service, observed, pods.newest)
    if observed.models.is_awaited:
        loaded = _loaded_before(service) or loaded
    parts = [
        Condition(SPEC_VALID, "True", "Valid", _bound(service)),
        available,
        progressing,
        loaded,
        traffic.network(service, observed),
        autoscaling.ready(service, observed, now),
        traffic.monitoring(service, observed),
        stopped,
    ]
    return pods, [_ready(service, pods, parts), *parts]


def _loaded_before(service: InferenceService) -> Condition | None:
    """ModelsLoaded as the status has it, of a canary if the service is one."""
    type_ = CANARY_MODELS_LOADED if service.canary_of else MODELS_LOADED
    before = condition_of(service.status, type_)
    return before and dataclasses.replace(before, type=MODELS_LOADED)


def _blocked(conditions: list[Condition], model_status: Status) -> str:
    """Why the pods do not become ready, in words; "" while they may."""
    ready, progressing = _of_type(conditions, READY), _of_type(conditions, PROGRESSING)
    stands = progressing.fails and progressing.reason != "Complete"
    if ready.fails and (stands or model_status["transitionStatus"] == "BlockedByFailedLoad"):
        return f"{ready.reason}: {ready.message}"
    return ""


def _blocked_canary(service: InferenceService, observed: Observed, now: dt.datetime) -> str:
    """Why the canary's pods do not become ready, in words; "" while they may, and without a canary."""
    beside = canaries.service_of(service)
    if beside is None:
        return ""
    pods, conditions = _conditions(beside, observed, now)
    loaded = _of_type(conditions, MODELS_LOADED)
    return _blocked(conditions, _model_status(beside, pods, loaded))


def _of_type(conditions: list[Condition], type_: str) -> Condition:
    return next(condition for condition in conditions if condition.type == type_)


def _ready(service: InferenceService, pods: workload.Workload, parts: list[Condition]) -> Condition:
    """The Ready condition, from the first condition that fails; a failing model takes precedence over the unready pods that it causes."""
    by_type = {part.type: part for part in parts}
    stopped = by_type[STOPPED]
    progressing, available = by_type[PROGRESSING], by_type[AVAILABLE]
    if stopped.status == "True":
        return Condition(READY, "False", stopped.reason, stopped.message)
    loaded = by_type[MODELS_LOADED]
    complete = workload.is_complete(service, pods)
    if not complete or available.fails or progressing.reason in _IN_THE_WAY:
        speaks = progressing
        if pods.failure is None and loaded.fails:
            speaks = loaded
        return Condition(READY, "False", speaks.reason, speaks.message or available.message)
    if loaded.reason in _NOTHING_SERVES:
        return Condition(READY, "False", loaded.reason, loaded.message)
    for part in (by_type[NETWORK_READY], by_type[AUTOSCALING_READY], by_type[MONITORING_READY]):
        if part.fails:
            return Condition(READY, "False", part.reason, part.message)
    return Condition(READY, "True", "Ready", "")


def _accelerator(service: InferenceService) -> Status:
    wanted = service.spec.predictor.accelerator
    name = accelerator.resource_name(wanted)
    if wanted.type == "none":
        return {"resourceName": "none", "strategy": wanted.strategy, "count": 0}
    if not name:
        name = accelerator.device_class(wanted)
    return {"resourceName": name, "strategy": wanted.strategy, "count": wanted.count}


def _model_status(service: InferenceService, pods: workload.Workload, loaded: Condition) -> Status:
    failed_load = loaded.reason in _FAILED_LOAD
    if workload.is_complete(service, pods) and not failed_load:
        transition = "UpToDate"
    elif pods.failure is not None or failed_load:
        transition = "BlockedByFailedLoad"
    else:
        transition = "InProgress"
    status: Status = {
        "transitionStatus": transition,
        "copies": {"totalCopies": pods.total, "failedCopies": pods.failed},
    }
    failure = pods.failure
    if failure is not None:
        info = {
            "reason": failure.reason,
            "message": shortened(failure.message),
            "pod": failure.pod or None,
            "exitCode": failure.exit_code,
            "time": failure.time,
        }
        status["lastFailureInfo"] = {k: v for k, v in info.items() if v is not None}
    elif failed_load:
        status["lastFailureInfo"] = {"reason": loaded.reason, "message": shortened(loaded.message)}
    return status


def _kept(service: InferenceService, observed: Observed) -> Status:
    kept = deployment.kept_replicas(service, observed.facts)
    return {} if kept is None else {"keptReplicas": kept}


def compute_invalid(
    manifest: Manifest,
    problems: collections.abc.Sequence[Problem],
    now: str,
    *,
    reason: Reason = "InvalidSpec",
) -> Status:
    """The status of a resource with an invalid spec: the errors, and everything else as before, because its children continue to run."""
    message = "; ".join(str(problem) for problem in problems)
    new = [
        Condition(READY, "False", reason, message),
        Condition(SPEC_VALID, "False", reason, message),
    ]
    return {
        **_as_before(manifest, new, now),
        "observedGeneration": _generation(manifest),
        "modelStatus": {"transitionStatus": "InvalidSpec"},
    }


def compute_bug(manifest: Manifest, message: str, now: str) -> Status:
    """The status of a resource whose reconcile ends with a bug of the operator: Ready says so, and everything else is as before.

    `observedGeneration` too: what this generation says may not be applied.
    """
    before = _as_before(manifest, [Condition(READY, "False", "OperatorError", message)], now)
    return {"observedGeneration": 0, **before}


def _as_before(manifest: Manifest, new: collections.abc.Sequence[Condition], now: str) -> Status:
    """The current status with some new conditions."""
    before = status_of(manifest)
    new = [
        *new,
        *(stalled(condition) for condition in new if condition.type == READY),
    ]
    types = {STALLED, *(condition.type for condition in new)}
    kept = [dict(old) for old in before.get("conditions") or () if old["type"] not in types]
    conditions = dated(new, before=before, generation=_generation(manifest), now=now)
    return {**before, "conditions": [*conditions, *kept]}


def _generation(manifest: Manifest) -> int:
    generation: int = manifest["metadata"].get("generation") or 0
    return generation
