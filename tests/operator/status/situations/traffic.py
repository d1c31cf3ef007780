"""What a cluster can show of a service, and what its Ready condition then says: routes, addresses and monitors."""

from tests.operator.status.parts import GATEWAY, Manifest, route, said, spec
from tests.support import manifests

NOT: dict[str, tuple[Manifest, tuple[str, str]]] = {
    "the load balancer has no address": (
        {"resource": spec(service={"type": "LoadBalancer"})},
        ("NoAddress", "Service demo waits for an address from the cluster's load balancer"),
    ),
    "no Gateway has taken the route up": (
        {"resource": GATEWAY, "children": route()},
        ("RouteNotAccepted", "HTTPRoute demo: no Gateway has taken it up; is there a Gateway of the name in spec.gateway.parentRefs?"),
    ),
    "one of two Gateways has not taken the route up": (
        {
            "resource": spec(gateway={
                "parentRefs": [{"name": "public"}, {"name": "internal", "namespace": "gateways"}], "hostnames": ["demo.example.com"],
            }),
            "children": route({"parentRef": {"name": "public", "namespace": "models"}}),
        },
        (
            "RouteNotAccepted",
            "HTTPRoute demo: Gateway gateways/internal of spec.gateway.parentRefs has not taken it up; is there one of this name?",
        ),
    ),
    "the Gateway refuses the route": (
        {
            "resource": GATEWAY,
            "children": route({
                "parentRef": {"name": "public"},
                "conditions": [said("Accepted", "False", "NotAllowedByListeners", "namespace not allowed")],
            }),
        },
        ("RouteNotAccepted", "HTTPRoute demo: Gateway public says NotAllowedByListeners: namespace not allowed"),
    ),
    "the cluster has no Gateway API": (
        {"resource": GATEWAY, "facts": manifests.facts(missing=["gateway.networking.k8s.io/v1/HTTPRoute"])},
        (
            "GatewayApiMissing",
            "this cluster has no HTTPRoute (gateway.networking.k8s.io/v1): install the Gateway API, or use spec.ingress",
        ),
    ),
    "the monitor cannot be": (
        {
            "resource": spec(monitoring={"podMonitor": True}),
            "facts": manifests.facts(missing=["monitoring.coreos.com/v1/PodMonitor"]),
        },
        (
            "PrometheusOperatorMissing",
            "this cluster has no PodMonitor (monitoring.coreos.com/v1): install the Prometheus operator, or leave spec.monitoring out",
        ),
    ),
}  # fmt: skip
