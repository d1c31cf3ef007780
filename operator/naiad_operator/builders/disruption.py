"""The PodDisruptionBudget: a drain of nodes takes pods one by one. Never minAvailable, which can block a drain for ever."""

from naiad_operator.api.service import InferenceService
from naiad_operator.builders import deployment, kinds, names
from naiad_operator.builders.facts import ClusterFacts


def budget(service: InferenceService, facts: ClusterFacts) -> names.Manifest | None:
    """The budget; None when there is never more than one pod, which a budget could not spread out."""
    if deployment.most_replicas(service, facts) <= 1:
        return None
    made = names.child(service, kinds.PDB.api_version, kinds.PDB.kind)
    made["spec"] = {
        "maxUnavailable": service.spec.predictor.pod_disruption_budget.max_unavailable,
        "selector": {"matchLabels": names.selector(service)},
        # A pod that is not ready helps nobody; it must not keep a node from being drained.
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return made
