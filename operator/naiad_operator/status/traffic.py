"""The URLs of a service, and the NetworkReady and MonitoringReady conditions."""

import collections.abc
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.traffic import Gateway
from naiad_operator.builders import components, kinds
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.traffic import (
    ingress,
    ingress_limits,
    mirror,
    session_affinity,
)
from naiad_operator.status.conditions import (
    MONITORING_READY,
    NETWORK_READY,
    Condition,
    State,
    condition_of,
)
from naiad_operator.status.observed import Observed
from naiad_operator.status.reasons import Reason

Manifest = collections.abc.Mapping[str, typing.Any]

_ROUTES = (kinds.HTTP_ROUTE.kind, kinds.GRPC_ROUTE.kind)
_LONGEST_HOST = 253
_MONITORS = (kinds.POD_MONITOR.kind, kinds.SERVICE_MONITOR.kind)


def is_taken(observed: Observed, name: str) -> bool:
    """Whether another owner has the Service of this name."""
    return any(("Service", name) == (it.kind, it.name) for it in observed.conflicts)


def internal_urls(service: InferenceService, observed: Observed) -> tuple[str, str]:
    """The HTTP and gRPC addresses inside the cluster: of a service with a transformer, HTTP is the transformer's, unless another owner has its name.

    Both are "" while another owner has the Service of the servers: a transformer does not run then.
    """
    if is_taken(observed, service.name):
        return "", ""
    domain = f"{service.namespace}.svc"
    ports = service.spec.predictor.ports
    http = f"{service.name}.{domain}:{ports.http}"
    name = components.name(service, components.TRANSFORMER)
    if service.spec.transformer is not None and not is_taken(observed, name):
        http = f"{name}.{domain}:{service.spec.transformer.port}"
    return f"http://{http}", f"{service.name}.{domain}:{ports.grpc}"


def urls(service: InferenceService, observed: Observed) -> tuple[str, str]:
    """The HTTP and gRPC addresses for clients: a host or the load balancer outside the cluster, else the address inside.

    Both are "" while another owner has the Service of the servers: no Ingress and no route leads to it.
    """
    url, grpc_url = internal_urls(service, observed)
    if is_taken(observed, service.name):
        return url, grpc_url
    entry, gateway = service.spec.ingress, service.spec.gateway
    prefix = service.spec.path_prefix or ""
    main = observed.children.get(("Service", service.name)) or {}
    balancer = _address(main) if service.spec.service.type == "LoadBalancer" else ""
    if balancer:
        ports = service.spec.predictor.ports
        served = prefix if gateway is None else ""
        url, grpc_url = f"http://{balancer}:{ports.http}{served}", f"{balancer}:{ports.grpc}"
    if entry is not None and entry.enabled:
        tls = entry.tls is not None
        if _is_one(entry.host):
            url = f"{_scheme(tls=tls)}://{entry.host}{prefix or entry.path.rstrip('/')}"
        if _is_one(entry.grpc_host):
            grpc_url = f"{entry.grpc_host}:{_port(tls=tls)}"
    elif gateway is not None:
        for host in filter(_is_one, reversed(gateway.hostnames or ())):
            url = f"{_scheme(tls=gateway.tls)}://{host}{prefix}"
        for host in filter(_is_one, reversed(gateway.grpc_hostnames or ())):
            grpc_url = f"{host}:{_port(tls=gateway.tls)}"
    return url, grpc_url


def _is_one(host: str | None) -> bool:
    """Whether clients can use this host; *.example.com is a wildcard."""
    return host is not None and not host.startswith("*")


def _scheme(*, tls: bool) -> str:
    return "https" if tls else "http"


def _port(*, tls: bool) -> int:
    return 443 if tls else 80


def network(service: InferenceService, observed: Observed) -> Condition:
    """The condition that says whether Services, Ingresses and routes exist and are accepted."""
    refused = _refused(observed, ("Service", "Ingress", "HTTPRoute", "GRPCRoute", "NetworkPolicy"))
    if refused:
        return Condition(NETWORK_READY, "False", *refused)
    unseen = unwatched(observed, lambda kind: kind in _ROUTES)
    if unseen:
        return Condition(NETWORK_READY, *unseen)
    main = observed.children.get(("Service", service.name))
    if main is None:
        return Condition(NETWORK_READY, "Unknown", "Pending", "the Service is being created")
    if service.spec.service.type == "LoadBalancer" and not _address(main):
        message = f"Service {service.name} waits for an address from the cluster's load balancer"
        return Condition(NETWORK_READY, "False", "NoAddress", message)
    if service.spec.gateway is not None:
        routes = _routes(service, observed, service.spec.gateway)
        if routes.fails:
            return routes
    return _applied(service, observed)


Hint = tuple[Reason, str]
"""The reason and the message of something that the operator cannot see to the end: everything is applied, and clients may yet fail."""


def _applied(service: InferenceService, observed: Observed) -> Condition:
    """The condition of a service whose objects are all there, with what clients may yet meet."""
    before = condition_of(service.status, NETWORK_READY)
    if observed.shared_hosts is None and before is not None and before.reason == "HostShared":
        return before
    shared: list[Hint] = [("HostShared", text) for text in observed.shared_hosts or ()]
    hints = [
        hint
        for hint in (
            *shared,
            *_policy_hints(service, observed),
            *_limit_hints(service),
            *_persistence_hints(service, observed),
            *_mirror_hints(service, observed),
        )
        if hint[1]
    ]
    reason = hints[0][0] if hints else "Applied"
    return Condition(NETWORK_READY, "True", reason, "; ".join(text for _, text in hints))


def _policy_hints(service: InferenceService, observed: Observed) -> collections.abc.Iterator[Hint]:
    """Clients that the NetworkPolicy does not allow, as far as the spec tells."""
    policy = service.spec.network_policy
    if policy is None or not policy.enabled or policy.allow_external:
        return
    kind = service.spec.service.type
    if kind != "ClusterIP" and not any("ipBlock" in peer for peer in policy.ingress_from or ()):
        message = (
            f"networkPolicy allows no address outside the cluster, so clients of the {kind} Service are blocked: set "
            "spec.networkPolicy.allowExternal: true, or write an ipBlock into spec.networkPolicy.ingressFrom"
        )
        yield "ExternalClientsBlocked", message
    # The ingress controller may run in the service's own namespace.
    if _has_entry(service) and not (
        policy.ingress_from or observed.facts.defaults.ingress_namespace
    ):
        message = (
            "networkPolicy allows no other namespace, because the operator was installed without the ingress controller's: if it runs in another one, "
            "set ingressNamespace in the chart's values, or name it in spec.networkPolicy.ingressFrom"
        )
        yield "IngressNamespaceUnset", message


def _limit_hints(service: InferenceService) -> collections.abc.Iterator[Hint]:
    """What the entry does not do for every client."""
    entry, gateway = service.spec.ingress, service.spec.gateway
    if entry is not None and entry.enabled:
        yield "LimitsWithoutEffect", ingress_limits.without_effect(entry)
        yield "SessionAffinityWithoutEffect", session_affinity.without_effect(entry)
    hosts = gateway.grpc_hostnames if gateway is not None else None
    if entry is not None and entry.enabled and entry.grpc_host is not None:
        hosts = (entry.grpc_host,)
    if service.spec.path_prefix is not None and hosts:
        yield (
            "PathPrefixOfHttp",
            f"pathPrefix is of HTTP: gRPC has no path prefix, its clients use {', '.join(hosts)} alone",
        )


def _persistence_hints(
    service: InferenceService, observed: Observed
) -> collections.abc.Iterator[Hint]:
    """Routes that do not keep clients at their pods although the spec says so."""
    gateway = service.spec.gateway
    if gateway is not None:
        wanted = ingress.route_kinds(gateway)
        message = session_affinity.persistence_without_effect(gateway, observed.facts, wanted)
        yield "SessionAffinityWithoutEffect", message


def _mirror_hints(service: InferenceService, observed: Observed) -> collections.abc.Iterator[Hint]:
    """Requests that are not mirrored although the spec says so."""
    if service.spec.gateway is not None and service.spec.mirror is not None:
        wanted = ingress.route_kinds(service.spec.gateway)
        yield "MirrorWithoutEffect", mirror.without_effect(service, observed.facts, wanted)


def _has_entry(service: InferenceService) -> bool:
    """Whether clients come through an Ingress or a Gateway."""
    entry = service.spec.ingress
    return service.spec.gateway is not None or (entry is not None and entry.enabled)


def _address(manifest: Manifest) -> str:
    """The first host name or IP address of a load balancer, in URL notation; "" when it has none. A host name has 253 characters at most (RFC 1035)."""
    balancer = (manifest.get("status") or {}).get("loadBalancer") or {}
    for point in balancer.get("ingress") or ():
        address = str(point.get("hostname") or point.get("ip") or "")
        if 0 < len(address) <= _LONGEST_HOST:
            return f"[{address}]" if ":" in address else address
    return ""


def _routes(service: InferenceService, observed: Observed, gateway: Gateway) -> Condition:
    missing = missing_kinds(observed.facts, ingress.route_kinds(gateway))
    if missing:
        message = f"this cluster has no {missing}: install the Gateway API, or use spec.ingress"
        return Condition(NETWORK_READY, "False", "GatewayApiMissing", message)
    for (kind, name), route in observed.children.items():
        if kind not in ("HTTPRoute", "GRPCRoute"):
            continue
        parents = (route.get("status") or {}).get("parents") or ()
        if not parents:
            message = f"{kind} {name}: no Gateway has taken it up; is there a Gateway of the name in spec.gateway.parentRefs?"
            return Condition(NETWORK_READY, "False", "RouteNotAccepted", message)
        missing = _without(parents, service, gateway)
        if missing:
            message = f"{kind} {name}: Gateway {missing} of spec.gateway.parentRefs has not taken it up; is there one of this name?"
            return Condition(NETWORK_READY, "False", "RouteNotAccepted", message)
        for parent in parents:
            for condition in parent.get("conditions") or ():
                if (
                    condition["type"] in ("Accepted", "ResolvedRefs")
                    and condition["status"] == "False"
                ):
                    text = condition.get("message")
                    message = f"{kind} {name}: Gateway {parent['parentRef']['name']} says {condition['reason']}{f': {text}' if text else ''}"
                    return Condition(NETWORK_READY, "False", "RouteNotAccepted", message)
    return Condition(NETWORK_READY, "True", "Applied", "")


def _without(
    parents: collections.abc.Iterable[Manifest], service: InferenceService, gateway: Gateway
) -> str:
    """The first Gateway of the spec that is not among those that have taken a route up; "" for none."""
    taken = {
        (parent["parentRef"]["name"], parent["parentRef"].get("namespace") or service.namespace)
        for parent in parents
    }
    wanted = ((one.name, one.namespace or service.namespace) for one in gateway.parent_refs)
    for name, namespace in wanted:
        if (name, namespace) not in taken:
            return name if namespace == service.namespace else f"{namespace}/{name}"
    return ""


def monitoring(service: InferenceService, observed: Observed) -> Condition:
    """The condition that says whether the configured monitor exists."""
    wanted = service.spec.monitoring
    if wanted is None or not (wanted.pod_monitor or wanted.service_monitor):
        return Condition(MONITORING_READY, "True", "Disabled", "")
    refused = _refused(observed, _MONITORS)
    if refused:
        return Condition(MONITORING_READY, "False", *refused)
    unseen = unwatched(observed, lambda kind: kind in _MONITORS)
    if unseen:
        return Condition(MONITORING_READY, *unseen)
    kind = kinds.POD_MONITOR if wanted.pod_monitor else kinds.SERVICE_MONITOR
    missing = missing_kinds(observed.facts, (kind,))
    if missing:
        message = f"this cluster has no {missing}: install the Prometheus operator, or leave spec.monitoring out"
        return Condition(MONITORING_READY, "False", "PrometheusOperatorMissing", message)
    return Condition(MONITORING_READY, "True", "Applied", "")


def missing_kinds(facts: ClusterFacts, wanted: collections.abc.Iterable[kinds.Kind]) -> str:
    """The kinds that the API server does not serve, as text; "" when it serves all."""
    return " and ".join(f"{k.kind} ({k.api_version})" for k in wanted if k.key not in facts.apis)


def _refused(observed: Observed, of: tuple[str, ...]) -> tuple[Reason, str] | None:
    """The reason and message of the first conflict or refusal of these kinds; None if none exists."""
    return refused(observed, lambda kind: kind in of)


def unwatched(
    observed: Observed, among: collections.abc.Callable[[str], bool]
) -> tuple[State, Reason, str] | None:
    """The status, reason and message of the first of these kinds that cannot be watched; None if none exists.

    Unknown when the object existed while the kind could be watched, else False: it may be missing.
    """
    for (kind, name), message in observed.unwatched.items():
        if among(kind):
            known = (kind, name) in observed.children
            return "Unknown" if known else "False", "WatchFailed", message
    return None


def refused(
    observed: Observed, among: collections.abc.Callable[[str], bool]
) -> tuple[Reason, str] | None:
    """The reason and message of the first conflict or refusal of some kinds; None if none exists."""
    for conflict in observed.conflicts:
        if among(conflict.kind):
            owner = f"belongs to {conflict.owner}" if conflict.owner else "has no owner"
            message = f"{conflict.kind} {conflict.name} exists already and {owner}: delete it, or give this service another name"
            return "ResourceConflict", message
    for error in observed.errors:
        if among(error.kind):
            return "ApplyFailed", f"{error.kind} {error.name} was refused: {error.message}"
    for kind, name in observed.terminating:
        if among(kind):
            return (
                "BeingDeleted",
                f"{kind} {name} is still being deleted; it is made again once it is gone",
            )
    return None
