"""Resources that break a rule of the number of pods and their replacement, and some that look as if."""

from tests.operator.api.specs import MODEL, Manifest, hpa, spec
from tests.support import manifests

BAD: dict[str, tuple[Manifest, str]] = {
    "fewer at most than at least": (
        hpa(minReplicas=5, maxReplicas=4),
        "spec.predictor.autoscaling.maxReplicas",
    ),
    "no pod and an HPA": (hpa(minReplicas=0), "spec.predictor.autoscaling.minReplicas"),
    "no pod and nothing to start one": (
        manifests.resource(autoscaling={"class": "keda", "queueTimeMs": 5, "minReplicas": 0}),
        "spec.predictor",
    ),
    "no pod and an activation that names nothing": (
        manifests.resource(
            autoscaling={"class": "keda", "minReplicas": 0, "activation": {"idleSeconds": 90}}
        ),
        "spec.predictor",
    ),
    "an activation of a service that keeps a pod": (
        manifests.resource(
            autoscaling={"class": "keda", "queueTimeMs": 5, "activation": {"source": "nginx"}}
        ),
        "spec.predictor.autoscaling.activation",
    ),
    "two kinds of activation": (
        manifests.resource(
            autoscaling={
                "class": "keda",
                "minReplicas": 0,
                "activation": {"source": "nginx", "query": "vector(1)"},
            }
        ),
        "spec.predictor.autoscaling.activation.query",
    ),
    "credentials of an HPA": (
        hpa(prometheusAuth={"name": "thanos"}),
        "spec.predictor.autoscaling.triggers",
    ),
    "an autoscaler that looks at nothing": (
        manifests.resource(autoscaling={"class": "hpa", "metrics": []}),
        "spec.predictor.autoscaling.class",
    ),
    "a maximum without an autoscaler": (
        manifests.resource(autoscaling={"class": "external", "maxReplicas": 9}, replicas=1),
        "spec.predictor.autoscaling.class",
    ),
    "fewer than the default most": (hpa(minReplicas=5), "spec.predictor.autoscaling.maxReplicas"),
    "a queue time without an autoscaler": (
        manifests.resource(autoscaling={"queueTimeMs": 5}),
        "spec.predictor.autoscaling.class",
    ),
    "metrics of KEDA": (
        manifests.resource(autoscaling={"class": "keda", "metrics": [{}]}),
        "spec.predictor.autoscaling.metrics",
    ),
    "triggers of an HPA": (hpa(triggers=[{}]), "spec.predictor.autoscaling.triggers"),
    "an address of an HPA": (
        hpa(prometheusAddress="http://p"),
        "spec.predictor.autoscaling.triggers",
    ),
    "a surge of Recreate": (
        manifests.resource(deploymentStrategy={"type": "Recreate", "maxSurge": 1}),
        "spec.predictor.deploymentStrategy.type",
    ),
    "no way to replace a pod": (
        manifests.resource(deploymentStrategy={"maxSurge": 0, "maxUnavailable": "0%"}),
        "spec.predictor.deploymentStrategy.maxUnavailable",
    ),
}  # fmt: skip

GOOD: dict[str, Manifest] = {
    "KEDA to zero": manifests.resource(
        autoscaling={"class": "keda", "minReplicas": 0, "triggers": [{"type": "cron"}]}
    ),
    "KEDA to zero by the ingress": spec(
        predictor={"model": MODEL, "autoscaling": {"class": "keda", "minReplicas": 0}},
        ingress={"enabled": True, "host": "a.example", "className": "nginx"},
    ),
    "KEDA to zero by a query": manifests.resource(
        autoscaling={
            "class": "keda",
            "minReplicas": 0,
            "activation": {"query": "vector(1)"},
            "prometheusAuth": {"name": "thanos", "modes": ["bearer"], "namespaceParameter": True},
        }
    ),
    "a surge of percent": manifests.resource(
        deploymentStrategy={"maxSurge": "25%", "maxUnavailable": 0}
    ),
}
