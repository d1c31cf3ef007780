"""The other parts of a pod: image, environment, ports, probes, resources, placement."""

import typing

import msgspec

from naiad_operator.api.types.bounds import (
    AnyObject,
    Key,
    LabelValue,
    LongText,
    ObjectName,
    Port,
    Quantity,
    Text,
)
from naiad_operator.api.types.structs import Part

Image = typing.Annotated[str, msgspec.Meta(max_length=512, pattern=r"^[^\s]*$")]
ServerVersion = typing.Annotated[
    str, msgspec.Meta(max_length=32, pattern=r"^[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}$")
]
EnvName = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=253, pattern="^[-._a-zA-Z][-._a-zA-Z0-9]*$")
]
Amounts = typing.Annotated[dict[Key, int | Quantity], msgspec.Meta(max_length=16)]
RawObjects = typing.Annotated[tuple[AnyObject, ...], msgspec.Meta(max_length=16)]


class SecretReference(Part, frozen=True):
    """A Secret in the service's namespace.

    Attributes:
        name: its name.
    """

    name: ObjectName


class EnvVar(Part, frozen=True):
    """One environment variable.

    Attributes:
        name: its name.
        value: its value.
        value_from: the source of its value, as in a pod.
    """

    name: EnvName
    value: LongText | None = None
    value_from: AnyObject | None = None


PullSecrets = typing.Annotated[tuple[SecretReference, ...], msgspec.Meta(max_length=8)]
Arguments = typing.Annotated[tuple[Text, ...], msgspec.Meta(max_length=64)]
Variables = typing.Annotated[tuple[EnvVar, ...], msgspec.Meta(max_length=64)]
NodeSelector = typing.Annotated[dict[Key, LabelValue], msgspec.Meta(max_length=32)]


class Ports(Part, frozen=True):
    """The ports the server listens on.

    Attributes:
        http: HTTP, and the probes.
        grpc: gRPC.
        metrics: metrics for Prometheus, model states for the operator.
    """

    http: Port = 8000
    grpc: Port = 8001
    metrics: Port = 8002


class Resources(Part, frozen=True):
    """CPU, memory and ephemeral storage of the server's container. GPUs are requested by predictor.accelerator.

    Attributes:
        requests: what is reserved for the pod; CPU and memory without a request and a limit are requested by the operator's --default-requests.
        limits: what the pod may use.
    """

    requests: Amounts | None = None
    limits: Amounts | None = None


class Toleration(Part, frozen=True):
    """A taint that pods tolerate, as in a pod.

    Attributes:
        key: the taint's key; none with operator Exists means every taint.
        operator: Exists or Equal.
        value: the taint's value (Equal only).
        effect: the taint's effect; none means every effect.
        toleration_seconds: how long a NoExecute taint is tolerated.
    """

    key: Key | None = None
    operator: typing.Literal["Exists", "Equal"] = "Equal"
    value: LabelValue | None = None
    effect: typing.Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: typing.Annotated[int, msgspec.Meta(ge=0)] | None = None


Tolerations = typing.Annotated[tuple[Toleration, ...], msgspec.Meta(max_length=16)]
ReadyModelName = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[^\s=,]+$")
]
_Seconds = typing.Annotated[int, msgspec.Meta(ge=1, le=3600)]
_Times = typing.Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class StartupProbe(Part, frozen=True):
    """How long models may take to load: periodSeconds times failureThreshold, then the container is restarted.

    Attributes:
        period_seconds: seconds between two checks; when not set 1, or 10 beside a failureThreshold.
        timeout_seconds: seconds to wait for a response.
        failure_threshold: how many checks in a row may fail; when not set 600, or 60 beside a periodSeconds.
    """

    period_seconds: _Seconds | None = None
    timeout_seconds: _Seconds = 5
    failure_threshold: _Times | None = None

    def period(self) -> int:
        """Seconds between two checks.

        Where nothing is set it is 1: a pod serves as soon as its models are loaded, and not up to ten seconds later. The first release had 10 and 60 as
        defaults, so that a manifest with one of the two goes on meaning the time that it meant.
        """
        if self.period_seconds is not None:
            return self.period_seconds
        return 1 if self.failure_threshold is None else 10

    def checks(self) -> int:
        """How many checks in a row may fail."""
        if self.failure_threshold is not None:
            return self.failure_threshold
        return 600 if self.period_seconds is None else 60

    def seconds(self) -> int:
        """How long models may take to load."""
        return self.period() * self.checks()


class ReadinessProbe(Part, frozen=True):
    """When a pod receives traffic.

    Attributes:
        period_seconds: seconds between two checks.
        timeout_seconds: seconds to wait for a response.
        failure_threshold: how many checks in a row must fail until the pod receives no traffic.
    """

    period_seconds: _Seconds = 5
    timeout_seconds: _Seconds = 5
    failure_threshold: _Times = 2


class LivenessProbe(Part, frozen=True):
    """When a server counts as stuck and its container is restarted.

    Attributes:
        period_seconds: seconds between two checks.
        timeout_seconds: seconds to wait for a response.
        failure_threshold: how many checks in a row must fail.
    """

    period_seconds: _Seconds = 10
    timeout_seconds: _Seconds = 10
    failure_threshold: _Times = 3


class Probes(Part, frozen=True):
    """How the kubelet checks the server.

    Attributes:
        startup: how long models may take to load.
        readiness: when a pod receives traffic.
        liveness: when a server counts as stuck.
    """

    startup: StartupProbe = StartupProbe()
    readiness: ReadinessProbe = ReadinessProbe()
    liveness: LivenessProbe = LivenessProbe()


class Readiness(Part, frozen=True):
    """Which models must be ready for a pod to receive traffic.

    Attributes:
        policy: all requires every model, as Triton does: one that fails keeps the pod out of the Service. any requires at least one, models
            those in models; requests for the others get an error.
        models: the models that must be ready (models only).
    """

    policy: typing.Literal["all", "any", "models"] = "all"
    models: (
        typing.Annotated[tuple[ReadyModelName, ...], msgspec.Meta(min_length=1, max_length=64)]
        | None
    ) = None
