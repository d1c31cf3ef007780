"""Builds the Services: one for clients, one for ingresses that speak gRPC to pods, and a headless one that resolves to the pods."""

import collections.abc
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.traffic import AppProtocols, NodePorts, Service
from naiad_operator.builders import kinds, names
from naiad_operator.builders.traffic import session_affinity

Port = dict[str, typing.Any]

_H2C = {
    # Two common ingress controllers read from the Service, not from the port, that pods speak HTTP/2 without TLS.
    "traefik.ingress.kubernetes.io/service.serversscheme": "h2c",
    "projectcontour.io/upstream-protocol.h2c": "grpc",
}


def services(service: InferenceService) -> list[names.Manifest]:
    """Every Service of an InferenceService."""
    wanted = service.spec.service
    ports = service.spec.predictor.ports
    if service.component:
        return [_service(service, service.name, [_port("http", ports.http, "http")])]
    protocols = wanted.app_protocols or AppProtocols()
    grpc = _port("grpc", ports.grpc, protocols.grpc or "kubernetes.io/h2c")
    open_ports = [_port("http", ports.http, protocols.http or "http"), grpc]
    monitoring = service.spec.monitoring
    if wanted.type == "ClusterIP" or (monitoring is not None and monitoring.service_monitor):
        # The metrics port requires no token, so it is exposed outside the cluster only on request.
        open_ports.append(_port("metrics", ports.metrics, "http"))
    sticky = session_affinity.service_annotations(service.spec.ingress)
    main = _service(
        service,
        service.name,
        _with_node_ports(open_ports, wanted.node_ports),
        {**sticky, **(wanted.annotations or {})},
    )
    main["spec"]["type"] = wanted.type
    main["spec"].update(_knobs(wanted))
    made = [main]
    ingress = service.spec.ingress
    if ingress is not None and ingress.enabled and ingress.grpc_host is not None:
        made.append(_service(service, grpc_name(service), [grpc], {**_H2C, **sticky}))
    if wanted.headless:
        headless = _service(service, f"{service.name}-headless", [grpc])
        headless["spec"]["clusterIP"] = "None"
        made.append(headless)
    return made


def grpc_name(service: InferenceService) -> str:
    """The name of the Service and the Ingress for gRPC."""
    return f"{service.name}-grpc"


def _port(name: str, port: int, protocol: str) -> Port:
    return {
        "name": name,
        "port": port,
        "targetPort": name,
        "protocol": "TCP",
        "appProtocol": protocol,
    }


def _with_node_ports(ports: list[Port], node_ports: NodePorts | None) -> list[Port]:
    numbers = {} if node_ports is None else {"http": node_ports.http, "grpc": node_ports.grpc}
    return [
        {**port, "nodePort": numbers[port["name"]]} if numbers.get(port["name"]) else port
        for port in ports
    ]


def _knobs(wanted: Service) -> dict[str, typing.Any]:
    """The fields of a Service's spec that are passed on as they are; only those that are set."""
    ranges = wanted.load_balancer_source_ranges
    fields = {
        "loadBalancerClass": wanted.load_balancer_class,
        "loadBalancerSourceRanges": None if ranges is None else list(ranges),
        "externalTrafficPolicy": wanted.external_traffic_policy,
        "internalTrafficPolicy": wanted.internal_traffic_policy,
        "sessionAffinity": wanted.session_affinity,
    }
    return {field: value for field, value in fields.items() if value is not None}


def _service(
    service: InferenceService,
    name: str,
    ports: list[Port],
    annotations: collections.abc.Mapping[str, str] | None = None,
) -> names.Manifest:
    made = names.child(
        service,
        kinds.SERVICE.api_version,
        kinds.SERVICE.kind,
        name=name,
        own_annotations=annotations,
    )
    made["spec"] = {"type": "ClusterIP", "selector": names.selector(service), "ports": ports}
    return made
