"""Builds the volume of the cache: of the pod, of a claim, or of the node, where the pods of a namespace share what they download."""

import typing

from naiad_operator.api import quantity
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.model import Cache
from naiad_operator.builders import server
from naiad_operator.builders.workload import storage

Object = dict[str, typing.Any]

VOLUME = "cache"


def source(cache: Cache | None) -> Object:
    """The volume, without its name."""
    if cache is None:
        return {"emptyDir": {}}
    if cache.type == "pvc":
        return {"persistentVolumeClaim": {"claimName": cache.claim_name}}
    if cache.type == "hostPath":
        return {"hostPath": {"path": cache.path, "type": "Directory"}}
    assert cache.size is not None, "a rule"
    return {"emptyDir": {"sizeLimit": quantity.canonical(cache.size)}}


def mount(service: InferenceService) -> Object:
    """The mount. Of a folder of the node a namespace has a part of its own: models are code, which another namespace's pods could replace."""
    made: Object = {"name": VOLUME, "mountPath": server.CACHE_FOLDER}
    return {**made, "subPath": service.namespace} if is_of_node(service) else made


def is_of_node(service: InferenceService) -> bool:
    """Whether pods share a folder of their node."""
    cache = service.spec.predictor.model.cache
    return cache is not None and cache.type == "hostPath"


def options(service: InferenceService) -> list[str]:
    """The options with which a server, or a fetch, keeps what it downloads for the next pod; none for a cache that ends with the pod."""
    model = service.spec.predictor.model
    cache = model.cache
    remote = any(not one.storage_uri.startswith("pvc://") for one in storage.sources(model))
    if cache is None or cache.type == "emptyDir" or not remote:
        return []
    written = [f"--repository-cache-directory={server.OBJECTS_FOLDER}"]
    if cache.size is not None:
        written.append(f"--repository-cache-bytes={int(quantity.amount(cache.size))}")
    return written
