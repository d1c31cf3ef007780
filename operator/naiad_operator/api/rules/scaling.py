"""The validation rules of the number of pods and of how pods are replaced."""

from naiad_operator.api.rules.rule import Rule
from naiad_operator.api.types import scaling

AUTOSCALING = (
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

ACTIVATION = (
    Rule(
        cel="!(has(self.source) && has(self.query))",
        message="source counts the requests of an ingress controller, query stands in its place: leave one of them out",
        field="query",
    ),
)

STRATEGY = (
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
