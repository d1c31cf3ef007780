"""The validation rules of an InferenceService as a whole, of its predictor, its canary and of a profile."""

from naiad_operator.api.rules import model, traffic
from naiad_operator.api.rules.rule import Rule

NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

OWN_LABELS = [
    f"app.kubernetes.io/{name}" for name in ("name", "instance", "component", "managed-by")
]

_OWN_OPTIONS = {
    "http-port": "http-p",
    "grpc-port": "grpc-p",
    "metrics-port": "metrics-p",
    "shutdown-delay-secs": "sh",
    "exit-timeout-secs": "exit-t",
    "auth-token-file": "au",
    "http-base-path": "http-ba",
}
"""Options that the operator writes, and the shortest beginning by which the server knows each. tests/seams compares them with the server's."""


def _beginnings(name: str, shortest: str) -> str:
    """A pattern for an option and its beginnings, e.g. http-p(o(r(t)?)?)?."""
    rest = name[len(shortest) :]
    return shortest + "".join(f"({letter}" for letter in rest) + ")?" * len(rest)


OWN_OPTIONS_PATTERN = (
    f"^--({'|'.join(_beginnings(name, short) for name, short in _OWN_OPTIONS.items())})(=|$)"
)

ROOT = (
    Rule(
        cel=f"size(self.metadata.name) <= 50 && self.metadata.name.matches('{NAME_PATTERN}')",
        message="the name becomes that of a Service: at most 50 lower-case letters, digits and '-', a letter first and no '-' at the end",
        field="metadata.name",
    ),
    Rule(
        cel="size(self.metadata.name) <= 44 || !(has(self.spec.canary) && has(self.spec.transformer))",
        message="with canary and transformer there is a Service <name>-canary-transformer: make the name 44 characters at most, or leave one of both out",
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

SPEC = (
    _STARTS_AGAIN,
    Rule(
        cel="!(has(self.ingress) && self.ingress.enabled && has(self.gateway))",
        message="a service is reached by an Ingress or by Gateway routes: set ingress.enabled: false, or leave gateway out",
        field="ingress",
    ),
    *_METADATA,
    *traffic.SPEC,
)

COMPONENT = (
    Rule(
        cel="!(has(self.replicas) && has(self.autoscaling))",
        message="the autoscaler decides the number of pods: leave replicas out, or autoscaling",
        field="replicas",
    ),
    Rule(
        cel="!has(self.storage) || has(self.storageUri)",
        message="storage says how the store of storageUri is reached: write both, or leave storage out",
        field="storage",
    ),
    *model.ADDRESS,
)

COMPONENT_SCALING = (
    Rule(
        cel="self.maxReplicas >= self.minReplicas",
        message="write a maxReplicas that is at least minReplicas",
        field="maxReplicas",
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

PREDICTOR = (
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

PROFILE = (_ARGS, *_METADATA)

CANARY = (
    _ONE_DECIDES,
    _ARGS,
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
