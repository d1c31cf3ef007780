"""All children of a service. Pure: the same spec and facts give the same manifests."""

from naiad_operator.api.service import InferenceService
from naiad_operator.builders import accelerator, deployment, names, service as services
from naiad_operator.builders.facts import ClusterFacts


def build(service: InferenceService, facts: ClusterFacts) -> list[names.Manifest]:
    """Every child that should exist, whole, in the order in which to apply them.

    An optional kind that the API server lacks is left out; the status says so.

    Raises:
        InvalidSpec: when this cluster cannot carry the spec out at all; the children that exist stay as they are.
    """
    template = accelerator.claim_template(service, facts)
    return [
        *([template] if template else []),
        deployment.deployment(service, facts),
        *services.services(service),
    ]
