"""Resources that break a rule of the other parts of a pod, and some that look as if."""

from tests.operator.api.specs import Manifest
from tests.support import manifests

BAD: dict[str, tuple[Manifest, str]] = {
    "models to wait for, and no policy": (
        manifests.resource(readiness={"models": ["a"]}),
        "spec.predictor.readiness.models",
    ),
    "a policy of models without any": (
        manifests.resource(readiness={"policy": "models"}),
        "spec.predictor.readiness.models",
    ),
    "GPUs in the requests": (
        manifests.resource(resources={"requests": {"nvidia.com/gpu": 1}}),
        "spec.predictor.resources.requests",
    ),
    "GPUs in the limits": (
        manifests.resource(resources={"limits": {"cpu": 1, "nvidia.com/mig-1g.10gb": 1}}),
        "spec.predictor.resources.limits",
    ),
    "two values of a variable": (
        manifests.resource(env=[{"name": "A", "value": "b", "valueFrom": {}}]),
        "spec.predictor.env[0].valueFrom",
    ),
    "a toleration of every taint with a value": (
        manifests.resource(tolerations=[{"operator": "Exists", "value": "a"}]),
        "spec.predictor.tolerations[0].operator",
    ),
    "a toleration of no key": (
        manifests.resource(tolerations=[{"value": "a"}]),
        "spec.predictor.tolerations[0].operator",
    ),
    "one port twice": (manifests.resource(ports={"grpc": 8000}), "spec.predictor.ports"),
}  # fmt: skip
