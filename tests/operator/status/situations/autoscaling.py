"""What a cluster can show of a service, and what its Ready condition then says: its autoscaler."""

from tests.operator.status.parts import HPA, KEDA, Manifest, hpa, said
from tests.support import manifests
from tests.support.observations import (
    deployment,
)

NOT: dict[str, tuple[Manifest, tuple[str, str]]] = {
    "the autoscaler gets no metrics": (
        {
            "resource": manifests.resource(**HPA),
            "children": hpa(said("ScalingActive", "False", "FailedGetPodsMetric", "no metrics returned from custom metrics API")),
        },
        (
            "MetricsUnavailable",
            "no metrics returned from custom metrics API (is prometheus-adapter installed with the rules of manifests/monitoring, and is there a PodMonitor?)",
        ),
    ),
    "the autoscaler gets no CPU's use": (
        {
            "resource": manifests.resource(**HPA),
            "children": hpa(said("ScalingActive", "False", "FailedGetResourceMetric", "unable to get metrics for resource cpu")),
        },
        ("MetricsUnavailable", "unable to get metrics for resource cpu (is metrics-server installed?)"),
    ),
    "the autoscaler cannot scale": (
        {"resource": manifests.resource(**HPA), "children": hpa(said("AbleToScale", "False", "FailedGetScale", "no scale"))},
        ("CannotScale", "FailedGetScale: no scale"),
    ),
    "the autoscaler cannot scale and does not say why": (
        {"resource": manifests.resource(**HPA), "children": hpa({"type": "AbleToScale", "status": "False"})},
        ("CannotScale", "AbleToScale is False, without a reason"),
    ),
    "the cluster has no KEDA": (
        {"resource": manifests.resource(**KEDA), "facts": manifests.facts(missing=["keda.sh/v1alpha1/ScaledObject"])},
        ("KedaMissing", "this cluster has no ScaledObject (keda.sh/v1alpha1): install KEDA 2.17 or newer, or set autoscaling.class: hpa"),
    ),
    "KEDA refuses its object": (
        {
            "resource": manifests.resource(**KEDA),
            "children": {("ScaledObject", "demo"): {"status": {"conditions": [said("Ready", "False", "Error", "no such trigger")]}}},
        },
        ("ScaledObjectNotReady", "Error: no such trigger"),
    ),
    "KEDA cannot read a metric": (
        {
            "resource": manifests.resource(**KEDA),
            "children": {("ScaledObject", "demo"): {"status": {"conditions": [said("Ready", "Unknown", "PartialTriggerError", "Some triggers do not work")]}}},
        },
        (
            "MetricsUnavailable",
            "Some triggers do not work (does Prometheus answer at autoscaling.prometheusAddress, does it want autoscaling.prometheusAuth, and does it scrape these pods and the ingress controller?)",
        ),
    ),
    "KEDA falls back": (
        {
            "resource": manifests.resource(**KEDA),
            "children": {
                ("ScaledObject", "demo"): {
                    "status": {"conditions": [said("Ready", "True", ""), said("Fallback", "True", "FallbackExists")]}
                }
            },
        },
        ("MetricsUnavailable", "KEDA cannot read its metrics and keeps the fallback number of pods"),
    ),
    "KEDA scaled it to nothing": (
        {"resource": manifests.resource(**KEDA), "children": {("Deployment", "demo"): deployment(0)}},
        ("ScaledToZero", "the autoscaler keeps no pod while there are no requests"),
    ),
}  # fmt: skip
