"""The validation rules between fields, by the part of the resource that `self` is.

Each rule is written once, in CEL. The API server evaluates it when a resource is applied; `api.cel` translates it to Python for
`naiad-operator check` and for resources that were stored before the rule existed. A rule uses only what `api.cel` supports, tests optional
fields with `has` first, and says in `message` what to write instead, in one sentence without a full stop. `field` is where the error
is shown. Each rule has a manifest in tests/operator/api/rule_cases.py that breaks it, which the tests send to an API server.
"""

import collections.abc

from naiad_operator.api import (
    accelerator,
    canary,
    model,
    model_rules,
    pod,
    profile,
    scaling,
    spec,
    structs,
    traffic,
    traffic_rules,
)
from naiad_operator.api.rule import Rule

NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
OWN_LABELS = [
    f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "managed-by")
]
OWN_OPTIONS_PATTERN = "^--(http-port|grpc-port|metrics-port|shutdown-delay-secs|exit-timeout-secs|auth-token-file|http-base-path)(=|$)"

ROOT = (
    Rule(
        cel=f"size(self.metadata.name) <= 50 && self.metadata.name.matches('{NAME_PATTERN}')",
        message="the name becomes that of a Service: at most 50 lower-case letters, digits and '-', a letter first and no '-' at the end",
        field="metadata.name",
    ),
)

_STARTS_AGAIN = Rule(
    cel="!(has(self.predictor.autoscaling) && self.predictor.autoscaling.class == 'keda' && has(self.predictor.autoscaling.minReplicas) && "
    "self.predictor.autoscaling.minReplicas == 0) || (has(self.predictor.autoscaling.triggers) && size(self.predictor.autoscaling.triggers) "
    "> 0) || (has(self.predictor.autoscaling.activation) && (has(self.predictor.autoscaling.activation.source) || "
    "has(self.predictor.autoscaling.activation.query))) || (has(self.ingress) && self.ingress.enabled && has(self.ingress.className) && "
    "self.ingress.className in ['nginx', 'traefik'])",
    message="with autoscaling.minReplicas: 0 something must start the first pod: write an ingress whose className is nginx or traefik, or "
    "autoscaling.activation.source or query, or triggers",
    field="predictor",
)

_METADATA = tuple(
    Rule(
        cel=f"!has(self.{field}) || !self.{field}.exists(key, {condition})",
        message="the operator finds and updates its objects by these: leave out app.kubernetes.io/name, instance, component and managed-by, and "
        "serving.naiad.dev/",
        field=field,
    )
    for field, condition in (
        ("labels", f"key in {OWN_LABELS} || key.startsWith('serving.naiad.dev/')"),
        ("annotations", "key.startsWith('serving.naiad.dev/')"),
    )
)

_SPEC = (
    _STARTS_AGAIN,
    Rule(
        cel="!(has(self.ingress) && self.ingress.enabled && has(self.gateway))",
        message="a service is reached by an Ingress or by Gateway routes: set ingress.enabled: false, or leave gateway out",
        field="ingress",
    ),
    *_METADATA,
    *traffic_rules.SPEC,
)

_SERVICE = (
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

_ONE_DECIDES = Rule(
    cel="!(has(self.replicas) && has(self.autoscaling) && self.autoscaling.class in ['hpa', 'keda'])",
    message="the autoscaler decides the number of pods: leave replicas out and set autoscaling.minReplicas and maxReplicas, or set "
    "autoscaling.class: none",
    field="replicas",
)

_ARGS = Rule(
    cel=f"!has(self.args) || !self.args.exists(one, one.matches('{OWN_OPTIONS_PATTERN}'))",
    message="the Service, the probes and the pod use these as well: write predictor.ports, drainSeconds, "
    "terminationGracePeriodSeconds, spec.auth or spec.pathPrefix instead of --http-port, --grpc-port, --metrics-port, "
    "--shutdown-delay-secs, --exit-timeout-secs, --auth-token-file or --http-base-path",
    field="args",
)

_PREDICTOR = (
    _ONE_DECIDES,
    Rule(
        cel="!(has(self.autoscaling) && self.autoscaling.class == 'external') || has(self.replicas)",
        message="a scaler of your own reads the number of pods before it writes one: write replicas, e.g. 1, to begin with",
        field="replicas",
    ),
    Rule(
        cel="self.drainSeconds + 5 < self.terminationGracePeriodSeconds",
        message="nothing is left of terminationGracePeriodSeconds for requests in flight: make it more than drainSeconds + 5",
        field="terminationGracePeriodSeconds",
    ),
    Rule(
        cel="!(self.placement == 'onePerNode' && has(self.topologySpreadConstraints))",
        message="placement onePerNode already decides how pods spread: leave topologySpreadConstraints out, or set placement: spread",
        field="topologySpreadConstraints",
    ),
    Rule(
        cel="!(has(self.resources) && has(self.accelerator.resourceName)) || !((has(self.resources.requests) && "
        "self.accelerator.resourceName in self.resources.requests) || (has(self.resources.limits) && self.accelerator.resourceName in "
        "self.resources.limits))",
        message="accelerator.resourceName is already requested accelerator.count times: leave it out of resources",
        field="resources",
    ),
    _ARGS,
)

_ACCELERATOR = (
    Rule(
        cel="has(self.profile) == (self.type == 'mig')",
        message="profile is the MIG profile: write it with type: mig, e.g. profile: 1g.10gb, and leave it out otherwise",
        field="profile",
    ),
    Rule(
        cel=f"!has(self.profile) || self.profile.matches('{accelerator.CEL_PROFILE_PATTERN}')",
        message="write a MIG profile as nvidia-smi does, e.g. 1g.10gb, 3g.40gb or 1g.10gb+me",
        field="profile",
    ),
    Rule(
        cel="self.strategy != 'single' || (self.type == 'mig' && (has(self.product) || has(self.products)))",
        message="with strategy: single every slice is called nvidia.com/gpu, so only the node's product shows the profile: write type: mig "
        "and product, e.g. NVIDIA-H100-80GB-HBM3, or products",
        field="strategy",
    ),
    Rule(
        cel="!(has(self.product) && has(self.products))",
        message="products names several in place of the one of product: leave product out and write all of them into products",
        field="products",
    ),
    Rule(
        cel="self.strategy == 'dra' || !(has(self.deviceClassName) || has(self.celSelectors))",
        message="deviceClassName and celSelectors describe a resource claim: set strategy: dra, or leave them out",
        field="strategy",
    ),
    Rule(
        cel="!has(self.resourceName) || self.strategy != 'dra'",
        message="a resource claim requests a deviceClassName, not a resourceName: leave resourceName out",
        field="resourceName",
    ),
    Rule(
        cel=f"!has(self.resourceName) || self.resourceName.matches('{accelerator.RESOURCE_PATTERN}')",
        message="write the resource as nodes offer it, with its domain, e.g. nvidia.com/gpu.shared or amd.com/gpu",
        field="resourceName",
    ),
    Rule(
        cel="!has(self.product) || self.strategy == 'dra' || !self.product.contains(' ')",
        message="a node's label nvidia.com/gpu.product has no spaces: write '-' in their place, e.g. NVIDIA-H100-80GB-HBM3",
        field="product",
    ),
    Rule(
        cel="!has(self.products) || self.strategy == 'dra' || !self.products.exists(one, one.contains(' '))",
        message="a node's label nvidia.com/gpu.product has no spaces: write '-' in their place, e.g. NVIDIA-H100-80GB-HBM3",
        field="products",
    ),
    Rule(
        cel="self.type != 'none' || !(has(self.resourceName) || has(self.product) || has(self.products) || self.strategy == 'dra' || self.count > 1)",
        message="type: none requests no device: leave count, product, resourceName and strategy out, or set type: gpu",
        field="type",
    ),
)

_RESOURCES = tuple(
    Rule(
        cel=f"!has(self.{field}) || self.{field}.all(name, !name.startsWith('nvidia.com/'))",
        message="GPUs are requested in predictor.accelerator, e.g. type: mig with profile: 1g.10gb: leave nvidia.com/ out here",
        field=field,
    )
    for field in ("requests", "limits")
)

_ENV = (
    Rule(
        cel="!(has(self.value) && has(self.valueFrom))",
        message="a variable has a value or a valueFrom: leave one of them out",
        field="valueFrom",
    ),
)

_TOLERATION = (
    Rule(
        cel="self.operator == 'Exists' ? !has(self.value) : has(self.key)",
        message="operator: Exists takes no value, operator: Equal needs a key",
        field="operator",
    ),
)

_PORTS = (
    Rule(
        cel="self.http != self.grpc && self.http != self.metrics && self.grpc != self.metrics",
        message="http, grpc and metrics need three different ports",
    ),
)

_AUTOSCALING = (
    Rule(
        cel=f"(has(self.maxReplicas) ? self.maxReplicas : {scaling.DEFAULT_MAX_REPLICAS}) >= (has(self.minReplicas) ? self.minReplicas : {scaling.DEFAULT_MIN_REPLICAS})",
        message=f"write a maxReplicas that is at least minReplicas; without one it is {scaling.DEFAULT_MAX_REPLICAS}",
        field="maxReplicas",
    ),
    Rule(
        cel="!has(self.minReplicas) || self.minReplicas > 0 || self.class == 'keda'",
        message="without a pod there are no metrics that a HorizontalPodAutoscaler could read: write minReplicas: 1, or class: keda; to stop a "
        "service, set suspend: true",
        field="minReplicas",
    ),
    Rule(
        cel="!has(self.activation) || (has(self.minReplicas) && self.minReplicas == 0)",
        message="activation starts the first pod of a service that has none: write minReplicas: 0, or leave activation out",
        field="activation",
    ),
    Rule(
        cel="!(self.class in ['hpa', 'keda']) || has(self.queueTimeMs) || has(self.pendingRequests) || "
        "(has(self.metrics) && size(self.metrics) > 0) || (has(self.triggers) && size(self.triggers) > 0) || "
        "(has(self.minReplicas) && self.minReplicas == 0)",
        message="the autoscaler needs a metric: write queueTimeMs, e.g. 10, or pendingRequests, e.g. 16",
        field="class",
    ),
    Rule(
        cel="self.class in ['hpa', 'keda'] || !(has(self.minReplicas) || has(self.maxReplicas) || has(self.queueTimeMs) || "
        "has(self.pendingRequests) || has(self.behavior))",
        message="minReplicas, maxReplicas, queueTimeMs, pendingRequests and behavior configure an autoscaler: set class: hpa or class: keda, or "
        "leave them out",
        field="class",
    ),
    Rule(
        cel="self.class == 'hpa' || !has(self.metrics)",
        message="metrics are those of a HorizontalPodAutoscaler: set class: hpa, or write triggers for class: keda",
        field="metrics",
    ),
    Rule(
        cel="self.class == 'keda' || !(has(self.triggers) || has(self.prometheusAddress) || has(self.prometheusAuth))",
        message="triggers, prometheusAddress and prometheusAuth are KEDA's: set class: keda, or leave them out",
        field="triggers",
    ),
)

_ACTIVATION = (
    Rule(
        cel="!(has(self.source) && has(self.query))",
        message="source counts the requests of an ingress controller, query stands in its place: leave one of them out",
        field="query",
    ),
)

_STRATEGY = (
    Rule(
        cel="self.type != 'Recreate' || !(has(self.maxSurge) || has(self.maxUnavailable))",
        message="type: Recreate ends all pods first: leave maxSurge and maxUnavailable out",
        field="type",
    ),
    Rule(
        cel="!(has(self.maxSurge) && has(self.maxUnavailable) && (self.maxSurge == 0 || self.maxSurge == '0%') && "
        "(self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",
        message="with both 0 no pod could ever be replaced: write maxUnavailable: 1 or maxSurge: 1",
        field="maxUnavailable",
    ),
)

_READINESS = (
    Rule(
        cel="has(self.models) == (self.policy == 'models')",
        message="models are the ones that policy: models waits for: write both, or neither",
        field="models",
    ),
)

_INGRESS = (
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
    *traffic_rules.INGRESS,
)

_GATEWAY = (
    Rule(
        cel="!(has(self.hostnames) && has(self.grpcHostnames)) || !self.grpcHostnames.exists(name, name in self.hostnames)",
        message="one host takes an HTTPRoute or a GRPCRoute: write other names into grpcHostnames than into hostnames",
        field="grpcHostnames",
    ),
    *traffic_rules.GATEWAY,
)

_MONITORING = (
    Rule(
        cel="!(self.podMonitor && self.serviceMonitor)",
        message="both would scrape every pod twice: set podMonitor: true or serviceMonitor: true",
        field="serviceMonitor",
    ),
)

RULES: collections.abc.Mapping[type[structs.Part], tuple[Rule, ...]] = {
    spec.Spec: _SPEC,
    spec.Predictor: _PREDICTOR,
    model.Model: model_rules.MODEL,
    model.Repository: model_rules.REPOSITORY,
    model.Storage: model_rules.STORAGE,
    model.Load: model_rules.LOAD,
    model.Cache: model_rules.CACHE,
    profile.ProfileSpec: (_ARGS, *_METADATA),
    profile.StoreDefaults: model_rules.STORES,
    accelerator.Accelerator: _ACCELERATOR,
    pod.Resources: _RESOURCES,
    pod.EnvVar: _ENV,
    pod.Toleration: _TOLERATION,
    pod.Ports: _PORTS,
    pod.Readiness: _READINESS,
    scaling.Autoscaling: _AUTOSCALING,
    scaling.Activation: _ACTIVATION,
    scaling.DeploymentStrategy: _STRATEGY,
    traffic.Service: _SERVICE,
    traffic.Ingress: _INGRESS,
    traffic.Gateway: _GATEWAY,
    traffic.NetworkPolicy: traffic_rules.NETWORK_POLICY,
    canary.Canary: (_ONE_DECIDES, _ARGS, *traffic_rules.CANARY),
    traffic.Monitoring: _MONITORING,
}
"""The rules of each part of the resource."""
