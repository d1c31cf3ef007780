"""How other objects refer to a Triton workload: by its name, the labels of its pods, and its ports. Pure."""

import collections.abc
import types
import typing

import msgspec

from naiad_operator.api.manifests.unvalidated import Fields, entries, part
from naiad_operator.api.types.pod import Ports
from naiad_operator.errors import Problem

DEFAULT_PORTS: dict[str, int] = msgspec.structs.asdict(Ports())

Manifest = collections.abc.Mapping[str, typing.Any]
Notes = collections.abc.Iterator[Problem]


class Service(typing.NamedTuple):
    """A Service in front of a workload.

    Attributes:
        labels: its labels, which a ServiceMonitor selects.
        ports: by the number, as text, and by the name of each of its ports, the role of the port that it leads to.
    """

    labels: Fields
    ports: collections.abc.Mapping[str, str]


class Workload(typing.NamedTuple):
    """The object that is converted, as others refer to it.

    Attributes:
        kind: its kind.
        name: its name.
        namespace: its namespace; "" for none.
        labels: the labels of its pods.
        ports: by the number, as text, and by the name of each port of the container, its role: http, grpc or metrics.
        services: by their names, the Services in front of it.
    """

    kind: str
    name: str
    namespace: str
    labels: Fields
    ports: collections.abc.Mapping[str, str]
    services: collections.abc.Mapping[str, Service] = types.MappingProxyType({})

    def role(self, port: Fields) -> str:
        """What a port of a Service leads to: http, grpc or metrics; "" for none of the server's ports."""
        return self.ports.get(str(port.get("targetPort", port.get("port"))), "")


def workload(manifest: Manifest, container: Fields, predictor: Fields) -> Workload:
    """How other objects refer to an object."""
    is_pod = manifest["kind"] == "Pod"
    metadata = part(manifest, "metadata")
    pod = metadata if is_pod else part(manifest, "spec", "template", "metadata")
    numbers = {**DEFAULT_PORTS, **part(predictor, "ports")}
    ports: dict[str, str] = {str(number): role for role, number in numbers.items()}
    for port in entries(container, "ports"):
        role = ports.get(str(port.get("containerPort")))
        if role and "name" in port:
            ports[str(port["name"])] = role
    return Workload(
        kind=manifest["kind"],
        name=str(metadata.get("name")),
        namespace=str(metadata.get("namespace") or ""),
        labels=part(pod, "labels"),
        ports=ports,
    )


def service(manifest: Manifest, of: Workload) -> Service:
    """A Service, as Ingresses and ServiceMonitors refer to it."""
    ports: dict[str, str] = {}
    for port in entries(part(manifest, "spec"), "ports"):
        role = of.role(port)
        if role:
            ports |= {str(port[key]): role for key in ("port", "name") if key in port}
    return Service(part(manifest, "metadata", "labels"), ports)
