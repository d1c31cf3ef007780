"""Builds the init containers of `delivery: init`: each fetches one repository into a volume, with credentials that the server does not get."""

import hashlib
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.builders import server
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.workload import cache, container, storage

Object = dict[str, typing.Any]

VOLUME = "fetched"


def is_wanted(service: InferenceService) -> bool:
    """Whether repositories are fetched before the server starts."""
    return service.spec.predictor.model.delivery == "init"


def folders(service: InferenceService, repositories: tuple[str, ...]) -> tuple[str, ...]:
    """The folder of each repository in the pod.

    In a cache, which pods of different specs may share, the folder's name is a hash of the repository: a new storageUri must not
    remove the models of servers that are still running.
    """
    if not _is_in_cache(service):
        return tuple(f"{server.FETCHED_FOLDER}/{number}" for number in range(len(repositories)))
    return tuple(
        f"{server.CACHED_REPOSITORIES_FOLDER}/{hashlib.sha256(one.encode()).hexdigest()[:16]}"
        for one in repositories
    )


def _is_in_cache(service: InferenceService) -> bool:
    """Whether the repositories themselves are in the cache's volume."""
    return service.spec.predictor.model.cache is not None and not cache.is_of_node(service)


def containers(service: InferenceService, facts: ClusterFacts) -> list[Object]:
    """One container per repository, in their order."""
    sources = storage.sources(service.spec.predictor.model)
    written = storage.mounted(service.spec.predictor.model).repositories
    resources = container.shared(container.amounts(service))
    made = []
    # A claim has the repositories themselves; a folder of the node their objects, of which each pod has a copy.
    kept = cache.options(service) if cache.is_of_node(service) else []
    places = zip(sources, written, folders(service, written), strict=True)
    for number, (source, repository, folder) in enumerate(places):
        access = storage.credentials((source,))
        mounts = [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
            *volume_mounts(service, writing=True),
            *access.mounts,
        ]
        one: Object = {
            "name": f"{server.FETCH_CONTAINER}{number}",
            "image": facts.image,
            "command": list(server.FETCH_COMMAND),
            "args": server.fetch_arguments(repository, folder, kept),
            **container.environment(service, access.env),
            "securityContext": container.hardened(),
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": mounts,
        }
        if resources:
            one["resources"] = resources
        made.append(one)
    return made


def volumes(service: InferenceService) -> list[Object]:
    """The volume of the repositories, unless they are in the cache, and the credentials."""
    model = service.spec.predictor.model
    own = [] if _is_in_cache(service) else [{"name": VOLUME, "emptyDir": {}}]
    return [*own, *storage.mounted(model).volumes]


def volume_mounts(service: InferenceService, *, writing: bool) -> list[Object]:
    """The mounts of the init containers (`writing`), or the additional ones of the server, which only reads."""
    mounted = [cache.mount(service)] if writing else []
    if _is_in_cache(service):
        return mounted
    mount: Object = {"name": VOLUME, "mountPath": server.FETCHED_FOLDER}
    return [*mounted, mount if writing else {**mount, "readOnly": True}]
