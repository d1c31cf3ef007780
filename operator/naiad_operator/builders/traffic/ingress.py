"""Builds the Ingresses or the Gateway API's routes. HTTP and gRPC are separate, because controllers handle them separately."""

import dataclasses
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.traffic import Gateway, Ingress
from naiad_operator.builders import canary, components, kinds, names, server
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.traffic import (
    front,
    ingress_limits,
    mirror,
    service as services,
    session_affinity,
)

Object = dict[str, typing.Any]


def ingresses(service: InferenceService, facts: ClusterFacts) -> list[names.Manifest]:
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
                **session_affinity.annotations(wanted, service=front.of(service, facts)),
                **(wanted.annotations or {}),
            },
            backend=front.of(service, facts),
        )
        made.append(_ingress(service, wanted, http, front.explained(service, facts)))
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
    """One host and its backend; `name` is the name of the Ingress, and of the Service unless `backend` names another."""

    name: str
    host: str
    port: str
    path: str
    annotations: dict[str, str]
    backend: str = ""


def _ingress(
    service: InferenceService,
    wanted: Ingress,
    host: _Host,
    explained: front.Explained | None = None,
) -> names.Manifest:
    target = {"service": {"name": host.backend or host.name, "port": {"name": host.port}}}
    paths = [{"path": host.path, "pathType": "Prefix", "backend": target}]
    if explained is not None:
        exact = f"{host.path.rstrip('/')}{explained.path}"
        backend = {"service": {"name": explained.service, "port": {"name": "http"}}}
        paths.insert(0, {"path": exact, "pathType": "Exact", "backend": backend})
    spec: Object = {"rules": [{"host": host.host, "http": {"paths": paths}}]}
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
        rules = [*_explain_rules(service, gateway, facts), rule]
        made.append(_route(service, kinds.HTTP_ROUTE, gateway, gateway.hostnames, rules))
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


def _explain_rules(
    service: InferenceService, gateway: Gateway, facts: ClusterFacts
) -> list[Object]:
    """The rule for the paths of the explainer; none without one."""
    explained = front.explained(service, facts)
    if explained is None:
        return []
    prefix = service.spec.path_prefix or ""
    rule: Object = {
        "matches": [{"path": {"type": "Exact", "value": f"{prefix}{explained.path}"}}],
        "backendRefs": [_reference(explained.service, explained.port, 1)],
    }
    if prefix:
        path = {"type": "ReplaceFullPath", "replaceFullPath": explained.path}
        rule["filters"] = [{"type": "URLRewrite", "urlRewrite": {"path": path}}]
    if gateway.request_timeout_seconds is not None:
        rule["timeouts"] = {"request": f"{gateway.request_timeout_seconds}s"}
    return [rule]


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
    name, beside = service.name, canary.name(service)
    if port == "http" and (transformer := front.transformer(service, facts)) is not None:
        name, number = transformer.service, transformer.port
        beside = components.name(service, components.CANARY_TRANSFORMER)
    weights = {name: 1}
    if service.spec.canary is not None:
        share = front.canary_weight(service, facts)
        weights = {name: canary.ALL - share, beside: share}
    return [_reference(name, number, weight) for name, weight in weights.items()]


def _reference(name: str, port: int, weight: int) -> Object:
    return {"group": "", "kind": "Service", "name": name, "port": port, "weight": weight}


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
