"""Decides what a report collects: which kinds, which objects of them, which logs and which pages of pods. Pure.

No Secret and no ConfigMap is among them.
"""

import collections.abc
import dataclasses
import typing

from naiad_operator.api import names
from naiad_operator.builders import kinds, names as labels, server
from naiad_operator.builders.kinds import Kind
from naiad_operator.status import pods

Object = dict[str, typing.Any]
Snapshot = dict[tuple[str, str], list[Object]]
"""Objects by folder of the archive and plural name of their kind."""

SERVICES = Kind(names.API_VERSION, names.KIND, names.PLURAL, optional=False)
PROFILES = Kind(names.API_VERSION, names.PROFILE_KIND, names.PROFILE_PLURAL, optional=True)
PODS = Kind("v1", "Pod", "pods", optional=False)
REPLICA_SETS = Kind("apps/v1", "ReplicaSet", "replicasets", optional=False)
EVENTS = Kind("v1", "Event", "events", optional=False)
CLAIMS = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", optional=False)
NODES = Kind("v1", "Node", "nodes", optional=False)
DEFINITIONS = Kind(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    optional=False,
)

SELECTED = (
    *(kind for kind in kinds.KINDS if kind is not kinds.HPA),
    REPLICA_SETS,
    PODS,
    Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", optional=False),
)
"""Kinds whose objects have the labels of their service."""

FILTERED = (
    CLAIMS,
    kinds.HPA,
    Kind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", optional=True),
    Kind("v1", "ResourceQuota", "resourcequotas", optional=False),
    Kind("v1", "LimitRange", "limitranges", optional=False),
    EVENTS,
)
"""Kinds that are listed as a whole in each namespace, and of which `belongs` chooses. KEDA's autoscalers are among these."""

OF_OPERATOR = (kinds.DEPLOYMENT, REPLICA_SETS, PODS)
OPERATOR_SELECTOR = f"{labels.NAME_LABEL}=naiad-operator"
OPERATOR, CLUSTER = "operator", "cluster"
"""Folders of the archive."""

_OPERATOR_PAGES = ("healthz", "readyz", "metrics")
_SERVER_PAGES = ("status", "metrics")


def folder_of(namespace: str) -> str:
    """The folder with the objects of a namespace."""
    return f"namespaces/{namespace}"


def selector_of(service: str) -> str:
    """The label selector of a service's objects; of all services if it is empty."""
    return labels.CHILD_SELECTOR + (f",{labels.INSTANCE_LABEL}={service}" if service else "")


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """The names of what was collected of a namespace.

    Attributes:
        names: of all objects.
        owners: of services and Deployments; the names of their pods begin with them.
        claims: of the claims that pods mount.
    """

    names: frozenset[str]
    owners: tuple[str, ...]
    claims: frozenset[str]


def known(snapshot: Snapshot, folder: str) -> Known:
    """What was collected of a namespace so far."""
    found = {plural: objects for (where, plural), objects in snapshot.items() if where == folder}
    owners = [*found.get(SERVICES.plural, ()), *found.get(kinds.DEPLOYMENT.plural, ())]
    return Known(
        names=frozenset(one["metadata"]["name"] for objects in found.values() for one in objects),
        owners=tuple(f"{one['metadata']['name']}-" for one in owners),
        claims=_claims(snapshot, folder),
    )


def belongs(item: Object, collected: Known) -> bool:
    """Whether an object of a namespace has to do with what was collected there."""
    match item["kind"]:
        case "Event":
            # Pods that do not exist any more can still have Events.
            about = item.get("involvedObject", {}).get("name", "")
            return about in collected.names or about.startswith(collected.owners)
        case "PersistentVolumeClaim":
            return item["metadata"]["name"] in collected.claims
        case "HorizontalPodAutoscaler":
            target = item.get("spec", {}).get("scaleTargetRef", {}).get("name", "")
            return target in collected.names
        case "ResourceClaim":
            owners = item["metadata"].get("ownerReferences") or ()
            return any(owner["name"] in collected.names for owner in owners)
        case _:
            return True


def _claims(snapshot: Snapshot, folder: str) -> frozenset[str]:
    """The claims that the pods and Deployments of a namespace mount."""
    found: set[str] = set()
    for kind in (PODS, kinds.DEPLOYMENT):
        for one in snapshot.get((folder, kind.plural), ()):
            spec = one["spec"].get("template", {}).get("spec") or one["spec"]
            for volume in spec.get("volumes") or ():
                claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                found |= {claim} if claim else set()
    return frozenset(found)


def of_node(node: Object) -> Object:
    """What a report has of a node: capacity, labels, taints and conditions; not its addresses, annotations and images."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    fields = ("capacity", "allocatable", "conditions", "nodeInfo")
    return {
        "kind": "Node",
        "metadata": {name: metadata[name] for name in ("name", "labels") if name in metadata},
        "spec": {name: spec[name] for name in ("taints", "unschedulable") if name in spec},
        "status": {name: status[name] for name in fields if name in status},
    }


def of_definition(definition: Object) -> Object:
    """What a report has of a CustomResourceDefinition: its versions without their schemas."""
    spec = definition["spec"]
    versions = [
        {name: version[name] for name in ("name", "served", "storage") if name in version}
        for version in spec.get("versions") or ()
    ]
    status = definition.get("status") or {}
    kept = {name: status[name] for name in ("conditions", "storedVersions") if name in status}
    return {
        "kind": definition.get("kind", DEFINITIONS.kind),
        "metadata": definition["metadata"],
        "spec": {"versions": versions},
        "status": kept,
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Log:
    """The log of one container.

    Attributes:
        folder: of the archive.
        previous: whether it is that of the container before the last restart.
    """

    folder: str
    namespace: str
    pod: str
    container: str
    previous: bool

    @property
    def path(self) -> str:
        """On the API server."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/log"

    @property
    def file(self) -> str:
        """In the archive."""
        previous = ".previous" if self.previous else ""
        return f"{self.folder}/logs/{self.pod}/{self.container}{previous}.log"

    @property
    def action(self) -> str:
        """The request in words."""
        previous = "previous " if self.previous else ""
        return f"read the {previous}log of {self.namespace}/{self.pod}, container {self.container}"


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """One page of a pod, read through the API server's proxy.

    Attributes:
        folder: of the archive.
        name: the path on the pod, without the slash.
    """

    folder: str
    namespace: str
    pod: str
    port: int
    name: str

    @property
    def path(self) -> str:
        """On the API server."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}:{self.port}/proxy/{self.name}"

    @property
    def file(self) -> str:
        """In the archive."""
        return f"{self.folder}/pages/{self.pod}/{self.name}.txt"

    @property
    def action(self) -> str:
        """The request in words."""
        return f"read /{self.name} of {self.namespace}/{self.pod}"


def pods_of(snapshot: Snapshot) -> list[tuple[str, Object]]:
    """Every pod with its folder: those of the operator first, then those that are not ready, the newest first."""
    found = [
        (folder, pod)
        for (folder, plural), objects in snapshot.items()
        if plural == PODS.plural
        for pod in objects
    ]
    newest_first = sorted(found, key=lambda one: pods.age(one[1]), reverse=True)
    return sorted(newest_first, key=lambda one: (one[0] != OPERATOR, pods.is_ready(one[1])))


def logs(folder: str, pod: Object) -> collections.abc.Iterator[Log]:
    """The logs that a pod has: of containers that run or have ended."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for container in status.get(field) or ():
            state, last = container.get("state") or {}, container.get("lastState") or {}
            for previous, has_one in (
                (False, {"running", "terminated"} & state.keys()),
                (True, "terminated" in last),
            ):
                if has_one:
                    yield Log(folder, metadata["namespace"], metadata["name"], container["name"], previous)  # fmt: skip


def pages(folder: str, pod: Object) -> collections.abc.Iterator[Page]:
    """The pages of a container that runs: health and metrics of an operator, model states and metrics of a server."""
    metadata = pod["metadata"]
    container, port_name, wanted = (
        ("operator", "http", _OPERATOR_PAGES)
        if folder == OPERATOR
        else (server.CONTAINER, "metrics", _SERVER_PAGES)
    )
    port = _port(pod, container, port_name)
    if port and _runs(pod, container):
        for name in wanted:
            yield Page(folder, metadata["namespace"], metadata["name"], port, name)


def _runs(pod: Object, container: str) -> bool:
    return any(
        one["name"] == container and "running" in (one.get("state") or {})
        for one in (pod.get("status") or {}).get("containerStatuses") or ()
    )


def _port(pod: Object, container: str, name: str) -> int:
    for one in pod["spec"]["containers"]:
        for port in one.get("ports") or ():
            if one["name"] == container and port.get("name") == name:
                return int(port["containerPort"])
    return 0
