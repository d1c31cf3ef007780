"""What a builder may know of the cluster beside the resource. Gathered by others; here it is only data."""

import collections.abc
import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What whoever installed the operator decided for every service.

    Attributes:
        image: the server image of services that name none.
        prometheus_address: where KEDA asks for metrics when the service does not say.
        operator_namespace: where the operator runs; its pods are let in by a NetworkPolicy. "" when it runs outside.
        prometheus_namespace: whose pods are let in to the metrics port by a NetworkPolicy; "" lets every namespace in.
        ingress_namespace: whose pods are let in to the HTTP and gRPC ports by a NetworkPolicy, beside those of the service's own
            namespace.
    """

    image: str
    prometheus_address: str = ""
    operator_namespace: str = ""
    prometheus_namespace: str = ""
    ingress_namespace: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the cluster is like, for one service at one moment.

    Attributes:
        apis: the optional kinds that the API server serves, each "group/version/Kind".
        image: what `builders.image.resolve` answered.
        defaults: the operator's.
        node_resources: what all nodes together can allocate, by resource name; None when nodes may not be read.
        current_replicas: what the Deployment says now; None when there is no Deployment.
        replicas_are_ours: whether it was the operator who said so.
    """

    apis: frozenset[str]
    image: str
    defaults: Defaults
    node_resources: collections.abc.Mapping[str, int] | None = None
    current_replicas: int | None = None
    replicas_are_ours: bool = True
