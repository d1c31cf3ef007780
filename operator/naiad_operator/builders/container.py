"""What every container of a pod has in common: hardening, environment, and its share of CPU, memory and disk."""

import collections.abc
import typing

from naiad_operator.api import quantity
from naiad_operator.api.service import InferenceService
from naiad_operator.builders import server

Object = dict[str, typing.Any]

_SHARED_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))
"""What a container that runs before the server may take as well: a pod is given the larger of both, not the sum. Devices are the server's."""


def hardened() -> Object:
    """The security context, as Pod Security "restricted" wants it and with a read-only root."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def environment(
    service: InferenceService, ours: collections.abc.Iterable[Object]
) -> dict[str, list[Object]]:
    """Ours, then the user's, which win: `env`, and `envFrom` where there is one."""
    predictor = service.spec.predictor
    variables: dict[str, Object] = {
        "HOME": {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
        "XDG_CACHE_HOME": {"name": "XDG_CACHE_HOME", "value": server.CACHE_FOLDER},
    }
    variables.update((variable["name"], variable) for variable in ours)
    for theirs in predictor.env or ():
        variable: Object = {"name": theirs.name}
        if theirs.value_from is not None:
            variable["valueFrom"] = theirs.value_from
        elif theirs.value is not None:
            variable["value"] = theirs.value
        variables[theirs.name] = variable
    written: dict[str, list[Object]] = {"env": list(variables.values())}
    if predictor.env_from:
        written["envFrom"] = [dict(source) for source in predictor.env_from]
    return written


def amounts(service: InferenceService) -> dict[str, dict[str, str]]:
    """Requests and limits without devices, as far as there are any.

    They are written as the API server stores them; in any other form they would look like a change for ever.
    """
    predictor = service.spec.predictor
    wanted = predictor.resources
    requests = dict((wanted.requests if wanted else None) or {})
    limits = dict((wanted.limits if wanted else None) or {})
    cache = predictor.model.cache
    if cache is not None and cache.size is not None:
        requests.setdefault("ephemeral-storage", cache.size)
    both = {"requests": requests, "limits": limits}
    return {
        field: {name: quantity.canonical(amount) for name, amount in given.items()}
        for field, given in both.items()
        if given
    }


def shared(given: collections.abc.Mapping[str, dict[str, str]]) -> Object:
    """Those of the amounts that a container before the server takes, too."""
    kept = {
        field: {name: amount for name, amount in of.items() if name in _SHARED_RESOURCES}
        for field, of in given.items()
    }
    return {field: of for field, of in kept.items() if of}
