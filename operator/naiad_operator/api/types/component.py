"""A component of a service: a program of the user's own between clients and the servers, with an image of its own."""

import typing

import msgspec

from naiad_operator.api.types.bounds import AnyObject, ObjectName, Port
from naiad_operator.api.types.model import Storage, StorageUri
from naiad_operator.api.types.pod import (
    Arguments,
    NodeSelector,
    PullSecrets,
    RawObjects,
    Resources,
    Tolerations,
    Variables,
)
from naiad_operator.api.types.scaling import PodDisruptionBudget, Replicas
from naiad_operator.api.types.structs import Part
from naiad_operator.api.types.traffic import UrlPath

DEFAULT_REPLICAS = 1
PORT = 8080
"""Where KServe's components listen."""

ComponentImage = typing.Annotated[
    str, msgspec.Meta(min_length=1, max_length=512, pattern=r"^[^\s]*$")
]
ComponentModelName = typing.Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[-A-Za-z0-9._]+$")]  # fmt: skip


class ComponentScaling(Part, frozen=True):
    """A HorizontalPodAutoscaler of the component, by the use of its processors.

    Attributes:
        min_replicas: minimum number of pods.
        max_replicas: maximum number of pods.
        cpu_percent: the average use, in percent of the CPU that pods request, above which pods are added.
    """

    min_replicas: typing.Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    max_replicas: typing.Annotated[int, msgspec.Meta(ge=1, le=1000)] = 4
    cpu_percent: typing.Annotated[int, msgspec.Meta(ge=1, le=1000)] = 80


class Component(Part, frozen=True):
    """A Deployment and a Service of an image of your own, as KServe's transformers and explainers are.

    Behind its own arguments it gets --model_name, --predictor_host and --http_port, and with protocol --predictor_protocol, unless they are among these or in its command.

    Attributes:
        image: its image.
        command: what it runs in place of the image's entrypoint.
        args: its arguments.
        env: its environment variables.
        env_from: environment variables from ConfigMaps and Secrets, as in a pod.
        image_pull_secrets: Secrets for pulling the image.
        port: where it listens for HTTP.
        model_name: the model as its paths name it, for --model_name; the name of the service when not set.
        protocol: what it speaks to the servers, for --predictor_protocol: v1 and v2 on their HTTP port, grpc-v2 on their gRPC port. When not set it gets no such
            argument, as in KServe, whose library speaks v1 then.
        storage_uri: files of the program, e.g. a vocabulary, which are in /mnt/models before it starts: a folder or one object of s3://bucket/path,
            gs://bucket/path, as://account/container/path, hf://owner/name@revision/path, oci://registry/name:tag or pvc://claim/path. They need not be a
            model repository.
        storage: how the store of storageUri is reached; the program does not get the credentials.
        health_path: the path of HTTP that responds with 200 once it can serve; when not set, an open port is enough.
        startup_seconds: how long it may take until then at its start.
        resources: CPU, memory and ephemeral storage.
        replicas: how many pods; not with autoscaling. 1 when not set.
        autoscaling: a HorizontalPodAutoscaler by CPU.
        termination_grace_period_seconds: seconds a pod has to stop.
        pod_disruption_budget: how many pods may be unavailable at once while nodes are drained; it exists when there can be 2 pods.
        service_account_name: the ServiceAccount of the pods.
        automount_service_account_token: whether the pods get the ServiceAccount's Kubernetes token.
        node_selector: labels that a node must have.
        tolerations: taints that pods tolerate.
        affinity: as in a pod.
        priority_class_name: the PriorityClass of the pods.
        runtime_class_name: the RuntimeClass of the pods.
        pod_template: any other field of the pods, as predictor.podTemplate; the container's name is server here, too.
    """

    image: ComponentImage
    command: Arguments | None = None
    args: Arguments | None = None
    env: Variables | None = None
    env_from: RawObjects | None = None
    image_pull_secrets: PullSecrets | None = None
    port: Port = PORT
    model_name: ComponentModelName | None = None
    protocol: typing.Literal["v1", "v2", "grpc-v2"] | None = None
    storage_uri: StorageUri | None = None
    storage: Storage | None = None
    health_path: UrlPath | None = None
    startup_seconds: typing.Annotated[int, msgspec.Meta(ge=1, le=86400)] = 600
    resources: Resources | None = None
    replicas: Replicas | None = None
    autoscaling: ComponentScaling | None = None
    termination_grace_period_seconds: typing.Annotated[int, msgspec.Meta(ge=1, le=86400)] = 30
    pod_disruption_budget: PodDisruptionBudget = PodDisruptionBudget()
    service_account_name: ObjectName | None = None
    automount_service_account_token: bool | None = None
    node_selector: NodeSelector | None = None
    tolerations: Tolerations | None = None
    affinity: AnyObject | None = None
    priority_class_name: ObjectName | None = None
    runtime_class_name: ObjectName | None = None
    pod_template: AnyObject | None = None
