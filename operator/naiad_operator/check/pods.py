"""Checks variables that stand twice, keys of labels, and podTemplate: containers whose names are misspelled, and fields that no pod has."""

import difflib
import re
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


_LABEL_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


def keys(spec: typing.Any) -> Findings:
    """Keys of labels and annotations that Kubernetes refuses.

    Args:
        spec: the spec as it is written.
    """
    for path, field in ((("labels",), "labels"), (("annotations",), "annotations"), (("predictor", "nodeSelector"), "predictor.nodeSelector")):  # fmt: skip
        for key in part(spec, *path):
            if _LABEL_KEY.fullmatch(str(key)) is None:
                message = "the key has the form NAME or example.com/NAME: letters, digits, '-', '_' and '.', at most 63 in NAME"
                yield error(f"spec.{field}[{key}]", message)


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
