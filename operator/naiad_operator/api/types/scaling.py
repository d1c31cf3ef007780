"""The number of pods, who decides it, and how pods are replaced."""

import typing

import msgspec

from naiad_operator.api.types.bounds import AnyObject, LongText, ObjectName, Text
from naiad_operator.api.types.structs import Part

IntOrPercent = int | typing.Annotated[str, msgspec.Meta(max_length=4, pattern="^[0-9]{1,3}%$")]
Milliseconds = typing.Annotated[int, msgspec.Meta(ge=1, le=3_600_000)]
Replicas = typing.Annotated[int, msgspec.Meta(ge=0, le=1000)]
DEFAULT_MIN_REPLICAS = 1
DEFAULT_MAX_REPLICAS = 4
"""The limits of an autoscaler when the spec sets none. They are not schema defaults, because they have no effect with class none."""

RawObjects = typing.Annotated[tuple[AnyObject, ...], msgspec.Meta(max_length=8)]


class PrometheusAuth(Part, frozen=True):
    """How KEDA authenticates to Prometheus: OpenShift's Thanos, Amazon's, Google's or Azure's managed one, or one behind a password.

    Attributes:
        name: a TriggerAuthentication in the service's namespace, or a ClusterTriggerAuthentication; it names the Secret or the pod identity,
            which the operator never reads.
        kind: which of the two it is.
        modes: how its values are sent, e.g. bearer; leave it out where it names a pod identity (Amazon, Google, Azure).
        aws_region: the region of Amazon Managed Prometheus.
        namespace_parameter: whether the service's namespace is sent as a parameter, as the tenancy port of OpenShift's Thanos needs it.
    """

    name: ObjectName
    kind: typing.Literal["TriggerAuthentication", "ClusterTriggerAuthentication"] = (
        "TriggerAuthentication"
    )
    modes: (
        typing.Annotated[
            tuple[typing.Literal["bearer", "basic", "tls", "custom", "apiKey", "oauth"], ...],
            msgspec.Meta(min_length=1, max_length=4),
        ]
        | None
    ) = None
    aws_region: typing.Annotated[str, msgspec.Meta(min_length=1, max_length=63)] | None = None
    namespace_parameter: bool = False


class Activation(Part, frozen=True):
    """What starts the first pod of a service that has none (keda with minReplicas 0). Requests that come without a pod are refused, not held.

    Attributes:
        source: the ingress controller whose count of requests starts it; ingress.className when not set.
        query: a PromQL query in place of source; a result above 0 starts the first pod.
        idle_seconds: seconds without requests after which the last pod ends; when not set 300, or what probes.startup allows if that is more.
    """

    source: typing.Literal["nginx", "traefik"] | None = None
    query: LongText | None = None
    idle_seconds: typing.Annotated[int, msgspec.Meta(ge=60, le=86400)] | None = None


class Autoscaling(Part, frozen=True):
    """Who decides how many pods there are.

    Attributes:
        scaler: none keeps predictor.replicas; hpa and keda create an autoscaler; external is an autoscaler of your own that uses this
            resource's scale subresource.
        min_replicas: minimum number of pods (hpa and keda), 1 when not set; 0 only with keda and something that starts the first pod:
            activation, an ingress whose className is nginx or traefik, or triggers.
        max_replicas: maximum number of pods (hpa and keda), 4 when not set.
        queue_time_ms: the average milliseconds a request may wait for an instance before pods are added.
        pending_requests: the waiting requests a pod may have on average before pods are added.
        metrics: further metrics, each a MetricSpec of autoscaling/v2 (hpa only).
        triggers: further triggers, each as in a ScaledObject (keda only).
        behavior: how fast to scale, as in autoscaling/v2; the default adds at most 2 pods per minute and removes 1 pod every two minutes.
        prometheus_address: the Prometheus that KEDA queries (keda only); by default the one the operator was installed with.
        prometheus_auth: how KEDA authenticates there (keda only).
        activation: what starts the first pod of a service that has none (keda with minReplicas 0 only).
    """

    scaler: typing.Literal["none", "hpa", "keda", "external"] = msgspec.field(
        default="none", name="class"
    )
    min_replicas: Replicas | None = None
    max_replicas: typing.Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    queue_time_ms: Milliseconds | None = None
    pending_requests: typing.Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    metrics: RawObjects | None = None
    triggers: RawObjects | None = None
    behavior: AnyObject | None = None
    prometheus_address: Text | None = None
    prometheus_auth: PrometheusAuth | None = None
    activation: Activation | None = None

    @property
    def effective_min_replicas(self) -> int:
        """The minimum number of pods, with the default."""
        return DEFAULT_MIN_REPLICAS if self.min_replicas is None else self.min_replicas

    @property
    def effective_max_replicas(self) -> int:
        """The maximum number of pods, with the default."""
        return DEFAULT_MAX_REPLICAS if self.max_replicas is None else self.max_replicas


class DeploymentStrategy(Part, frozen=True):
    """How pods are replaced when something changes.

    Attributes:
        type: RollingUpdate replaces pods step by step; Recreate ends all before new ones start.
        max_surge: pods above the wanted number during a rollout; default 0 with an accelerator or onePerNode, since a new pod would
            wait for ever for a GPU that the old one holds, else 1.
        max_unavailable: pods below the wanted number during a rollout; default 1 with an accelerator or onePerNode, else 0.
    """

    type: typing.Literal["RollingUpdate", "Recreate"] = "RollingUpdate"
    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None


class PodDisruptionBudget(Part, frozen=True):
    """How many pods may be unavailable at once while nodes are drained.

    Attributes:
        max_unavailable: a number or a percentage.
    """

    max_unavailable: IntOrPercent = 1
