"""Builds the filter of a route that sends copies of requests to another Service, whose responses the Gateway drops."""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import canary, components, kinds
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.traffic import front
from naiad_operator.errors import InvalidSpec, Problem

Object = dict[str, typing.Any]

_ALL = 100


def check(service: InferenceService) -> None:
    """Refuses a mirror that is the service itself, or a component of it.

    Raises:
        InvalidSpec: it is.
    """
    wanted = service.spec.mirror
    if wanted is None:
        return
    own = {one.name: f"the {one.component} of this service" for one in components.services_of(service)}  # fmt: skip
    own[service.name] = "this service itself"
    if wanted.service in own:
        message = f"is {own[wanted.service]}: name another one of its namespace, or leave service out for the canary"
        raise InvalidSpec([Problem("spec.mirror.service", message)])


def filters(service: InferenceService, facts: ClusterFacts, kind: kinds.Kind) -> list[Object]:
    """The filters of a route's rule; none for a share that its kind cannot have here, since all requests would be copied then."""
    wanted = service.spec.mirror
    if wanted is None or not is_possible(service, facts, kind):
        return []
    protocol = "http" if kind == kinds.HTTP_ROUTE else "grpc"
    name = wanted.service or canary.name(service)
    port = getattr(service.spec.predictor.ports, protocol)
    if kind == kinds.HTTP_ROUTE and (leads := front.transformer(service, facts)) is not None:
        # What a transformer takes, the servers behind the other one would misread.
        name, port = f"{name}-{components.TRANSFORMER}", leads.port
    reference = {"group": "", "kind": "Service", "name": name, "port": port}
    mirrored: Object = {"backendRef": reference}
    if wanted.percent is not None and wanted.percent != _ALL:
        mirrored["percent"] = wanted.percent
    return [{"type": "RequestMirror", "requestMirror": mirrored}]


def is_possible(service: InferenceService, facts: ClusterFacts, kind: kinds.Kind) -> bool:
    """Whether a kind of route can have what the service says of the mirror."""
    wanted = service.spec.mirror
    needs_share = wanted is not None and wanted.percent not in (None, _ALL)
    return not needs_share or kinds.mirror_percent(kind) in facts.apis


def without_effect(service: InferenceService, facts: ClusterFacts, wanted: tuple[kinds.Kind, ...]) -> str:  # fmt: skip
    """Why some requests are not mirrored; "" when all are as the spec says."""
    lacking = [
        kind.kind for kind in wanted if kind.key in facts.apis and not is_possible(service, facts, kind)
    ]  # fmt: skip
    if not lacking:
        return ""
    return (
        f"mirror has no effect: {' and '.join(lacking)} of this cluster cannot mirror a share of the requests, so none are mirrored: install the Gateway API "
        "1.3 or newer, or leave mirror.percent out to mirror all"
    )
