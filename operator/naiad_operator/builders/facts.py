"""The facts about the cluster that builders use besides the spec. Only data; `reconcile.cluster_info` collects them."""

import collections.abc
import dataclasses
import datetime as dt

from naiad_operator import versions
from naiad_operator.api.types.policy import PodTemplate, Triggers

_OPTIONS = "the operator's options --pod-template and --triggers"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a platform allows services.

    Attributes:
        pod_template: whether services may patch their pods; Restricted only as far as Kubernetes' Pod Security Standards go (`policy.restricted`).
        triggers: whether services may have triggers of their own, and the cluster's credentials for a Prometheus of their own.
        pod_template_origin: who says so, for messages.
        triggers_origin: likewise.
    """

    pod_template: PodTemplate = "Allow"
    triggers: Triggers = "Allow"
    pod_template_origin: str = _OPTIONS
    triggers_origin: str = _OPTIONS


STRICT = Policy(
    pod_template="Restricted",
    triggers="Refuse",
    pod_template_origin=f"{_OPTIONS} as new installations have them",
    triggers_origin=f"{_OPTIONS} as new installations have them",
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The administrator's defaults for every service.

    Attributes:
        image: the server image of services that do not set one.
        requests: what pods request of a resource of which their service says nothing (`workload.requests`).
        prometheus_address: the Prometheus that KEDA queries when a service does not set one.
        operator_namespace: the operator's namespace, whose pods a NetworkPolicy allows; "" when it runs outside the cluster.
        prometheus_namespace: the namespace that a NetworkPolicy allows on the metrics port; "" allows every namespace.
        ingress_namespace: the namespace that a NetworkPolicy allows on the HTTP and gRPC ports, besides the service's own.
        policy: what services may have.
        node_wait_seconds: how long a pod may be without a node before that counts as a failure: an autoscaler may be adding one.
    """

    image: str
    requests: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    prometheus_address: str = ""
    operator_namespace: str = ""
    prometheus_namespace: str = ""
    ingress_namespace: str = ""
    policy: Policy = Policy()
    node_wait_seconds: float = 600


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CanaryFacts:
    """The facts about the Deployment of a canary.

    Attributes:
        current_replicas: as in `ClusterFacts`.
        replicas_are_ours: as there.
        serves: whether any of its pods is available.
        server_version: the version of its server.
        requests: its default requests.
    """

    current_replicas: int | None = None
    replicas_are_ours: bool = True
    serves: bool = False
    server_version: versions.Version = versions.OWN
    requests: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """What an autoscaler of nodes says of a pod without a node.

    Attributes:
        is_coming: whether it adds a node for the pod.
        autoscaler: its name, e.g. "cluster-autoscaler".
        message: which node, or why none.
        time: when it said so last.
    """

    is_coming: bool
    autoscaler: str
    message: str
    time: dt.datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The facts for one service at one moment.

    Attributes:
        apis: the optional kinds that the API server serves, each "group/version/Kind".
        image: the result of `builders.workload.image.resolve`.
        server_version: the version of the server in it.
        requests: the result of `builders.workload.requests.chosen`.
        defaults: the administrator's defaults.
        node_resources: the sum of what all nodes can allocate, by resource name; None when nodes may not be read, or need not be.
        scale_ups: by the name of a pod without a node, what an autoscaler of nodes says of it.
        claim_modes: the access modes of the PersistentVolumeClaims that the pods mount; empty or absent when unknown.
        current_replicas: the number in the Deployment's spec; None if the Deployment does not exist.
        kept_replicas: the number that was recorded for a spec without a number; None when none was.
        replicas_are_ours: whether the operator owns that field.
        canary: the facts about the canary's Deployment.
        components: those about the Deployments of the transformer and the explainer, by these names.
        fetcher: for a component, the image of the servers, whose `naiad fetch` brings its files; "" for the servers themselves.
        fetcher_version: the version of the server in it.
    """

    apis: frozenset[str]
    image: str
    defaults: Defaults
    server_version: versions.Version = versions.OWN
    requests: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    node_resources: collections.abc.Mapping[str, int] | None = None
    scale_ups: collections.abc.Mapping[str, ScaleUp] = dataclasses.field(default_factory=dict)
    claim_modes: collections.abc.Mapping[str, frozenset[str]] = dataclasses.field(
        default_factory=dict
    )
    current_replicas: int | None = None
    kept_replicas: int | None = None
    replicas_are_ours: bool = True
    canary: CanaryFacts = dataclasses.field(default_factory=CanaryFacts)
    components: collections.abc.Mapping[str, CanaryFacts] = dataclasses.field(default_factory=dict)
    fetcher: str = ""
    fetcher_version: versions.Version = versions.OWN
