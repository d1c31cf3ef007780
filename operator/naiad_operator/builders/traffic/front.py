"""Which Service the HTTP requests from outside go to: the transformer's, the explainer's, or the servers' own; and which share the canary gets. gRPC goes to the servers."""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import components
from naiad_operator.builders.facts import CanaryFacts, ClusterFacts


class Front(typing.NamedTuple):
    """The Service of a component and its port."""

    service: str
    port: int


class Explained(typing.NamedTuple):
    """The Service of an explainer, its port, and the path that it answers."""

    service: str
    port: int
    path: str


def transformer(service: InferenceService, facts: ClusterFacts) -> Front | None:
    """The transformer, if requests go to it now."""
    wanted = service.spec.transformer
    if wanted is None or not components.leads(service, components.TRANSFORMER, facts):
        return None
    return Front(components.name(service, components.TRANSFORMER), wanted.port)


def of(service: InferenceService, facts: ClusterFacts) -> str:
    """The name of the Service that HTTP requests go to."""
    found = transformer(service, facts)
    return service.name if found is None else found.service


def explained(service: InferenceService, facts: ClusterFacts) -> Explained | None:
    """The explainer with the path of its model, if requests go to it now."""
    wanted = service.spec.explainer
    if wanted is None or not components.leads(service, components.EXPLAINER, facts):
        return None
    path = f"/v1/models/{wanted.model_name or service.name}:explain"
    return Explained(components.name(service, components.EXPLAINER), wanted.port, path)


def canary_weight(service: InferenceService, facts: ClusterFacts) -> int:
    """How many of a hundred requests the routes give to the canary now: none while it could not answer them."""
    wanted = service.spec.canary
    if wanted is None or not facts.canary.serves:
        return 0
    in_front = facts.components.get(components.CANARY_TRANSFORMER, CanaryFacts())
    is_led = components.leads(service, components.TRANSFORMER, facts)
    return wanted.weight if in_front.serves or not is_led else 0
