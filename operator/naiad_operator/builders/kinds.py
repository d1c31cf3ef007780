"""The kinds of children that a service may have."""

import collections.abc
import typing


class Kind(typing.NamedTuple):
    """A kind of child.

    Attributes:
        optional: whether an API server may lack it (a custom resource, or a newer feature).
    """

    api_version: str
    kind: str
    plural: str
    optional: bool

    @property
    def key(self) -> str:
        """The form that `ClusterFacts.apis` uses."""
        return f"{self.api_version}/{self.kind}"


DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments", optional=False)
SERVICE = Kind("v1", "Service", "services", optional=False)
HPA = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", optional=False)
PDB = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", optional=False)
INGRESS = Kind("networking.k8s.io/v1", "Ingress", "ingresses", optional=False)
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", optional=False)
SCALED_OBJECT = Kind("keda.sh/v1alpha1", "ScaledObject", "scaledobjects", optional=True)
HTTP_ROUTE = Kind("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", optional=True)
GRPC_ROUTE = Kind("gateway.networking.k8s.io/v1", "GRPCRoute", "grpcroutes", optional=True)
POD_MONITOR = Kind("monitoring.coreos.com/v1", "PodMonitor", "podmonitors", optional=True)
SERVICE_MONITOR = Kind(
    "monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors", optional=True
)
RESOURCE_CLAIM_TEMPLATE = Kind(
    "resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", optional=True
)


def keys(without: collections.abc.Container[str] = ()) -> frozenset[str]:
    """`ClusterFacts.apis` of a cluster that has every kind but some, and every later field.

    Args:
        without: the names of kinds.
    """
    served = [kind for kind in KINDS if kind.kind not in without]
    routes = (kind for kind in served if kind in (HTTP_ROUTE, GRPC_ROUTE))
    fields = (field(kind) for kind in routes for field in (mirror_percent, session_persistence))
    return frozenset((*(kind.key for kind in served), *fields))


def mirror_percent(route: Kind) -> str:
    """How `ClusterFacts.apis` says that a kind of route has the field percent of a RequestMirror, which came later than the kind."""
    return f"{route.key}#requestMirror.percent"


def session_persistence(route: Kind) -> str:
    """Likewise: that it has the field sessionPersistence of a rule, which is in the experimental channel of the Gateway API."""
    return f"{route.key}#sessionPersistence"


KINDS = (
    RESOURCE_CLAIM_TEMPLATE,
    DEPLOYMENT,
    SERVICE,
    HPA,
    SCALED_OBJECT,
    PDB,
    INGRESS,
    HTTP_ROUTE,
    GRPC_ROUTE,
    NETWORK_POLICY,
    POD_MONITOR,
    SERVICE_MONITOR,
)
"""All kinds in the order in which they are applied: what a pod needs before the pod."""
