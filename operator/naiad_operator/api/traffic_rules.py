"""The rules of how requests reach a service: path prefix, canary, limits, and the clients of a NetworkPolicy."""

from naiad_operator.api.rule import Rule

_NO_PREFIX = "(^/(v2|docs|openapi[.]json)(/|$))|(/[.]{1,2}(/|$))"

SPEC = (
    Rule(
        cel="!has(self.canary) || has(self.gateway)",
        message="only routes of a Gateway divide requests by weight, an Ingress and a Service do not: write spec.gateway, or leave canary out",
        field="canary",
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

INGRESS = (
    Rule(
        cel="!has(self.maxBodySize) || !self.maxBodySize.matches('m$')",
        message="write the size as Kubernetes does, e.g. 64Mi: m is a thousandth there",
        field="maxBodySize",
    ),
)

GATEWAY = (
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

CANARY = (
    Rule(
        cel="!has(self.autoscaling) || self.autoscaling.class != 'external'",
        message="the scale subresource is the predictor's: write class: hpa or class: keda for the canary, or replicas",
        field="autoscaling",
    ),
    Rule(
        cel="!has(self.autoscaling) || !has(self.autoscaling.minReplicas) || self.autoscaling.minReplicas > 0",
        message="a canary without pods gets no request that would start one: write minReplicas: 1",
        field="autoscaling",
    ),
)
