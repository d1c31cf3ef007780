"""Builds the Ingresses or the Gateway API's routes. HTTP and gRPC are separate, because controllers handle them separately."""

import dataclasses
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.traffic import Gateway, Ingress
from naiad_operator.builders import canary, kinds, names, server
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.traffic import (
    ingress_limits,
    mirror,
    service as services,
    session_affinity,
)

Object = dict[str, typing.Any]


def ingresses(service: InferenceService) -> list[names.Manifest]:
    """The Ingress of HTTP and the Ingress of gRPC; each only when it has a host."""
    wanted = service.spec.ingress
    if wanted is None or not wanted.enabled:
        return []
    made = []
    if wanted.host is not None:
        http = _Host(
            name=service.name,
            host=wanted.host,
            port="http",
            path=service.spec.path_prefix or wanted.path,
            annotations={
                **ingress_limits.annotations(wanted),
                **session_affinity.annotations(wanted, service=service.name),
                **(wanted.annotations or {}),
            },
        )
        made.append(_ingress(service, wanted, http))
    if wanted.grpc_host is not None:
        name = services.grpc_name(service)
        limits = ingress_limits.annotations(wanted, grpc_service=name)
        limits |= session_affinity.annotations(wanted, service=name)
        grpc = _Host(
            name=name,
            host=wanted.grpc_host,
            port="grpc",
            path="/",
            annotations={**limits, **(wanted.grpc_annotations or {})},
        )
        made.append(_ingress(service, wanted, grpc))
    return made


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Host:
    """One host and its backend; `name` is the name of the Ingress and of the Service."""

    name: str
    host: str
    port: str
    path: str
    annotations: dict[str, str]


def _ingress(service: InferenceService, wanted: Ingress, host: _Host) -> names.Manifest:
    target = {"service": {"name": host.name, "port": {"name": host.port}}}
    path = {"path": host.path, "pathType": "Prefix", "backend": target}
    spec: Object = {"rules": [{"host": host.host, "http": {"paths": [path]}}]}
    if wanted.class_name is not None:
        spec["ingressClassName"] = wanted.class_name
    if wanted.tls is not None:
        spec["tls"] = [{"hosts": [host.host], "secretName": wanted.tls.secret_name}]
    made = names.child(
        service,
        kinds.INGRESS.api_version,
        kinds.INGRESS.kind,
        name=host.name,
        own_annotations=host.annotations,
    )
    made["spec"] = spec
    return made


def route_kinds(gateway: Gateway) -> tuple[kinds.Kind, ...]:
    """The wanted kinds of route: HTTP unless only gRPC hosts are given."""
    http = gateway.hostnames is not None or gateway.grpc_hostnames is None
    wanted = ((kinds.HTTP_ROUTE, http), (kinds.GRPC_ROUTE, gateway.grpc_hostnames is not None))
    return tuple(kind for kind, is_wanted in wanted if is_wanted)


def routes(service: InferenceService, facts: ClusterFacts) -> list[names.Manifest]:
    """The HTTPRoute and the GRPCRoute; each only when the API server serves the kind."""
    gateway = service.spec.gateway
    if gateway is None:
        return []
    mirror.check(service)
    made = []
    wanted = [kind for kind in route_kinds(gateway) if kind.key in facts.apis]
    if kinds.HTTP_ROUTE in wanted:
        rule = _http_rule(service, gateway, facts)
        made.append(_route(service, kinds.HTTP_ROUTE, gateway, gateway.hostnames, [rule]))
    if kinds.GRPC_ROUTE in wanted:
        matches = [
            {"method": {"type": "Exact", "service": name}}
            for name in (server.GRPC_SERVICE, server.GRPC_HEALTH_SERVICE)
        ]
        rule = {
            "matches": matches,
            "backendRefs": _references(service, facts, "grpc"),
            **session_affinity.persistence(gateway, facts, kinds.GRPC_ROUTE),
        }
        if copies := mirror.filters(service, facts, kinds.GRPC_ROUTE):
            rule["filters"] = copies
        made.append(_route(service, kinds.GRPC_ROUTE, gateway, gateway.grpc_hostnames, [rule]))
    return made


def _http_rule(service: InferenceService, gateway: Gateway, facts: ClusterFacts) -> Object:
    prefix = service.spec.path_prefix
    match = {"path": {"type": "PathPrefix", "value": prefix or "/"}}
    rule: Object = {"matches": [match], "backendRefs": _references(service, facts, "http")}
    filters = mirror.filters(service, facts, kinds.HTTP_ROUTE)
    if prefix:
        path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
        filters.insert(0, {"type": "URLRewrite", "urlRewrite": {"path": path}})
    if filters:
        rule["filters"] = filters
    if gateway.request_timeout_seconds is not None:
        rule["timeouts"] = {"request": f"{gateway.request_timeout_seconds}s"}
    return {**rule, **session_affinity.persistence(gateway, facts, kinds.HTTP_ROUTE)}


def _references(service: InferenceService, facts: ClusterFacts, port: str) -> list[Object]:
    """The backend references with all defaults written out, so that the API server's defaults do not look like a change."""
    number = getattr(service.spec.predictor.ports, port)
    weights = {service.name: 1}
    if service.spec.canary is not None:
        share = canary.weight(service, facts)
        weights = {service.name: canary.ALL - share, canary.name(service): share}
    return [
        {"group": "", "kind": "Service", "name": name, "port": number, "weight": weight}
        for name, weight in weights.items()
    ]


def _route(
    service: InferenceService,
    kind: kinds.Kind,
    gateway: Gateway,
    hostnames: tuple[str, ...] | None,
    rules: list[Object],
) -> names.Manifest:
    parents = []
    for parent in gateway.parent_refs:
        reference: Object = {
            "group": "gateway.networking.k8s.io",
            "kind": "Gateway",
            "name": parent.name,
        }
        if parent.namespace is not None:
            reference["namespace"] = parent.namespace
        if parent.section_name is not None:
            reference["sectionName"] = parent.section_name
        parents.append(reference)
    made = names.child(service, kind.api_version, kind.kind)
    made["spec"] = {"parentRefs": parents, "rules": rules}
    if hostnames:
        made["spec"]["hostnames"] = list(hostnames)
    return made
