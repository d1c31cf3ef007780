"""The number of pods, who decides it, and how pods are replaced."""

import typing

import msgspec

from naiad_operator.api.bounds import AnyObject, Text
from naiad_operator.api.structs import Part

IntOrPercent = int | typing.Annotated[str, msgspec.Meta(max_length=4, pattern="^[0-9]{1,3}%$")]
Milliseconds = typing.Annotated[int, msgspec.Meta(ge=1, le=3_600_000)]
Replicas = typing.Annotated[int, msgspec.Meta(ge=0, le=1000)]
DEFAULT_MIN_REPLICAS = 1
DEFAULT_MAX_REPLICAS = 4
"""The limits of an autoscaler when the spec sets none. They are not schema defaults, because they have no effect with class none."""

RawObjects = typing.Annotated[tuple[AnyObject, ...], msgspec.Meta(max_length=8)]


class Autoscaling(Part, frozen=True):
    """Who decides how many pods there are.

    Attributes:
        scaler: none keeps predictor.replicas; hpa and keda create an autoscaler; external is an autoscaler of your own that uses this
            resource's scale subresource.
        min_replicas: minimum number of pods (hpa and keda), 1 when not set; 0 only with keda and a trigger of your own that can scale a
            service up from zero pods.
        max_replicas: maximum number of pods (hpa and keda), 4 when not set.
        queue_time_ms: the average milliseconds a request may wait for an instance before pods are added.
        pending_requests: the waiting requests a pod may have on average before pods are added.
        metrics: further metrics, each a MetricSpec of autoscaling/v2 (hpa only).
        triggers: further triggers, each as in a ScaledObject (keda only).
        behavior: how fast to scale, as in autoscaling/v2; the default adds at most 2 pods per minute and removes 1 pod every two minutes.
        prometheus_address: the Prometheus that KEDA queries (keda only); by default the one the operator was installed with.
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
