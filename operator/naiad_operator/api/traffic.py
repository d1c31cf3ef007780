"""How requests and scrapes reach a service, and which clients may send them."""

import typing

import msgspec

from naiad_operator.api.bounds import (
    Annotations,
    AnyObject,
    DataKey,
    Duration,
    HostName,
    Labels,
    ObjectName,
)
from naiad_operator.api.structs import Part

UrlPath = typing.Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=r"^/[^\s]*$")]
SectionName = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=253, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
Hosts = typing.Annotated[tuple[HostName, ...], msgspec.Meta(min_length=1, max_length=16)]


class Service(Part, frozen=True):
    """The Service in front of the pods.

    Attributes:
        type: the Service's type. With NodePort and LoadBalancer it has no metrics port, which requires no token, unless
            monitoring.serviceMonitor needs it.
        annotations: of the Service.
        headless: also create the Service <name>-headless, which resolves to the pods themselves, for gRPC clients with client-side load
            balancing.
    """

    type: typing.Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    annotations: Annotations | None = None
    headless: bool = False


class IngressTls(Part, frozen=True):
    """TLS at the ingress.

    Attributes:
        secret_name: the Secret with the certificate for host and grpcHost.
    """

    secret_name: ObjectName


class Ingress(Part, frozen=True):
    """Hosts outside the cluster, through an Ingress controller.

    Attributes:
        enabled: whether there is an Ingress.
        class_name: the IngressClass; the cluster's default when not set.
        host: the host of the HTTP protocol.
        grpc_host: the host of the gRPC protocol, in an Ingress <name>-grpc of its own.
        path: the path prefix under host. The server's own paths begin at /, so another prefix needs the controller's rewriting, in annotations.
        tls: TLS for both hosts.
        annotations: of the HTTP Ingress.
        grpc_annotations: of the gRPC Ingress; the one that makes nginx speak gRPC to the pods is set already.
    """

    enabled: bool = False
    class_name: ObjectName | None = None
    host: HostName | None = None
    grpc_host: HostName | None = None
    path: UrlPath = "/"
    tls: IngressTls | None = None
    annotations: Annotations | None = None
    grpc_annotations: Annotations | None = None


class ParentReference(Part, frozen=True):
    """A Gateway.

    Attributes:
        name: its name.
        namespace: its namespace; the service's own when not set.
        section_name: one listener of it.
    """

    name: ObjectName
    namespace: ObjectName | None = None
    section_name: SectionName | None = None


class Gateway(Part, frozen=True):
    """Hosts outside the cluster, through the Gateway API.

    Attributes:
        parent_refs: the Gateways to attach to.
        hostnames: hosts of the HTTP protocol, in an HTTPRoute.
        grpc_hostnames: hosts of the gRPC protocol, in a GRPCRoute; other hosts than hostnames, since one host takes one kind of
            route.
        tls: whether the Gateway's listener speaks TLS; it decides how status.url begins.
    """

    parent_refs: typing.Annotated[
        tuple[ParentReference, ...], msgspec.Meta(min_length=1, max_length=8)
    ]
    hostnames: Hosts | None = None
    grpc_hostnames: Hosts | None = None
    tls: bool = False


class NetworkPolicy(Part, frozen=True):
    """Which clients may open connections to the pods.

    Attributes:
        enabled: whether there is a NetworkPolicy. It allows the operator, Prometheus, the ingress controller and the kubelet, the first
            three by the namespaces that the operator was installed with, and the service's own namespace.
        ingress_from: further clients that may use the HTTP and gRPC ports, each as in a NetworkPolicy's from.
    """

    enabled: bool = False
    ingress_from: typing.Annotated[tuple[AnyObject, ...], msgspec.Meta(max_length=16)] | None = None


class Monitoring(Part, frozen=True):
    """How the Prometheus operator finds the pods. Choose one of the two monitors.

    Attributes:
        pod_monitor: whether there is a PodMonitor.
        service_monitor: whether there is a ServiceMonitor.
        interval: time between two scrapes.
        labels: labels of the monitor, by which a Prometheus selects it.
    """

    pod_monitor: bool = False
    service_monitor: bool = False
    interval: Duration = "15s"
    labels: Labels | None = None


class Auth(Part, frozen=True):
    """API tokens. Health and the metrics port stay open.

    Attributes:
        token_secret: the Secret with the token that clients send as `Authorization: <token>` or `Authorization: Bearer <token>`.
        token_key: its key in the Secret. The value may hold several tokens, one per line, so that they can be replaced one by one.
    """

    token_secret: ObjectName
    token_key: DataKey = "token"  # noqa: S105 - a key's name, not a token
