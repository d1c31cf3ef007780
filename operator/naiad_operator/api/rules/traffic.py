"""The validation rules of how requests and scrapes reach a service, and which clients may send them."""

from naiad_operator.api.rules.rule import Rule

_NO_PREFIX = "(^/(v2|docs|openapi[.]json)(/|$))|(/[.]{1,2}(/|$))"

SPEC = (
    Rule(
        cel="!has(self.canary) || has(self.gateway)",
        message="only routes of a Gateway divide requests by weight, an Ingress and a Service do not: write spec.gateway, or leave canary out",
        field="canary",
    ),
    Rule(
        cel="!has(self.mirror) || has(self.gateway)",
        message="only routes of a Gateway copy requests: write spec.gateway, or leave mirror out. An Ingress has no such field; ingress-nginx copies all requests "
        "by the annotation nginx.ingress.kubernetes.io/mirror-target, in ingress.annotations",
        field="mirror",
    ),
    Rule(
        cel="!has(self.mirror) || has(self.mirror.service) || has(self.canary)",
        message="names no service, and there is no canary: write mirror.service, or a canary, e.g. with weight: 0",
        field="mirror",
    ),
    Rule(
        cel=f"!has(self.pathPrefix) || !self.pathPrefix.matches('{_NO_PREFIX}')",
        message="the server's own paths begin with /v2, /docs and /openapi.json, and clients resolve . and ..: write another prefix, e.g. "
        "/api/predict/demo",
        field="pathPrefix",
    ),
    Rule(
        cel="!(has(self.pathPrefix) && has(self.ingress)) || self.ingress.path == '/'",
        message="pathPrefix is the path of the Ingress as well: leave ingress.path out",
        field="pathPrefix",
    ),
    Rule(
        cel="!(has(self.pathPrefix) && has(self.gateway)) || has(self.gateway.hostnames) || !has(self.gateway.grpcHostnames)",
        message="gRPC has no path prefix: write the hosts of HTTP into gateway.hostnames, or leave pathPrefix out",
        field="pathPrefix",
    ),
    Rule(
        cel="!(has(self.pathPrefix) && has(self.ingress)) || has(self.ingress.host) || !has(self.ingress.grpcHost)",
        message="gRPC has no path prefix: write the host of HTTP into ingress.host, or leave pathPrefix out",
        field="pathPrefix",
    ),
)

SERVICE = (
    Rule(
        cel="self.type == 'LoadBalancer' || !(has(self.loadBalancerClass) || has(self.loadBalancerSourceRanges))",
        message="loadBalancerClass and loadBalancerSourceRanges configure a load balancer: set type: LoadBalancer, or leave them out",
        field="type",
    ),
    Rule(
        cel="self.type != 'ClusterIP' || !(has(self.externalTrafficPolicy) || has(self.nodePorts))",
        message="externalTrafficPolicy and nodePorts are for clients outside the cluster: set type: NodePort or LoadBalancer, or leave them out",
        field="type",
    ),
    Rule(
        cel="!has(self.nodePorts) || !has(self.nodePorts.http) || !has(self.nodePorts.grpc) || self.nodePorts.http != self.nodePorts.grpc",
        message="http and grpc need two different ports of the nodes",
        field="nodePorts",
    ),
)

INGRESS = (
    Rule(
        cel="!(has(self.annotations) && !has(self.host)) && !(has(self.grpcAnnotations) && !has(self.grpcHost))",
        message="annotations belong to the Ingress of host, grpcAnnotations to that of grpcHost: write the host, or leave them out",
        field="annotations",
    ),
    Rule(
        cel="!self.enabled || has(self.host) || has(self.grpcHost)",
        message="write the host that clients use in host, in grpcHost, or in both",
        field="host",
    ),
    Rule(
        cel="!(has(self.host) && has(self.grpcHost)) || self.host != self.grpcHost",
        message="most controllers speak one protocol to the pods of one host: give grpcHost a name of its own, e.g. grpc.example.com",
        field="grpcHost",
    ),
    Rule(
        cel="!has(self.maxBodySize) || !self.maxBodySize.matches('m$')",
        message="write the size as Kubernetes does, e.g. 64Mi: m is a thousandth there",
        field="maxBodySize",
    ),
    Rule(
        cel="!has(self.sessionAffinity) || self.sessionAffinity.type == 'Cookie' || !has(self.sessionAffinity.maxAgeSeconds)",
        message="maxAgeSeconds is of the cookie, and a header has none: write type: Cookie, or leave maxAgeSeconds out",
        field="sessionAffinity",
    ),
)

GATEWAY = (
    Rule(
        cel="!(has(self.hostnames) && has(self.grpcHostnames)) || !self.grpcHostnames.exists(name, name in self.hostnames)",
        message="one host takes an HTTPRoute or a GRPCRoute: write other names into grpcHostnames than into hostnames",
        field="grpcHostnames",
    ),
    Rule(
        cel="!has(self.requestTimeoutSeconds) || has(self.hostnames) || !has(self.grpcHostnames)",
        message="a GRPCRoute has no timeout: write the hosts of HTTP into hostnames, or leave requestTimeoutSeconds out",
        field="requestTimeoutSeconds",
    ),
)

NETWORK_POLICY = (
    Rule(
        cel="!(self.allowExternal && has(self.ingressFrom))",
        message="allowExternal opens the ports to every address: leave ingressFrom out, or allowExternal",
        field="allowExternal",
    ),
)

MONITORING = (
    Rule(
        cel="!(self.podMonitor && self.serviceMonitor)",
        message="both would scrape every pod twice: set podMonitor: true or serviceMonitor: true",
        field="serviceMonitor",
    ),
)
