"""How requests and scrapes reach a service, and which clients may send them."""

import typing

import msgspec

from naiad_operator.api.types.bounds import (
    Annotations,
    AnyObject,
    DataKey,
    Duration,
    HostName,
    Key,
    Labels,
    ObjectName,
    Quantity,
)
from naiad_operator.api.types.structs import Part

DEFAULT_READ_TIMEOUT_SECONDS = 3600
"""Of an Ingress; not a schema default, because a status says when a written one has no effect."""

PathPrefix = typing.Annotated[
    str, msgspec.Meta(min_length=2, max_length=200, pattern="^(/[A-Za-z0-9._~-]+)+$")
]
"""A prefix of paths as `--http-base-path` takes it."""

UrlPath = typing.Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=r"^/[^\s]*$")]
SectionName = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=253, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
AddressRange = typing.Annotated[
    str, msgspec.Meta(max_length=64, pattern="^[0-9a-fA-F.:]+/[0-9]{1,3}$")
]
NodePort = typing.Annotated[int, msgspec.Meta(ge=1, le=65535)]
AppProtocol = typing.Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=253, pattern="^([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9][-A-Za-z0-9_.]*$"
    ),
]
AffinityName = typing.Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=63, pattern="^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"),
]
"""The name of a cookie or of a header, as every controller takes it."""
Hosts = typing.Annotated[tuple[HostName, ...], msgspec.Meta(min_length=1, max_length=16)]


class NodePorts(Part, frozen=True):
    """Fixed ports of the nodes; Kubernetes chooses those that are not set.

    Attributes:
        http: of HTTP.
        grpc: of gRPC.
    """

    http: NodePort | None = None
    grpc: NodePort | None = None


class AppProtocols(Part, frozen=True):
    """The application protocol of each port of the Service, by which load balancers, ingress controllers and meshes choose how to speak to pods.

    Attributes:
        http: of HTTP; http when not set.
        grpc: of gRPC; kubernetes.io/h2c when not set. Some controllers want another name, e.g. grpc or HTTP2.
    """

    http: AppProtocol | None = None
    grpc: AppProtocol | None = None


class Service(Part, frozen=True):
    """The Service in front of the pods.

    Attributes:
        type: the Service's type. With NodePort and LoadBalancer it has no metrics port, which requires no token, unless
            monitoring.serviceMonitor needs it.
        annotations: of the Service.
        load_balancer_class: the load balancer's implementation (LoadBalancer only); it cannot be changed later.
        load_balancer_source_ranges: the clients that the load balancer accepts, e.g. 10.0.0.0/8 (LoadBalancer only).
        external_traffic_policy: Local keeps the clients' addresses and sends requests only to pods of the node that they reach (NodePort and
            LoadBalancer only).
        internal_traffic_policy: Local sends requests from inside the cluster only to pods of the client's node.
        session_affinity: ClientIP sends all connections from one address to one pod, e.g. for sequences.
        node_ports: fixed ports of the nodes (NodePort and LoadBalancer only).
        app_protocols: the application protocol of each port.
        headless: also create the Service <name>-headless, which resolves to the pods themselves, for gRPC clients with client-side load
            balancing.
    """

    type: typing.Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    annotations: Annotations | None = None
    load_balancer_class: Key | None = None
    load_balancer_source_ranges: (
        typing.Annotated[tuple[AddressRange, ...], msgspec.Meta(min_length=1, max_length=64)] | None
    ) = None
    external_traffic_policy: typing.Literal["Cluster", "Local"] | None = None
    internal_traffic_policy: typing.Literal["Cluster", "Local"] | None = None
    session_affinity: typing.Literal["None", "ClientIP"] | None = None
    node_ports: NodePorts | None = None
    app_protocols: AppProtocols | None = None
    headless: bool = False


class SessionAffinity(Part, frozen=True):
    """What keeps the requests of one client, or of one sequence, at one pod. A gRPC stream stays at its pod without it.

    Attributes:
        type: Cookie for clients that send cookies back. Header at an Ingress for those that send a header of their own, one value per sequence;
            at a Gateway for those that send the header of the first response back.
        name: of the cookie or the header; naiad-pod or naiad-sequence when not set.
        max_age_seconds: how long a client keeps the cookie, or a Gateway the session; until the client ends when not set.
    """

    type: typing.Literal["Cookie", "Header"]
    name: AffinityName | None = None
    max_age_seconds: typing.Annotated[int, msgspec.Meta(ge=1, le=604_800)] | None = None


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
        path: the path prefix under host. The server's own paths begin at /, so another prefix needs the controller's rewriting, in annotations;
            spec.pathPrefix needs none.
        tls: TLS for both hosts.
        max_body_size: the largest body of a request that the controller passes on; no limit when not set, because the server has its own
            (--http-max-input-size).
        read_timeout_seconds: how long a pod may take until the next byte of a response, and a client until the next byte of a request; 3600 when
            not set, because a stream may be silent for long.
        session_affinity: keeps clients at their pods, where the controller can; NetworkReady says where it cannot.
        annotations: of the HTTP Ingress; they take precedence over those that the operator sets for the fields above.
        grpc_annotations: of the gRPC Ingress, likewise; those that make controllers speak gRPC to the pods are set already.
    """

    enabled: bool = False
    class_name: ObjectName | None = None
    host: HostName | None = None
    grpc_host: HostName | None = None
    path: UrlPath = "/"
    tls: IngressTls | None = None
    max_body_size: Quantity | None = None
    read_timeout_seconds: typing.Annotated[int, msgspec.Meta(ge=1, le=604_800)] | None = None
    session_affinity: SessionAffinity | None = None
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
        request_timeout_seconds: how long a whole response of HTTP may take, streams included; 0 is without a limit. When not set, the
            Gateway's default counts, which is 15 seconds in some. Not every Gateway supports it.
        session_persistence: keeps clients at their pods. The routes need the experimental channel of the Gateway API for it, and not every
            Gateway supports it; where the cluster's routes do not have it, they are without, and NetworkReady says so.
    """

    parent_refs: typing.Annotated[
        tuple[ParentReference, ...], msgspec.Meta(min_length=1, max_length=8)
    ]
    hostnames: Hosts | None = None
    grpc_hostnames: Hosts | None = None
    tls: bool = False
    request_timeout_seconds: typing.Annotated[int, msgspec.Meta(ge=0, le=86400)] | None = None
    session_persistence: SessionAffinity | None = None


class Mirror(Part, frozen=True):
    """Copies of the requests that come through the Gateway, to another service; clients get no responses of it.

    Attributes:
        service: an InferenceService of the same namespace with the same ports; the canary when not set.
        percent: how many of a hundred requests are copied; all when not set. Needs the Gateway API 1.3 or newer; NetworkReady says when the cluster's routes
            do not have it, and nothing is copied then.
    """

    service: ObjectName | None = None
    percent: typing.Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None


class NetworkPolicy(Part, frozen=True):
    """Which clients may open connections to the pods.

    Attributes:
        enabled: whether there is a NetworkPolicy. It allows the operator, Prometheus, the ingress controller and the kubelet, the first
            three by the namespaces that the operator was installed with, and the service's own namespace.
        ingress_from: further clients that may use the HTTP and gRPC ports, each as in a NetworkPolicy's from.
        allow_external: opens the HTTP and gRPC ports to every address, for service.type NodePort and LoadBalancer. Through these a client may
            come with the address of a node, so that no narrower rule is sure to hold: use auth, or service.loadBalancerSourceRanges.
    """

    enabled: bool = False
    ingress_from: typing.Annotated[tuple[AnyObject, ...], msgspec.Meta(max_length=16)] | None = None
    allow_external: bool = False


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
