"""A cluster whose nodes pull this project's images from a registry. The stories see it like this from their pod (`StoriesPod`)."""

import json
import os
import pathlib
import typing
from collections.abc import Iterator, Sequence

import yaml

from e2e import kubectl
from e2e.demo import version
from tests.toolchain import programs

IN_POD_VARIABLE = "NAIAD_STORIES_IN_POD"
"""The environment variable with the registry, where the stories run in a pod."""

_DIGESTS_VARIABLE = "NAIAD_STORIES_DIGESTS"
"""The environment variable with the digests of the images, there."""

LABEL, LABEL_VALUE = "app.kubernetes.io/managed-by", "naiad-stories"
"""Of the namespaces of stories, so that those of an interrupted run are found."""


class RegistryCluster:
    """The cluster of the environment's kubeconfig, or the one of this pod.

    Args:
        registry: where the images are, e.g. `registry.example.com/team`.
        digests: of the images, by name and tag.
    """

    def __init__(self, registry: str, digests: "dict[str, str] | None" = None) -> None:
        self._registry = registry
        self._digests = digests or {}
        self._kubectl = programs.find(["kubectl"])["kubectl"]

    @property
    def chart_values(self) -> Sequence[str]:
        """The images. Stories choose releases of the operator by tag."""
        operator, server = self.image("naiad-operator"), self.image(f"naiad-server:{version()}")
        return f"image.repository={operator}", "image.pullPolicy=Always", f"serverImage={server}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the stories' pod."""
        return {IN_POD_VARIABLE: self._registry, _DIGESTS_VARIABLE: json.dumps(self._digests)}

    def image(self, name: str) -> str:
        """The address of an image in the registry, with its digest: nodes keep images of earlier runs, which have the same tags."""
        digest = self._digests.get(name, "")
        return f"{self._registry}/{name}{'@' if digest else ''}{digest}"

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """The output of kubectl.

        Raises:
            KubectlError: it failed; the message has what it printed.
        """
        return kubectl.output([self._kubectl, *arguments], arguments, text)

    def run(self, *command: str) -> list[str]:
        """The command itself: it finds the cluster as kubectl does."""
        return list(command)

    def adapted(self, manifest: str) -> str:
        """A manifest with images of the registry and without fixed addresses."""
        documents = [one for one in yaml.safe_load_all(manifest) if one]
        for document in documents:
            for spec in _pod_specs(document):
                for container in (*spec.get("initContainers", ()), *spec["containers"]):
                    container["image"] = self.image(container["image"].rpartition("/")[2])
                    container["imagePullPolicy"] = "Always"
            if document["kind"] == "Service":
                document["spec"].pop("clusterIP", None)
        return yaml.safe_dump_all(documents)


class StoriesPod(RegistryCluster):
    """The same from the pod of the stories, where no images can be built: those of the stories are in the registry before it starts."""

    def __init__(self) -> None:
        super().__init__(os.environ[IN_POD_VARIABLE], json.loads(os.environ[_DIGESTS_VARIABLE]))

    @property
    def archives(self) -> pathlib.Path:
        """There are none.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "an image for the stories must be pushed before their pod starts: e2e/user_cluster.py"
        )

    def import_archive(self, archive: pathlib.Path) -> None:
        """See `archives`."""
        raise NotImplementedError(
            f"{archive}: an image for the stories must be pushed before their pod starts: e2e/user_cluster.py"
        )


def in_pod() -> bool:
    """Whether the stories run in a pod of a user's cluster."""
    return IN_POD_VARIABLE in os.environ


def _pod_specs(document: "dict[str, typing.Any]") -> "Iterator[dict[str, typing.Any]]":
    """The pod of a workload."""
    template = document.get("spec", {}).get("template") if document["kind"] != "Pod" else document
    if template:
        yield template["spec"]
