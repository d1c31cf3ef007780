"""Services and Ingresses of a Triton workload as spec.service and spec.ingress. Pure."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries, part
from naiad_operator.convert.draft import Draft
from naiad_operator.convert.references import DEFAULT_PORTS, Notes, Workload
from naiad_operator.errors import Problem

_PROMETHEUS = "prometheus.io/"
_TOOLS = ("kubectl.", "meta.helm.sh/", _PROMETHEUS)
"""Annotations of tools that say nothing about the object."""
_PROTOCOLS = {"http": "http", "grpc": "kubernetes.io/h2c"}
"""The application protocols of the operator's Services."""
_BALANCED = ("LoadBalancer",)
_OUTSIDE = ("LoadBalancer", "NodePort")
_EVERY = ("LoadBalancer", "NodePort", "ClusterIP")
_FIELDS = {
    "loadBalancerClass": _BALANCED,
    "loadBalancerSourceRanges": _BALANCED,
    "externalTrafficPolicy": _OUTSIDE,
    "internalTrafficPolicy": _EVERY,
    "sessionAffinity": _EVERY,
}
"""Fields of a Service that have the same name and meaning here, and the types for which they count."""
_DEFAULTS = {
    "externalTrafficPolicy": "Cluster",
    "internalTrafficPolicy": "Cluster",
    "sessionAffinity": "None",
}
"""Values that the API server fills in, so that they say nothing."""
_DROPPED = (
    "selector", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "allocateLoadBalancerNodePorts", "healthCheckNodePort",
)  # fmt: skip


def service(rest: Fields, of: Workload, draft: Draft) -> Notes:
    """Moves a Service into spec.service."""
    spec = part(rest, "spec")
    for field, value in _DEFAULTS.items():
        if spec.get(field) == value:
            del spec[field]
    name = part(rest, "metadata").get("name")
    if _is_of_metrics(entries(spec, "ports"), of):
        port = {**DEFAULT_PORTS, **part(draft.predictor, "ports")}["metrics"]
        rest.pop("spec")
        yield Problem(
            "kind",
            f"left out: {name} has the metrics port only: it is port {port} of Service {of.name}; write spec.monitoring for the Prometheus operator",
        )
        return
    if name != of.name:
        yield Problem("metadata.name", f"clients find the service as {of.name} in place of {name}")
    yield from _scraped(rest)
    made = _service_fields(rest)
    before = draft.spec.get("service", {})
    if before.get("type") and made.get("type", before["type"]) != before["type"]:
        yield Problem(
            "spec.type",
            f"left out: {made['type']}: there is one Service for both protocols, and another one here has type {before['type']}",
        )
        made["type"] = before["type"]
    if spec.get("clusterIP") == "None":
        made["headless"] = True
        message = f"the Service that resolves to the pods is {of.name}-headless, with the gRPC port"
        yield Problem("spec.clusterIP", message)
    changed = list(_ports(entries(spec, "ports"), of, draft, made))
    if changed:
        yield Problem("spec.ports", "; ".join(changed))
    for field in ("ports", *_DROPPED):
        spec.pop(field, None)
    if made:
        draft.spec["service"] = {**draft.spec.get("service", {}), **made}


def _scraped(rest: Fields) -> Notes:
    keys = [key for key in part(rest, "metadata", "annotations") if key.startswith(_PROMETHEUS)]
    if keys:
        message = f"left out: {', '.join(keys)}: write spec.monitoring, or these annotations in predictor.podTemplate.metadata"
        yield Problem("metadata.annotations", message)


def _is_of_metrics(ports: list[Fields], of: Workload) -> bool:
    """Whether a Service only leads to the metrics."""
    return bool(ports) and {of.role(port) for port in ports} == {"metrics"}


def _service_fields(rest: Fields) -> Fields:
    """The fields that are called alike; some count only for load balancers, or only for clients outside the cluster."""
    spec = part(rest, "spec")
    kind = spec.pop("type", "ClusterIP")
    made: Fields = {} if kind == "ClusterIP" else {"type": kind}
    given = part(rest, "metadata", "annotations")
    annotations = {key: value for key, value in given.items() if not key.startswith(_TOOLS)}
    if annotations:
        made["annotations"] = annotations
    for field, kinds in _FIELDS.items():
        value = spec.pop(field, None)
        if value is not None and kind in kinds:
            made[field] = value
    return made


def _ports(
    ports: list[Fields], of: Workload, draft: Draft, made: Fields
) -> collections.abc.Iterator[str]:
    """What changes for clients; fixed ports of the nodes are kept."""
    numbers = {**DEFAULT_PORTS, **part(draft.predictor, "ports")}
    is_outside = made.get("type", "ClusterIP") != "ClusterIP"
    for port in ports:
        role = of.role(port)
        if not role:
            yield f"port {port.get('port')} does not lead to the server: left out"
        elif role == "metrics" and is_outside:
            yield "the metrics port is open inside the cluster only: write spec.monitoring, or scrape the pods"
        elif port.get("port") != numbers[role]:
            yield f"clients use port {numbers[role]} for {role} in place of {port.get('port')}"
        if role in _PROTOCOLS and port.get("appProtocol", _PROTOCOLS[role]) != _PROTOCOLS[role]:
            made.setdefault("appProtocols", {})[role] = port["appProtocol"]
        if "nodePort" in port and role in {"http", "grpc"} and is_outside:
            made.setdefault("nodePorts", {})[role] = port["nodePort"]


def backends(spec: Fields) -> collections.abc.Iterator[tuple[str, str, str, typing.Any]]:
    """Of each path of an Ingress: the host, the path, the name of the Service, and its port."""
    for rule in entries(spec, "rules"):
        for path in entries(part(rule, "http"), "paths"):
            host, prefix = str(rule.get("host") or ""), str(path.get("path") or "/")
            yield host, prefix, *_backend(part(path, "backend"))
    for field in ("defaultBackend", "backend"):
        if part(spec, field):
            yield "", "/", *_backend(part(spec, field))


def _backend(fields: Fields) -> tuple[str, typing.Any]:
    """The name and the port of a Service, also as they were written before networking.k8s.io/v1."""
    service = part(fields, "service")
    port = part(service, "port")
    name = service.get("name", fields.get("serviceName"))
    return str(name), port.get("number", port.get("name", fields.get("servicePort")))


def ingress(rest: Fields, of: Workload, draft: Draft) -> Notes:
    """Moves an Ingress into spec.ingress: one host per protocol."""
    spec = part(rest, "spec")
    given = part(rest, "metadata", "annotations")
    annotations = {key: value for key, value in given.items() if not key.startswith(_TOOLS)}
    class_name = spec.pop("ingressClassName", annotations.pop("kubernetes.io/ingress.class", None))
    made: Fields = draft.spec.get("ingress", {"enabled": True})
    if class_name is not None:
        made["className"] = class_name
    for host, path, name, port in backends(spec):
        ports = of.services[name].ports if name in of.services else {}
        role = ports.get(str(port), "grpc" if "grpc" in str(port) else "http")
        field, own = ("grpcHost", "grpcAnnotations") if role == "grpc" else ("host", "annotations")
        reason = ""
        if name not in of.services:
            reason = "it does not lead to these pods: keep an Ingress for it"
        elif not host:
            reason = f"for every host: write a host in ingress.{field}, which an ingress of a service needs"
        elif field in made or role == "metrics":
            reason = "a service has one host per protocol, in ingress.host and ingress.grpcHost"
        if reason:
            yield Problem("spec.rules", f"not converted: {host}{path} of {name}: {reason}")
            continue
        made[field] = host
        if annotations:
            made[own] = dict(annotations)
        if field == "host" and path != "/":
            made["path"] = path
            yield Problem(
                "spec.rules",
                f"{path}: the server's paths begin at /: spec.pathPrefix serves a prefix without the controller's rewriting",
            )
    yield from _rest_of_ingress(spec, annotations, made)
    if "host" in made or "grpcHost" in made:
        draft.spec["ingress"] = made


def _rest_of_ingress(spec: Fields, annotations: Fields, made: Fields) -> Notes:
    """The certificates of an Ingress, and what an Ingress without a host has."""
    yield from _certificates(entries(spec, "tls"), made)
    for field in ("rules", "tls", "defaultBackend", "backend"):
        spec.pop(field, None)
    if "host" in made or "grpcHost" in made:
        return
    kept = (
        ("metadata.annotations", ", ".join(annotations), "ingress.annotations"),
        ("spec.ingressClassName", made.get("className"), "ingress.className"),
    )
    for path, value, field in kept:
        if value:
            message = f"left out: {value}: without a host there is no ingress: write it in {field}"
            yield Problem(path, message)


def _certificates(given: list[Fields], made: Fields) -> Notes:
    """Writes the Secret of the hosts' certificates into an ingress; there is one for both."""
    secrets = list(dict.fromkeys(one["secretName"] for one in given if one.get("secretName")))
    if secrets:
        made["tls"] = {"secretName": secrets[0]}
    elif given:
        message = "left out: it names no Secret, so that the controller's own certificate counts: write one in ingress.tls.secretName"
        yield Problem("spec.tls", message)
    if secrets[1:]:
        message = f"left out: {', '.join(map(str, secrets[1:]))}: ingress.tls.secretName, {secrets[0]}, is for both hosts: it needs a certificate for both"
        yield Problem("spec.tls", message)
