"""The spec of a NaiadProfile: a platform's defaults for services; `parsing.merging` merges them with a service's spec.

Only fields without a default value in the InferenceService are here: a stored service contains every default value, and nothing tells
one that the user wrote from one that the API server filled in.
"""

from naiad_operator.api.types.bounds import Annotations, AnyObject, Labels, ObjectName, Text
from naiad_operator.api.types.model import Cache, Storage
from naiad_operator.api.types.pod import (
    Arguments,
    Image,
    NodeSelector,
    PullSecrets,
    RawObjects,
    Resources,
    ServerVersion,
    Tolerations,
    Variables,
)
from naiad_operator.api.types.policy import Policy
from naiad_operator.api.types.scaling import PrometheusAuth
from naiad_operator.api.types.structs import Part


class StoreDefaults(Part, frozen=True):
    """How object stores are reached, for repositories, and files of components, without storage of their own.

    Attributes:
        s3: repositories with s3://.
        gs: repositories with gs://.
        azure: repositories with as://.
        hf: repositories with hf://.
        oci: repositories with oci://.
    """

    s3: Storage | None = None
    gs: Storage | None = None
    azure: Storage | None = None
    hf: Storage | None = None
    oci: Storage | None = None


class PrometheusDefaults(Part, frozen=True):
    """The Prometheus that KEDA queries for services whose autoscaling names none.

    Attributes:
        address: where it answers; by default the one that the operator was installed with.
        auth: how KEDA authenticates there; a ClusterTriggerAuthentication serves every namespace.
    """

    address: Text | None = None
    auth: PrometheusAuth | None = None


class ProfileSpec(Part, frozen=True):
    """Defaults for services.

    Attributes:
        default: whether services that name no profile use this one; of several, the oldest is used.
        policy: what the services of some namespaces may have, whatever they say; the profile binds these namespaces.
        image: the server's image.
        server_version: the version of the server in that image, for an image whose tag does not say it.
        image_pull_secrets: Secrets for pulling the image; those of the service are added, by name.
        args: further options of the server; those of the service come after them and take precedence.
        env: environment variables of the server; those of the service take precedence, by name.
        env_from: environment variables from ConfigMaps and Secrets, as in a pod; those of the service come after them and take precedence.
        resources: CPU, memory and ephemeral storage. A resource that the service names, in requests or in limits, is the service's in both.
        storage: how object stores are reached.
        cache: a volume for what a server keeps on disk.
        prometheus: the Prometheus that KEDA queries. A service with an address of its own gets no credentials from here.
        service_account_name: the ServiceAccount of the pods, in each service's namespace.
        automount_service_account_token: whether the pods, and so the code of models, get the ServiceAccount's Kubernetes token.
        node_selector: labels that a node must have; those of the service take precedence, by key.
        tolerations: taints that pods tolerate, in addition to nvidia.com/gpu of pods with an NVIDIA accelerator; tolerations of the service
            replace both.
        affinity: as in a pod.
        priority_class_name: the PriorityClass of the pods.
        runtime_class_name: the RuntimeClass of the pods.
        pod_security_context: as in a pod; it replaces the operator's own, e.g. without user ids on OpenShift, which assigns them.
        pod_template: any other field of the pods: a patch as predictor.podTemplate, which is applied after it.
        labels: labels of every object and pod of the services; those of the service take precedence, by key.
        annotations: annotations of every object and pod of the services; those of the service take precedence, by key.
    """

    default: bool = False
    policy: Policy | None = None
    image: Image = ""
    server_version: ServerVersion | None = None
    image_pull_secrets: PullSecrets | None = None
    args: Arguments | None = None
    env: Variables | None = None
    env_from: RawObjects | None = None
    resources: Resources | None = None
    storage: StoreDefaults | None = None
    cache: Cache | None = None
    prometheus: PrometheusDefaults | None = None
    service_account_name: ObjectName | None = None
    automount_service_account_token: bool | None = None
    node_selector: NodeSelector | None = None
    tolerations: Tolerations | None = None
    affinity: AnyObject | None = None
    priority_class_name: ObjectName | None = None
    runtime_class_name: ObjectName | None = None
    pod_security_context: AnyObject | None = None
    pod_template: AnyObject | None = None
    labels: Labels | None = None
    annotations: Annotations | None = None
