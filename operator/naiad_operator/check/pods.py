"""Checks variables that stand twice, tolerations, and podTemplate: containers whose names are misspelled, and fields that no pod has."""

import collections.abc
import difflib
import typing

from naiad_operator.api.manifests.unvalidated import entries, part
from naiad_operator.builders import server
from naiad_operator.check.finding import Findings, error, warning

_LISTS = (
    "containers",
    "initContainers",
    "volumes",
    "tolerations",
    "imagePullSecrets",
    "hostAliases",
)
"""Fields of a pod's spec whose names are often written in the singular."""


def findings(predictor: dict[str, typing.Any], path: str) -> Findings:
    """What is wrong with the variables and the podTemplate of a predictor, as it is written."""
    seen: dict[str, int] = {}
    for index, variable in enumerate(entries(predictor, "env")):
        name = str(variable.get("name"))
        if name in seen:
            message = (
                f"{name} is already env[{seen[name]}]: the last one counts: leave one of them out"
            )
            yield warning(f"{path}.env[{index}].name", message)
        seen[name] = index
    for index, toleration in enumerate(entries(predictor, "tolerations")):
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            message = "only a taint with the effect NoExecute is tolerated for a time: write effect: NoExecute, or leave tolerationSeconds out"
            yield error(f"{path}.tolerations[{index}].tolerationSeconds", message)
    pod = part(predictor, "podTemplate", "spec")
    here = f"{path}.podTemplate.spec"
    for field in pod:
        near = difflib.get_close_matches(field, _LISTS, n=1, cutoff=0.85)
        if near and field not in _LISTS:
            yield error(f"{here}.{field}", f"a pod has no such field: did you mean {near[0]}?")
    for index, container in enumerate(entries(pod, "containers")):
        name = str(container.get("name"))
        if name == server.CONTAINER or "image" in container or "$patch" in container:
            continue
        message = f"adds a container {name} that has no image, which Kubernetes refuses unless the NaiadProfile has it: the server's is called {server.CONTAINER}"
        yield warning(f"{here}.containers[{index}].name", message)


def without_containers(
    children: collections.abc.Iterable[dict[str, typing.Any]], path: str
) -> Findings:
    """That a podTemplate takes every container away.

    Args:
        children: the objects of a service.
        path: the field podTemplate.
    """
    for child in children:
        pod = part(child, "spec", "template", "spec")
        if child["kind"] == "Deployment" and not pod.get("containers"):
            message = f"takes the container {server.CONTAINER} away, and no pod is without one: patch its fields instead"
            yield error(path, message)
            return
