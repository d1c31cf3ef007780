"""The parts that all containers of a pod share: security context, environment, and CPU, memory and disk."""

import collections.abc
import typing

from naiad_operator.api import quantity
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.spec import Predictor
from naiad_operator.builders import server

Object = dict[str, typing.Any]

_SHARED_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))
"""Resources that init containers also request: Kubernetes takes the larger of both, not the sum. Devices are only for the server."""


def hardened() -> Object:
    """The security context: Pod Security "restricted", with a read-only root file system."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def environment(
    service: InferenceService, ours: collections.abc.Iterable[Object]
) -> dict[str, list[Object]]:
    """The operator's variables and then the user's, which take precedence: `env`, and `envFrom` when there is one."""
    predictor = service.spec.predictor
    variables: dict[str, Object] = {
        "HOME": {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
        "XDG_CACHE_HOME": {"name": "XDG_CACHE_HOME", "value": server.CACHE_FOLDER},
    }
    variables.update((variable["name"], variable) for variable in ours)
    own = own_environment(predictor)
    variables.update((variable["name"], variable) for variable in own.get("env", ()))
    return {**own, "env": list(variables.values())}


def own_environment(predictor: Predictor) -> dict[str, list[Object]]:
    """The user's variables alone: `env` and `envFrom`, each when there are some."""
    variables: dict[str, Object] = {}
    for theirs in predictor.env or ():
        variable: Object = {"name": theirs.name}
        if theirs.value_from is not None:
            variable["valueFrom"] = theirs.value_from
        elif theirs.value is not None:
            variable["value"] = theirs.value
        variables[theirs.name] = variable
    written: dict[str, list[Object]] = {}
    if variables:
        written["env"] = list(variables.values())
    if predictor.env_from:
        written["envFrom"] = [dict(source) for source in predictor.env_from]
    return written


def amounts(service: InferenceService) -> dict[str, dict[str, str]]:
    """Requests and limits without devices; only those that are set.

    They are in the canonical form of the API server, because any other form would look like a change in every reconcile.
    """
    predictor = service.spec.predictor
    wanted = predictor.resources
    requests = dict((wanted.requests if wanted else None) or {})
    limits = dict((wanted.limits if wanted else None) or {})
    cache = predictor.model.cache
    if cache is not None and cache.type == "emptyDir" and cache.size is not None:
        requests.setdefault("ephemeral-storage", cache.size)
    both = {"requests": requests, "limits": limits}
    return {
        field: {name: quantity.canonical(amount) for name, amount in given.items()}
        for field, given in both.items()
        if given
    }


def shared(given: collections.abc.Mapping[str, dict[str, str]]) -> Object:
    """The resources that init containers request as well."""
    kept = {
        field: {name: amount for name, amount in of.items() if name in _SHARED_RESOURCES}
        for field, of in given.items()
    }
    return {field: of for field, of in kept.items() if of}
