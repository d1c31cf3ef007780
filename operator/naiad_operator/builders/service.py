"""Builds the Services: one for clients, one for ingresses that speak gRPC to pods, and a headless one that resolves to the pods."""

import typing

from naiad_operator.api.service import InferenceService
from naiad_operator.builders import kinds, names

_H2C = {
    # Two common ingress controllers read from the Service, not from the port, that pods speak HTTP/2 without TLS.
    "traefik.ingress.kubernetes.io/service.serversscheme": "h2c",
    "projectcontour.io/upstream-protocol.h2c": "grpc",
}


def services(service: InferenceService) -> list[names.Manifest]:
    """Every Service of an InferenceService."""
    wanted = service.spec.service
    ports = service.spec.predictor.ports
    grpc = _port("grpc", ports.grpc, "kubernetes.io/h2c")
    open_ports = [_port("http", ports.http, "http"), grpc]
    monitoring = service.spec.monitoring
    if wanted.type == "ClusterIP" or (monitoring is not None and monitoring.service_monitor):
        # The metrics port requires no token, so it is exposed outside the cluster only on request.
        open_ports.append(_port("metrics", ports.metrics, "http"))
    main = _service(
        service,
        service.name,
        open_ports,
        type_=wanted.type,
        annotations=dict(wanted.annotations or {}),
    )
    made = [main]
    ingress = service.spec.ingress
    if ingress is not None and ingress.enabled and ingress.grpc_host is not None:
        made.append(_service(service, grpc_name(service), [grpc], annotations=dict(_H2C)))
    if wanted.headless:
        headless = _service(service, f"{service.name}-headless", [grpc])
        headless["spec"]["clusterIP"] = "None"
        made.append(headless)
    return made


def grpc_name(service: InferenceService) -> str:
    """The name of the Service and the Ingress for gRPC."""
    return f"{service.name}-grpc"


def _port(name: str, port: int, protocol: str) -> dict[str, typing.Any]:
    return {
        "name": name,
        "port": port,
        "targetPort": name,
        "protocol": "TCP",
        "appProtocol": protocol,
    }


def _service(
    service: InferenceService,
    name: str,
    ports: list[dict[str, typing.Any]],
    *,
    type_: str = "ClusterIP",
    annotations: dict[str, str] | None = None,
) -> names.Manifest:
    made = names.child(service, kinds.SERVICE.api_version, kinds.SERVICE.kind, name=name)
    if annotations:
        made["metadata"]["annotations"] = annotations
    made["spec"] = {"type": type_, "selector": names.selector(service), "ports": ports}
    return made
