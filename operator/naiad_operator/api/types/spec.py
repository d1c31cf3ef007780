"""The spec of an InferenceService."""

import typing

import msgspec

from naiad_operator.api.types.accelerator import Accelerator
from naiad_operator.api.types.bounds import Annotations, AnyObject, Labels, ObjectName, Quantity
from naiad_operator.api.types.canary import Canary
from naiad_operator.api.types.component import Component
from naiad_operator.api.types.model import Model
from naiad_operator.api.types.pod import (
    Arguments,
    Image,
    NodeSelector,
    Ports,
    Probes,
    PullSecrets,
    RawObjects,
    Readiness,
    Resources,
    ServerVersion,
    Tolerations,
    Variables,
)
from naiad_operator.api.types.scaling import (
    Autoscaling,
    DeploymentStrategy,
    PodDisruptionBudget,
    Replicas,
)
from naiad_operator.api.types.structs import Part
from naiad_operator.api.types.traffic import (
    Auth,
    Gateway,
    Ingress,
    Mirror,
    Monitoring,
    NetworkPolicy,
    PathPrefix,
    Service,
)


class Predictor(Part, frozen=True):
    """The servers: their models, accelerators and number.

    Attributes:
        model: the models that are served.
        image: the server's image; when empty, the operator's default is recorded once and kept until the predictor changes.
        server_version: the version of the server in the image, for an image whose tag does not say it, e.g. 0.2.0: the server gets only
            options that this version knows.
        image_pull_secrets: Secrets for pulling the image.
        args: further options of the server; they come last, so they take precedence over the operator's own.
        env: environment variables of the server; they take precedence over the operator's own.
        env_from: environment variables from ConfigMaps and Secrets, as in a pod.
        ports: the ports the server listens on.
        accelerator: what each pod computes on.
        resources: CPU, memory and ephemeral storage.
        shared_memory: size of /dev/shm; it counts against the memory limit.
        replicas: how many pods; not with autoscaling class hpa or keda, which decide it. 1 when not set.
        placement: spread prefers different nodes; onePerNode requires them.
        autoscaling: who decides how many pods there are.
        deployment_strategy: how pods are replaced when something changes.
        probes: how the kubelet checks the server.
        readiness: which models must be ready for a pod to receive traffic.
        termination_grace_period_seconds: seconds a pod has to stop: drainSeconds, then requests in flight, then a margin of 5.
        drain_seconds: seconds for which a stopping pod still accepts requests, until every load balancer has stopped using it.
        pod_disruption_budget: how many pods may be unavailable at once while nodes are drained; it exists when there can be 2 pods.
        service_account_name: the ServiceAccount of the pods, for a cloud's workload identity.
        node_selector: labels that a node must have.
        tolerations: taints that pods tolerate; by default, with an NVIDIA accelerator, nvidia.com/gpu.
        affinity: as in a pod.
        topology_spread_constraints: as in a pod; they replace placement spread.
        automount_service_account_token: whether the pods, and so the code of models, get the ServiceAccount's Kubernetes token; not
            unless set. A cloud's workload identity does not need it: it has a token of its own.
        priority_class_name: the PriorityClass of the pods.
        runtime_class_name: the RuntimeClass of the pods.
        pod_template: any other field of the pods: a strategic merge patch over the pod template, applied last. Lists of containers,
            volumes, mounts, variables and ports merge by name, and an entry with $patch: delete is removed; other lists are replaced; null
            removes a field.
    """

    model: Model
    image: Image = ""
    server_version: ServerVersion | None = None
    image_pull_secrets: PullSecrets | None = None
    args: Arguments | None = None
    env: Variables | None = None
    env_from: RawObjects | None = None
    ports: Ports = Ports()
    accelerator: Accelerator = Accelerator()
    resources: Resources | None = None
    shared_memory: Quantity = "1Gi"
    replicas: Replicas | None = None
    placement: typing.Literal["spread", "onePerNode"] = "spread"
    autoscaling: Autoscaling | None = None
    deployment_strategy: DeploymentStrategy | None = None
    probes: Probes = Probes()
    readiness: Readiness | None = None
    termination_grace_period_seconds: typing.Annotated[int, msgspec.Meta(ge=6, le=86400)] = 60
    drain_seconds: typing.Annotated[int, msgspec.Meta(ge=0, le=3600)] = 10
    pod_disruption_budget: PodDisruptionBudget = PodDisruptionBudget()
    service_account_name: ObjectName | None = None
    automount_service_account_token: bool | None = None
    node_selector: NodeSelector | None = None
    tolerations: Tolerations | None = None
    affinity: AnyObject | None = None
    topology_spread_constraints: RawObjects | None = None
    priority_class_name: ObjectName | None = None
    runtime_class_name: ObjectName | None = None
    pod_template: AnyObject | None = None


class Spec(Part, frozen=True):
    """The wanted state of the service.

    Attributes:
        suspend: removes the pods and the autoscaler and keeps everything else; when it is false again, the service is as before.
        profile: the NaiadProfile whose fields count where this spec has none; the default profile when not set.
        predictor: the servers; predictor.model.storageUri names their models, the rest has defaults.
        labels: labels of every object and pod of the service, e.g. for Kueue or cost allocation; the operator's own take precedence.
        annotations: annotations of every object and pod of the service; those of one object, e.g. service.annotations, take precedence.
        service: the Service in front of the pods.
        ingress: hosts outside the cluster, through an Ingress controller; not together with gateway.
        gateway: hosts outside the cluster, through the Gateway API; not together with ingress.
        path_prefix: the prefix under which clients outside the cluster find the HTTP API, e.g. /api/predict/demo. A Gateway removes it from
            requests; without one, the server itself serves it, beside the paths without it. gRPC has no path prefix.
        canary: a second Deployment that gets a share of the requests, through Gateway routes only.
        mirror: another service, or the canary, that gets copies of the requests, through Gateway routes only.
        transformer: a program of your own in front of the servers, as KServe's: HTTP requests from outside go to it, and it calls the servers.
        explainer: a program of your own that answers /v1/models/NAME:explain, as KServe's.
        network_policy: which clients may open connections to the pods.
        monitoring: how the Prometheus operator finds the pods.
        auth: API tokens.
    """

    predictor: Predictor
    suspend: bool = False
    profile: ObjectName | None = None
    labels: Labels | None = None
    annotations: Annotations | None = None
    service: Service = Service()
    ingress: Ingress | None = None
    gateway: Gateway | None = None
    path_prefix: PathPrefix | None = None
    canary: Canary | None = None
    mirror: Mirror | None = None
    transformer: Component | None = None
    explainer: Component | None = None
    network_policy: NetworkPolicy | None = None
    monitoring: Monitoring | None = None
    auth: Auth | None = None
