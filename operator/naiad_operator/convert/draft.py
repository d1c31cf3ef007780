"""What a conversion works on: what is left of the other system's object, and what has become of it."""

import collections.abc
import dataclasses
import re
import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries
from naiad_operator.errors import Problem

VARIABLE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
"""How Kubernetes writes a variable in an argument."""


@dataclasses.dataclass(kw_only=True)
class Draft:
    """A service that is being made from a pod.

    Rules take fields out of `pod` and `container`; what no rule takes is reported, with its path.

    Attributes:
        pod: what is left of the pod's spec.
        container: what is left of the server's container.
        pod_path: the path of the pod's spec in its manifest.
        container_path: the path of the container.
        of_runtime: how many arguments a runtime has put before the container's own.
        predictor: the fields of spec.predictor.
        spec: the other fields of the spec.
        template: the pod's spec in predictor.podTemplate.
        mounts: the mounts of the server's container in it.
        server: its other fields.
        kept: the names of the pod's volumes that other containers in it mount.
        pod_template: what the platform allows a podTemplate; "" when it is not known.
        argument_path: the path of an argument of the server, by its position.
        notes: what did not fit, by its path in the manifest.
        mounted: the names of the volumes that the server's container mounts.
    """

    pod: Fields
    container: Fields
    pod_path: str
    container_path: str
    of_runtime: int = 0
    predictor: Fields = dataclasses.field(default_factory=dict)
    spec: Fields = dataclasses.field(default_factory=dict)
    template: Fields = dataclasses.field(default_factory=dict)
    mounts: list[Fields] = dataclasses.field(default_factory=list)
    server: Fields = dataclasses.field(default_factory=dict)
    kept: set[str] = dataclasses.field(default_factory=set)
    pod_template: str = ""
    argument_path: collections.abc.Callable[[int], str] = lambda _position: "args"
    notes: list[Problem] = dataclasses.field(default_factory=list)
    mounted: frozenset[str] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Reads the names of the volumes before rules take mounts out of the container."""
        mounts = entries(self.container, "volumeMounts")
        self.mounted = frozenset(str(one.get("name")) for one in mounts)

    def filled(self, text: str) -> str:
        """A text with the values of the variables that the container sets; others stay as they are."""
        values = {str(one.get("name")): one.get("value") for one in entries(self.container, "env")}

        def value(match: re.Match[str]) -> str:
            found = values.get(match[1])
            return found if isinstance(found, str) else match[0]

        return VARIABLE.sub(value, text)

    def patched(self) -> Fields:
        """The field podTemplate.spec."""
        server = self.server | ({"volumeMounts": self.mounts} if self.mounts else {})
        if not server:
            return self.template
        containers = [{"name": "server", **server}, *self.template.get("containers", ())]
        return {**self.template, "containers": containers}

    def of_pod(self, field: str, message: str, *, blocks: bool = False) -> None:
        """Reports a field of the pod; `blocks`: as of a container."""
        self.notes.append(Problem(f"{self.pod_path}.{field}", message, blocks))

    def of_container(self, field: str, message: str, *, blocks: bool = False) -> None:
        """Reports a field of the container; `blocks`: without an edit the service can serve nothing."""
        self.notes.append(Problem(f"{self.container_path}.{field}", message, blocks))


_OF_OBJECTS = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))


def outside(
    manifest: collections.abc.Mapping[str, typing.Any],
) -> collections.abc.Iterator[Problem]:
    """The fields of an object beside its spec, where Kubernetes looks for none."""
    for field in manifest:
        if field not in _OF_OBJECTS:
            yield Problem(
                str(field),
                "not converted: Kubernetes has no such field: write it in spec if it is meant",
            )


def left(
    value: typing.Any, path: str, advice: collections.abc.Mapping[str, str], otherwise: str
) -> collections.abc.Iterator[Problem]:
    """The fields that no rule took; one with advice is reported as a whole.

    Args:
        value: what is left.
        path: its path.
        advice: by the field's name, what to do instead.
        otherwise: the same for every other field.
    """
    name = path.rpartition(".")[2]
    if isinstance(value, dict) and name not in advice:
        for key, child in value.items():
            yield from left(child, f"{path}.{key}" if path else str(key), advice, otherwise)
    elif value not in (None, [], {}):
        yield Problem(path, f"not converted: {advice.get(name, otherwise)}")
