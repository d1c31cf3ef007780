"""Resources that break a rule of how requests and scrapes reach a service, and some that look as if."""

from tests.operator.api.specs import Manifest, gateway, spec

BAD: dict[str, tuple[Manifest, str]] = {
    "annotations of no Ingress": (
        spec(ingress={"grpcHost": "a.example", "annotations": {"a": "b"}}),
        "spec.ingress.annotations",
    ),
    "an ingress without a host": (spec(ingress={"enabled": True}), "spec.ingress.host"),
    "one host of both protocols": (
        spec(ingress={"host": "a.example", "grpcHost": "a.example"}),
        "spec.ingress.grpcHost",
    ),
    "one host of both routes": (
        spec(gateway={"parentRefs": [{"name": "g"}], "hostnames": ["a"], "grpcHostnames": ["b", "a"]}),
        "spec.gateway.grpcHostnames",
    ),
    "a load balancer's class without a load balancer": (
        spec(service={"type": "NodePort", "loadBalancerClass": "example.com/internal"}),
        "spec.service.type",
    ),
    "a policy for clients that cannot come": (
        spec(service={"externalTrafficPolicy": "Local"}),
        "spec.service.type",
    ),
    "one port of the nodes twice": (
        spec(service={"type": "NodePort", "nodePorts": {"http": 30000, "grpc": 30000}}),
        "spec.service.nodePorts",
    ),
    "a prefix that the server's own paths have": (
        spec(pathPrefix="/v2/demo"),
        "spec.pathPrefix",
    ),
    "a prefix that clients resolve": (spec(pathPrefix="/api/../demo"), "spec.pathPrefix"),
    "a prefix and the path of an Ingress": (
        spec(pathPrefix="/demo", ingress={"host": "a.example", "path": "/demo"}),
        "spec.pathPrefix",
    ),
    "a prefix of routes of gRPC alone": (
        spec(pathPrefix="/demo", gateway={"parentRefs": [{"name": "g"}], "grpcHostnames": ["a"]}),
        "spec.pathPrefix",
    ),
    "a prefix of an Ingress of gRPC alone": (
        spec(pathPrefix="/demo", ingress={"grpcHost": "a.example"}),
        "spec.pathPrefix",
    ),
    "a timeout of routes of gRPC alone": (
        gateway(hosts={"grpcHostnames": ["a"], "requestTimeoutSeconds": 0}),
        "spec.gateway.requestTimeoutSeconds",
    ),
    "a size in thousandths": (
        spec(ingress={"host": "a.example", "maxBodySize": "64m"}),
        "spec.ingress.maxBodySize",
    ),
    "the age of a header": (
        spec(ingress={"host": "a.example", "sessionAffinity": {"type": "Header", "maxAgeSeconds": 9}}),
        "spec.ingress.sessionAffinity",
    ),
    "clients of every address, and of some": (
        spec(networkPolicy={"allowExternal": True, "ingressFrom": [{"podSelector": {}}]}),
        "spec.networkPolicy.allowExternal",
    ),
    "both monitors": (
        spec(monitoring={"podMonitor": True, "serviceMonitor": True}),
        "spec.monitoring.serviceMonitor",
    ),
}  # fmt: skip

GOOD: dict[str, Manifest] = {
    "a gateway beside an ingress that is off": spec(
        ingress={"enabled": False, "host": "a.example"}, gateway={"parentRefs": [{"name": "g"}]}
    ),
    "a load balancer with everything": spec(
        service={
            "type": "LoadBalancer",
            "loadBalancerClass": "example.com/internal",
            "loadBalancerSourceRanges": ["10.0.0.0/8", "2001:db8::/32"],
            "externalTrafficPolicy": "Local",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "ClientIP",
            "nodePorts": {"http": 30000, "grpc": 30001},
            "appProtocols": {"http": "HTTP2", "grpc": "kubernetes.io/h2c"},
        }
    ),
    "an ingress and a cookie": spec(
        ingress={"host": "a.example", "sessionAffinity": {"type": "Cookie", "maxAgeSeconds": 9}}
    ),
    "routes and a header": gateway(hosts={"sessionPersistence": {"type": "Header", "name": "x"}}),
    "a prefix for two protocols": gateway(
        pathPrefix="/demo", hosts={"hostnames": ["a"], "grpcHostnames": ["b"]}
    ),
    "a prefix like the server's own paths": gateway(pathPrefix="/v3/docs/.well-known"),
    "a prefix without anything in front": spec(pathPrefix="/api/predict/demo"),
}
