"""The status of an InferenceService. The operator writes it; `status.compute` computes it."""

import typing

import msgspec

from naiad_operator.api.types.structs import Part

_Word = typing.Annotated[str, msgspec.Meta(max_length=316)]
_Sentence = typing.Annotated[str, msgspec.Meta(max_length=4096)]
_Time = typing.Annotated[str, msgspec.Meta(max_length=32)]
_Count = typing.Annotated[int, msgspec.Meta(ge=0)]

NOT_OBSERVED: dict[str, typing.Any] = {"conditions": [], "observedGeneration": 0}
"""The status of a resource that no operator has seen, as the API server fills it in."""


class Condition(Part, frozen=True):
    """One aspect of a service.

    Attributes:
        type: which aspect.
        status: whether it holds.
        reason: the reason in one word, for machines.
        message: the reason in one sentence, for people; may be empty.
        last_transition_time: when status last changed.
        observed_generation: the generation of the spec that this is about.
    """

    type: _Word
    status: typing.Literal["True", "False", "Unknown"]
    reason: _Word
    message: _Sentence
    last_transition_time: _Time
    observed_generation: _Count


class Address(Part, frozen=True):
    """Where the service is reached inside the cluster.

    Attributes:
        url: HTTP.
        grpc_url: gRPC, as clients take it: host and port.
    """

    url: _Sentence
    grpc_url: _Sentence


class AcceleratorStatus(Part, frozen=True):
    """What each pod requests.

    Attributes:
        resource_name: the resource, the DeviceClass of a claim, or none.
        strategy: as in the spec.
        count: devices per pod.
    """

    resource_name: _Word
    strategy: _Word
    count: _Count


class FailureInfo(Part, frozen=True):
    """The failure of a pod that blocks the service.

    Attributes:
        reason: in one word.
        message: the pod's own message, in one sentence.
        pod: its name.
        exit_code: of its container, if it ended.
        time: when it ended.
    """

    reason: _Word
    message: _Sentence
    pod: _Word | None = None
    exit_code: int | None = None
    time: _Time | None = None


class Copies(Part, frozen=True):
    """Pods, counted.

    Attributes:
        total_copies: all pods.
        failed_copies: pods that cannot serve and report why.
    """

    total_copies: _Count
    failed_copies: _Count


class ModelStatus(Part, frozen=True):
    """Whether the pods serve what the spec says.

    Attributes:
        transition_status: whether the pods serve what the spec says.
        copies: pods, counted.
        last_failure_info: the failure that blocks the service.
    """

    transition_status: typing.Literal[
        "UpToDate", "InProgress", "BlockedByFailedLoad", "InvalidSpec"
    ]
    copies: Copies | None = None
    last_failure_info: FailureInfo | None = None


class ModelEntry(Part, frozen=True):
    """One version of one model.

    Attributes:
        name: the model.
        version: its version.
        state: READY, LOADING, UNLOADING or UNAVAILABLE.
        reason: why it is not READY.
    """

    name: _Sentence
    version: _Word
    state: _Word
    reason: _Sentence


class ImageStatus(Part, frozen=True):
    """The image that pods are made from.

    Attributes:
        name: the image.
        for_pods: a hash of the predictor for which it was chosen; when the predictor changes, an empty image is chosen again.
        server_version: the version of the server in it, which decides the options of the pods.
    """

    name: _Sentence
    for_pods: _Word
    server_version: _Word | None = None


class CanaryStatus(Part, frozen=True):
    """The canary: its share of the requests, its pods and its models.

    Attributes:
        weight: how many of a hundred requests the routes give to the canary; 0 while none of its pods serves.
        image: the image of its pods.
        replicas: all its pods.
        ready_replicas: those that are ready.
        updated_replicas: those of the newest template.
        available_replicas: those that serve.
        models: the models that one of its pods reported, at most 64.
        model_count: as of the service.
    """

    weight: _Count
    image: _Sentence
    replicas: _Count
    ready_replicas: _Count
    updated_replicas: _Count
    available_replicas: _Count
    models: typing.Annotated[tuple[ModelEntry, ...], msgspec.Meta(max_length=64)] | None = None
    model_count: _Word | None = None


class ComponentStatus(Part, frozen=True):
    """A transformer or an explainer, and its pods.

    Attributes:
        url: where it is reached inside the cluster.
        leads: whether requests from outside go to it: of a service that got it later, from when its first pod served.
        replicas: all its pods.
        ready_replicas: those that are ready.
        updated_replicas: those of the newest template.
        available_replicas: those that serve.
    """

    url: _Sentence
    leads: bool
    replicas: _Count
    ready_replicas: _Count
    updated_replicas: _Count
    available_replicas: _Count


class Status(Part, frozen=True):
    """The observed state of the service.

    Attributes:
        observed_generation: the generation of the spec that this is about.
        conditions: the aspects of the service; Ready summarises them.
        url: where clients reach HTTP: the first host outside the cluster, else the load balancer, else the address inside; empty while another owner has the Service.
        grpc_url: where clients reach gRPC, as host and port.
        address: where the service is reached inside the cluster.
        replicas: all pods.
        ready_replicas: pods that are ready.
        updated_replicas: pods of the newest template.
        available_replicas: pods that serve.
        kept_replicas: the number of pods to keep when the spec sets none and no autoscaler decides it.
        selector: the labels of the pods, for the scale subresource.
        accelerator: what each pod requests.
        profile: the NaiadProfile whose fields the service has.
        image: the image that pods are made from.
        model_status: whether the pods serve what the spec says.
        models: the models that a pod reported, at most 64.
        model_count: ready models, and those that should be, e.g. 2/3.
        canary: the canary, if the spec has one.
        transformer: the transformer, if the spec has one.
        explainer: the explainer, if the spec has one.
    """

    observed_generation: _Count
    conditions: typing.Annotated[tuple[Condition, ...], msgspec.Meta(max_length=16)]
    url: _Sentence | None = None
    grpc_url: _Sentence | None = None
    address: Address | None = None
    replicas: _Count | None = None
    ready_replicas: _Count | None = None
    updated_replicas: _Count | None = None
    available_replicas: _Count | None = None
    kept_replicas: _Count | None = None
    selector: _Sentence | None = None
    accelerator: AcceleratorStatus | None = None
    profile: _Word | None = None
    image: ImageStatus | None = None
    model_status: ModelStatus | None = None
    canary: CanaryStatus | None = None
    transformer: ComponentStatus | None = None
    explainer: ComponentStatus | None = None
    models: typing.Annotated[tuple[ModelEntry, ...], msgspec.Meta(max_length=64)] | None = None
    model_count: _Word | None = None
