"""Builds the PodDisruptionBudget, so that a node drain evicts pods one by one. It never uses minAvailable, which can block a drain for ever."""

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import kinds, names
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.workload import deployment


def budget(service: InferenceService, facts: ClusterFacts) -> names.Manifest | None:
    """The PodDisruptionBudget; None when there is never more than one pod."""
    if deployment.max_replicas(service, facts) <= 1:
        return None
    manifest = names.child(service, kinds.PDB.api_version, kinds.PDB.kind)
    manifest["spec"] = {
        "maxUnavailable": service.spec.predictor.pod_disruption_budget.max_unavailable,
        "selector": {"matchLabels": names.selector(service)},
        # A pod that is not ready serves no request and must not block a node drain.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return manifest
