"""Builds the Deployment: the number of pods, and how they are replaced."""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.scaling import DeploymentStrategy
from naiad_operator.builders import kinds, names
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.workload import accelerator, fetching, pod, storage

SCALERS = ("hpa", "keda")
_KEPT_REVISIONS = 3
_SHARED_MODES = frozenset(("ReadWriteMany", "ReadOnlyMany"))
"""The access modes of claims that pods on several nodes can mount at once. One node at a time is assumed of a claim that is unknown."""
_ONE_LOAD = 600
"""Seconds without progress until a rollout counts as stuck, in addition to the time that the startup probe allows."""
_ONE_FETCH = 3600
"""The additional seconds for init containers that fetch models, which no probe watches."""


def deployment(service: InferenceService, facts: ClusterFacts) -> names.Manifest:
    """The Deployment of a service."""
    predictor = service.spec.predictor
    progress_deadline = predictor.probes.startup.seconds() + _ONE_LOAD
    if fetching.is_wanted(service):
        progress_deadline += _ONE_FETCH
    spec: dict[str, typing.Any] = {
        "selector": {"matchLabels": names.selector(service)},
        "strategy": _strategy(service, facts),
        "revisionHistoryLimit": _KEPT_REVISIONS,
        "progressDeadlineSeconds": progress_deadline,
        "template": pod.template(service, facts),
    }
    wanted = replicas(service, facts)
    if wanted is not None:
        spec["replicas"] = wanted
    manifest = names.child(service, kinds.DEPLOYMENT.api_version, kinds.DEPLOYMENT.kind)
    manifest["spec"] = spec
    return manifest


def is_autoscaled(service: InferenceService) -> bool:
    """Whether an autoscaler that the operator created decides the number of pods."""
    scaling = service.spec.predictor.autoscaling
    return scaling is not None and scaling.scaler in SCALERS and not service.spec.suspend


def replicas(service: InferenceService, facts: ClusterFacts) -> int | None:
    """The wanted number of pods; None when an autoscaler decides it.

    Without `replicas` in the spec, the number stays as it was when the autoscaler was removed, so that no pod is lost. From then on it
    is recorded on the Deployment, so that a manual change of it is corrected.
    """
    predictor = service.spec.predictor
    if service.spec.suspend:
        return 0
    now = facts.current_replicas
    if is_autoscaled(service):
        assert predictor.autoscaling is not None
        # An HPA does not scale a Deployment at 0, so after a suspension the operator sets the first pods. KEDA does scale it: a 0
        # that the operator did not write is KEDA's own, e.g. of a paused ScaledObject.
        least = predictor.autoscaling.effective_min_replicas
        ours = facts.replicas_are_ours or predictor.autoscaling.scaler == "hpa"
        return least if now == 0 and least > 0 and ours else None
    if predictor.replicas is not None:
        return predictor.replicas
    return facts.kept_replicas or now or 1


def kept_replicas(service: InferenceService, facts: ClusterFacts) -> int | None:
    """The number of pods to keep; None when the spec or an autoscaler decides it, so that removing it keeps the number at that moment."""
    if service.spec.predictor.replicas is not None or is_autoscaled(service):
        return None
    return facts.kept_replicas if service.spec.suspend else replicas(service, facts)


def max_replicas(service: InferenceService, facts: ClusterFacts) -> int:
    """The highest possible number of pods."""
    if is_autoscaled(service):
        assert service.spec.predictor.autoscaling is not None
        return service.spec.predictor.autoscaling.effective_max_replicas
    return replicas(service, facts) or 0


def _strategy(service: InferenceService, facts: ClusterFacts) -> dict[str, typing.Any]:
    """The rollout strategy.

    When pods need devices, nodes or volumes of their own, an old pod ends before a new one starts, which would wait for ever.
    """
    predictor = service.spec.predictor
    wanted = predictor.deployment_strategy or DeploymentStrategy()
    if wanted.type == "Recreate":
        return {"type": "Recreate"}
    scarce = (
        accelerator.device_request(service).is_device
        or predictor.placement == "onePerNode"
        or not all(_SHARED_MODES & _modes(name, facts) for name in storage.claim_names(service))
    )
    surge, unavailable = wanted.max_surge, wanted.max_unavailable
    if surge is None:
        surge = 1 if _is_zero(unavailable) or (not scarce and unavailable is None) else 0
    if unavailable is None:
        unavailable = 1 if _is_zero(surge) else 0
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


def _modes(claim: str, facts: ClusterFacts) -> frozenset[str]:
    return facts.claim_modes.get(claim, frozenset())


def _is_zero(amount: int | str | None) -> bool:
    return amount in (0, "0%")
