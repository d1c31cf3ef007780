"""Builds what brings the files of a transformer or an explainer: an init container that fetches them, or a claim, and the mount for the program.

KServe's contract: they are in /mnt/models before the program starts, and the variable STORAGE_URI names that folder.
"""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.model import Model, Repository
from naiad_operator.builders import server
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.workload import container, storage

Object = dict[str, typing.Any]

_VOLUME, _TEMPORARY = "fetched", "fetch-tmp"
_FOLDER = "files"
"""The folder in the volume: a fetch gives its folder the name at the end, which a mounted volume cannot have."""
_VARIABLE = "STORAGE_URI"
_CACHE = {"name": "XDG_CACHE_HOME", "value": "/tmp"}  # noqa: S108 - the pod's own, an emptyDir
"""In place of the server's cache, which is not in these pods."""


def are_wanted(service: InferenceService) -> bool:
    """Whether a component has files."""
    return service.spec.predictor.model.storage_uri is not None


def of_pod(service: InferenceService, facts: ClusterFacts) -> Object:
    """The init container and the volumes; {} without files.

    Raises:
        InvalidSpec: the image of the servers is too old to fetch them.
    """
    if not are_wanted(service):
        return {}
    mounted = storage.mounted(service.spec.predictor.model)
    if _is_claim(service):
        return {"volumes": list(mounted.volumes)}
    folder = f"{server.FETCHED_FOLDER}/{_FOLDER}"
    (address,) = mounted.repositories
    fetch: Object = {
        "name": server.FETCH_FILES_CONTAINER,
        "image": facts.fetcher,
        "command": list(server.FETCH_COMMAND),
        "args": server.fetch_files_arguments(address, folder, facts.fetcher_version),
        **container.environment(service, (_CACHE, *mounted.env)),
        "securityContext": container.hardened(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": _TEMPORARY, "mountPath": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
            {"name": _VOLUME, "mountPath": server.FETCHED_FOLDER},
            *mounted.mounts,
        ],
    }
    if resources := container.shared(container.amounts(service)):
        fetch["resources"] = resources
    own = [{"name": name, "emptyDir": {}} for name in (_VOLUME, _TEMPORARY)]
    return {"initContainers": [fetch], "volumes": [*own, *mounted.volumes]}


def of_container(service: InferenceService, environment: dict[str, list[Object]]) -> Object:
    """The environment and the mounts of the program.

    Args:
        service: the component as a service.
        environment: its own `env` and `envFrom`, which take precedence.
    """
    if not are_wanted(service):
        return dict(environment)
    own = environment.get("env", [])
    if all(one["name"] != _VARIABLE for one in own):
        own = [{"name": _VARIABLE, "value": server.FILES_FOLDER}, *own]
    return {**environment, "env": own, "volumeMounts": [_mount(service)]}


def _is_claim(service: InferenceService) -> bool:
    return (service.spec.predictor.model.storage_uri or "").startswith("pvc://")


def _mount(service: InferenceService) -> Object:
    mount: Object = {"name": _VOLUME, "mountPath": server.FILES_FOLDER, "subPath": _FOLDER, "readOnly": True}  # fmt: skip
    if not _is_claim(service):
        return mount
    model: Model = service.spec.predictor.model
    (mounted,) = storage.mounted(model).mounts
    path = storage.path_in_claim(Repository(storage_uri=model.storage_uri or ""))
    return {**mounted, "mountPath": server.FILES_FOLDER, **({"subPath": path} if path else {})}
