"""What a module takes out of a control plane that it shares with others, so that they may come in any order."""

import collections.abc

from tests.apiserver.client import Kubectl, Object, RefusedError, until

_NOT_THERE = 404


def discard(kubectl: Kubectl, kind: str, name: str, namespace: str = "") -> None:
    """Deletes an object if there is one, also one whose finalizers no controller serves: with one of them left, its definition could never be removed."""
    try:
        found = kubectl.find(kind, name, namespace)
        if found is None:
            return
        if found["metadata"].get("finalizers") and kind != "CustomResourceDefinition":
            kubectl.patch(kind, name, namespace, body={"metadata": {"finalizers": None}})
        kubectl.delete(kind, name, namespace)
    except RefusedError as refused:
        if refused.code != _NOT_THERE:  # it went with its owner, or its kind did
            raise


def empty(kubectl: Kubectl, namespace: str, kinds: collections.abc.Iterable[str]) -> None:
    """Discards all objects of these kinds in a namespace; owners first, so that nothing makes what is gone again."""
    for kind in kinds:
        for each in kubectl.list(kind, namespace):
            discard(kubectl, kind, each["metadata"]["name"], namespace)


def uninstall(kubectl: Kubectl, objects: collections.abc.Iterable[Object]) -> None:
    """Discards objects of an installation, the definitions last, and waits until these are gone with all objects of theirs."""
    definitions = []
    for manifest in objects:
        kind, metadata = manifest["kind"], manifest["metadata"]
        if kind == "CustomResourceDefinition":
            definitions.append(metadata["name"])
        elif kind != "Namespace":
            discard(kubectl, kind, metadata["name"], metadata.get("namespace", ""))
    for name in definitions:
        discard(kubectl, "CustomResourceDefinition", name)
    for name in definitions:
        until(f"{name} to be gone", lambda name=name: kubectl.find("CustomResourceDefinition", name) is None)  # type: ignore[misc]  # fmt: skip
