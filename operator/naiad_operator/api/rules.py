"""The validation rules between fields, each in CEL for the API server and in Python for files.

The API server evaluates `cel` when a resource is applied. `holds` is equivalent and is used by `naiad-operator check` and for
resources that were stored before a rule existed; tests compare the two. Only the core of CEL is used, so that any CEL
implementation can evaluate it.
"""

import collections.abc

from naiad_operator.api import accelerator, model, model_rules, pod, scaling, spec, structs, traffic
from naiad_operator.api.rule import Rule, Value, matches

NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
SCALERS = ("hpa", "keda")
OWN_OPTIONS_PATTERN = "^--(http-port|grpc-port|metrics-port|shutdown-delay-secs|exit-timeout-secs|auth-token-file)(=|$)"


def _only(value: Value, field: str, *, when: bool) -> bool:
    """The field may be set only in this case."""
    return when or field not in value


ROOT = (
    Rule(
        cel=f"size(self.metadata.name) <= 50 && self.metadata.name.matches('{NAME_PATTERN}')",
        message="the name becomes that of a Service: at most 50 lower-case letters, digits and '-', a letter first and no '-' at the end",
        field="metadata.name",
        holds=lambda o: (
            len(o["metadata"]["name"]) <= 50  # noqa: PLR2004 - the limit stands in the rule above
            and matches(NAME_PATTERN, o["metadata"]["name"])
        ),
    ),
)

_SPEC = (
    Rule(
        cel="!(has(self.ingress) && self.ingress.enabled && has(self.gateway))",
        message="a service is reached by an Ingress or by Gateway routes: set ingress.enabled: false, or leave gateway out",
        field="ingress",
        holds=lambda o: not ("ingress" in o and o["ingress"]["enabled"] and "gateway" in o),
    ),
)

_PREDICTOR = (
    Rule(
        cel="!(has(self.replicas) && has(self.autoscaling) && self.autoscaling.class in ['hpa', 'keda'])",
        message="the autoscaler decides the number of pods: leave replicas out and set autoscaling.minReplicas and maxReplicas, or set "
        "autoscaling.class: none",
        field="replicas",
        holds=lambda o: not ("replicas" in o and o.get("autoscaling", {}).get("class") in SCALERS),
    ),
    Rule(
        cel="!(has(self.autoscaling) && self.autoscaling.class == 'external') || has(self.replicas)",
        message="a scaler of your own reads the number of pods before it writes one: write replicas, e.g. 1, to begin with",
        field="replicas",
        holds=lambda o: o.get("autoscaling", {}).get("class") != "external" or "replicas" in o,
    ),
    Rule(
        cel="self.drainSeconds + 5 < self.terminationGracePeriodSeconds",
        message="nothing is left of terminationGracePeriodSeconds for requests in flight: make it more than drainSeconds + 5",
        field="terminationGracePeriodSeconds",
        holds=lambda o: o["drainSeconds"] + 5 < o["terminationGracePeriodSeconds"],
    ),
    Rule(
        cel="!(self.placement == 'onePerNode' && has(self.topologySpreadConstraints))",
        message="placement onePerNode already decides how pods spread: leave topologySpreadConstraints out, or set placement: spread",
        field="topologySpreadConstraints",
        holds=lambda o: not (o["placement"] == "onePerNode" and "topologySpreadConstraints" in o),
    ),
    Rule(
        cel="!(has(self.resources) && has(self.accelerator.resourceName)) || !((has(self.resources.requests) && "
        "self.accelerator.resourceName in self.resources.requests) || (has(self.resources.limits) && self.accelerator.resourceName in "
        "self.resources.limits))",
        message="accelerator.resourceName is already requested accelerator.count times: leave it out of resources",
        field="resources",
        holds=lambda o: (
            not any(
                o["accelerator"].get("resourceName", "") in given
                for given in o.get("resources", {}).values()
            )
        ),
    ),
    Rule(
        cel=f"!has(self.args) || !self.args.exists(one, one.matches('{OWN_OPTIONS_PATTERN}'))",
        message="these options are set from fields that the Service, the probes and the pod also use: write predictor.ports, drainSeconds, "
        "terminationGracePeriodSeconds or spec.auth instead of --http-port, --grpc-port, --metrics-port, --shutdown-delay-secs, "
        "--exit-timeout-secs or --auth-token-file",
        field="args",
        holds=lambda o: not any(matches(OWN_OPTIONS_PATTERN, one) for one in o.get("args", ())),
    ),
)

_ACCELERATOR = (
    Rule(
        cel="has(self.profile) == (self.type == 'mig')",
        message="profile is the MIG profile: write it with type: mig, e.g. profile: 1g.10gb, and leave it out otherwise",
        field="profile",
        holds=lambda o: ("profile" in o) == (o["type"] == "mig"),
    ),
    Rule(
        cel=f"!has(self.profile) || self.profile.matches('{accelerator.CEL_PROFILE_PATTERN}')",
        message="write a MIG profile as nvidia-smi does, e.g. 1g.10gb, 3g.40gb or 1g.10gb+me",
        field="profile",
        holds=lambda o: "profile" not in o or matches(accelerator.PROFILE_PATTERN, o["profile"]),
    ),
    Rule(
        cel="self.type != 'mig' || self.count == 1",
        message="a process opens one MIG device, so a pod gets one: write count: 1 and raise predictor.replicas",
        field="count",
        holds=lambda o: o["type"] != "mig" or o["count"] == 1,
    ),
    Rule(
        cel="self.strategy != 'single' || (self.type == 'mig' && has(self.product))",
        message="with strategy: single every slice is called nvidia.com/gpu, so only the node's product shows the profile: write type: mig "
        "and product, e.g. NVIDIA-H100-80GB-HBM3",
        field="strategy",
        holds=lambda o: o["strategy"] != "single" or (o["type"] == "mig" and "product" in o),
    ),
    Rule(
        cel="self.strategy == 'dra' || !(has(self.deviceClassName) || has(self.celSelectors))",
        message="deviceClassName and celSelectors describe a resource claim: set strategy: dra, or leave them out",
        field="strategy",
        holds=lambda o: (
            o["strategy"] == "dra" or not ("deviceClassName" in o or "celSelectors" in o)
        ),
    ),
    Rule(
        cel="!has(self.resourceName) || self.strategy != 'dra'",
        message="a resource claim requests a deviceClassName, not a resourceName: leave resourceName out",
        field="resourceName",
        holds=lambda o: "resourceName" not in o or o["strategy"] != "dra",
    ),
    Rule(
        cel=f"!has(self.resourceName) || self.resourceName.matches('{accelerator.RESOURCE_PATTERN}')",
        message="write the resource as nodes offer it, with its domain, e.g. nvidia.com/gpu.shared or amd.com/gpu",
        field="resourceName",
        holds=lambda o: (
            "resourceName" not in o or matches(accelerator.RESOURCE_PATTERN, o["resourceName"])
        ),
    ),
    Rule(
        cel="!has(self.product) || self.strategy == 'dra' || !self.product.contains(' ')",
        message="a node's label nvidia.com/gpu.product has no spaces: write '-' in their place, e.g. NVIDIA-H100-80GB-HBM3",
        field="product",
        holds=lambda o: "product" not in o or o["strategy"] == "dra" or " " not in o["product"],
    ),
    Rule(
        cel="self.type != 'none' || !(has(self.resourceName) || has(self.product) || self.strategy == 'dra' || self.count > 1)",
        message="type: none requests no device: leave count, product, resourceName and strategy out, or set type: gpu",
        field="type",
        holds=lambda o: (
            o["type"] != "none"
            or not (
                "resourceName" in o or "product" in o or o["strategy"] == "dra" or o["count"] > 1
            )
        ),
    ),
)

_RESOURCES = tuple(
    Rule(
        cel=f"!has(self.{field}) || self.{field}.all(name, !name.startsWith('nvidia.com/'))",
        message="GPUs are requested in predictor.accelerator, e.g. type: mig with profile: 1g.10gb: leave nvidia.com/ out here",
        field=field,
        holds=lambda o, field=field: (
            not any(  # type: ignore[misc] # mypy cannot infer a lambda with a default
                name.startswith("nvidia.com/") for name in o.get(field, {})
            )
        ),
    )
    for field in ("requests", "limits")
)

_ENV = (
    Rule(
        cel="!(has(self.value) && has(self.valueFrom))",
        message="a variable has a value or a valueFrom: leave one of them out",
        field="valueFrom",
        holds=lambda o: not ("value" in o and "valueFrom" in o),
    ),
)

_TOLERATION = (
    Rule(
        cel="self.operator == 'Exists' ? !has(self.value) : has(self.key)",
        message="operator: Exists takes no value, operator: Equal needs a key",
        field="operator",
        holds=lambda o: ("value" not in o) if o["operator"] == "Exists" else ("key" in o),
    ),
)

_PORTS = (
    Rule(
        cel="self.http != self.grpc && self.http != self.metrics && self.grpc != self.metrics",
        message="http, grpc and metrics need three different ports",
        holds=lambda o: len({o["http"], o["grpc"], o["metrics"]}) == 3,  # noqa: PLR2004 - as in the message
    ),
)

_AUTOSCALING = (
    Rule(
        cel=f"(has(self.maxReplicas) ? self.maxReplicas : {scaling.DEFAULT_MAX_REPLICAS}) >= (has(self.minReplicas) ? self.minReplicas : {scaling.DEFAULT_MIN_REPLICAS})",
        message=f"write a maxReplicas that is at least minReplicas; without one it is {scaling.DEFAULT_MAX_REPLICAS}",
        field="maxReplicas",
        holds=lambda o: (
            o.get("maxReplicas", scaling.DEFAULT_MAX_REPLICAS)
            >= o.get("minReplicas", scaling.DEFAULT_MIN_REPLICAS)
        ),
    ),
    Rule(
        cel="!has(self.minReplicas) || self.minReplicas > 0 || (self.class == 'keda' && has(self.triggers) && size(self.triggers) > 0)",
        message="without a pod no metric shows that a request waits: write minReplicas: 1, or class: keda with a trigger from your ingress "
        "in triggers; to stop a service, set suspend: true",
        field="minReplicas",
        holds=lambda o: (
            o.get("minReplicas", 1) > 0 or (o["class"] == "keda" and bool(o.get("triggers")))
        ),
    ),
    Rule(
        cel="!(self.class in ['hpa', 'keda']) || has(self.queueTimeMs) || has(self.pendingRequests) || "
        "(has(self.metrics) && size(self.metrics) > 0) || (has(self.triggers) && size(self.triggers) > 0)",
        message="the autoscaler needs a metric: write queueTimeMs, e.g. 10, or pendingRequests, e.g. 16",
        field="class",
        holds=lambda o: (
            o["class"] not in SCALERS
            or "queueTimeMs" in o
            or "pendingRequests" in o
            or bool(o.get("metrics"))
            or bool(o.get("triggers"))
        ),
    ),
    Rule(
        cel="self.class in ['hpa', 'keda'] || !(has(self.minReplicas) || has(self.maxReplicas) || has(self.queueTimeMs) || "
        "has(self.pendingRequests) || has(self.behavior))",
        message="minReplicas, maxReplicas, queueTimeMs, pendingRequests and behavior configure an autoscaler: set class: hpa or class: keda, or "
        "leave them out",
        field="class",
        holds=lambda o: (
            o["class"] in SCALERS
            or not o.keys()
            & {"minReplicas", "maxReplicas", "queueTimeMs", "pendingRequests", "behavior"}
        ),
    ),
    Rule(
        cel="self.class == 'hpa' || !has(self.metrics)",
        message="metrics are those of a HorizontalPodAutoscaler: set class: hpa, or write triggers for class: keda",
        field="metrics",
        holds=lambda o: _only(o, "metrics", when=o["class"] == "hpa"),
    ),
    Rule(
        cel="self.class == 'keda' || !(has(self.triggers) || has(self.prometheusAddress))",
        message="triggers and prometheusAddress are KEDA's: set class: keda, or leave them out",
        field="triggers",
        holds=lambda o: o["class"] == "keda" or not ("triggers" in o or "prometheusAddress" in o),
    ),
)

_STRATEGY = (
    Rule(
        cel="self.type != 'Recreate' || !(has(self.maxSurge) || has(self.maxUnavailable))",
        message="type: Recreate ends all pods first: leave maxSurge and maxUnavailable out",
        field="type",
        holds=lambda o: o["type"] != "Recreate" or not ("maxSurge" in o or "maxUnavailable" in o),
    ),
    Rule(
        cel="!(has(self.maxSurge) && has(self.maxUnavailable) && (self.maxSurge == 0 || self.maxSurge == '0%') && "
        "(self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",
        message="with both 0 no pod could ever be replaced: write maxUnavailable: 1 or maxSurge: 1",
        field="maxUnavailable",
        holds=lambda o: (
            not (o.get("maxSurge") in (0, "0%") and o.get("maxUnavailable") in (0, "0%"))
        ),
    ),
)

_INGRESS = (
    Rule(
        cel="!(has(self.annotations) && !has(self.host)) && !(has(self.grpcAnnotations) && !has(self.grpcHost))",
        message="annotations belong to the Ingress of host, grpcAnnotations to that of grpcHost: write the host, or leave them out",
        field="annotations",
        holds=lambda o: (
            not ("annotations" in o and "host" not in o)
            and not ("grpcAnnotations" in o and "grpcHost" not in o)
        ),
    ),
    Rule(
        cel="!self.enabled || has(self.host) || has(self.grpcHost)",
        message="write the host that clients use in host, in grpcHost, or in both",
        field="host",
        holds=lambda o: not o["enabled"] or "host" in o or "grpcHost" in o,
    ),
    Rule(
        cel="!(has(self.host) && has(self.grpcHost)) || self.host != self.grpcHost",
        message="most controllers speak one protocol to the pods of one host: give grpcHost a name of its own, e.g. grpc.example.com",
        field="grpcHost",
        holds=lambda o: "host" not in o or o["host"] != o.get("grpcHost"),
    ),
)

_GATEWAY = (
    Rule(
        cel="!(has(self.hostnames) && has(self.grpcHostnames)) || !self.grpcHostnames.exists(name, name in self.hostnames)",
        message="one host takes an HTTPRoute or a GRPCRoute: write other names into grpcHostnames than into hostnames",
        field="grpcHostnames",
        holds=lambda o: not set(o.get("hostnames", ())) & set(o.get("grpcHostnames", ())),
    ),
)

_MONITORING = (
    Rule(
        cel="!(self.podMonitor && self.serviceMonitor)",
        message="both would scrape every pod twice: set podMonitor: true or serviceMonitor: true",
        field="serviceMonitor",
        holds=lambda o: not (o["podMonitor"] and o["serviceMonitor"]),
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
    accelerator.Accelerator: _ACCELERATOR,
    pod.Resources: _RESOURCES,
    pod.EnvVar: _ENV,
    pod.Toleration: _TOLERATION,
    pod.Ports: _PORTS,
    scaling.Autoscaling: _AUTOSCALING,
    scaling.DeploymentStrategy: _STRATEGY,
    traffic.Ingress: _INGRESS,
    traffic.Gateway: _GATEWAY,
    traffic.Monitoring: _MONITORING,
}
"""The rules of each part of the resource."""
