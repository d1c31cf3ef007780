"""The default requests: what new pods request of a resource of which their service says neither a request nor a limit.

Without any, a pod is BestEffort: the first to be evicted, and placed without regard to what it needs. They are for new pods. Pods that run keep
what they were made with until their service is edited, so that a new operator, or another default, restarts none.
"""

import collections.abc
import types
import typing

import msgspec

from naiad_operator.api import quantity
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.bounds import Quantity
from naiad_operator.builders import server
from naiad_operator.builders.workload.image import Recorded, pods_hash

Object = dict[str, typing.Any]

Requests = collections.abc.Mapping[str, str]
"""By resource, e.g. {"cpu": "100m"}."""

NONE: Requests = types.MappingProxyType({})
_NAMES = ("cpu", "memory", "ephemeral-storage")


def chosen(service: InferenceService, defaults: Requests, recorded: Recorded | None) -> Requests:
    """The default requests for the pods of a service.

    Args:
        service: the service.
        defaults: those of the administrator.
        recorded: what the present pods were made from; None for the first pods.
    """
    if recorded is not None and recorded.pods == pods_hash(service):
        return read(recorded.requests)
    return defaults


def read(text: str) -> Requests:
    """Default requests in the form of the operator's option: cpu=100m,memory=256Mi.

    Raises:
        ValueError: they are not; the message says what to write.
    """
    requests = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, amount = entry.partition("=")
        if name not in _NAMES:
            raise ValueError(f"{entry!r} is not NAME=AMOUNT with one of {', '.join(_NAMES)}")
        try:
            requests[name] = quantity.canonical(msgspec.convert(amount, Quantity))
        except msgspec.ValidationError:
            raise ValueError(
                f"{entry!r}: {amount!r} is not an amount such as 100m, 2 or 256Mi"
            ) from None
    return requests


def write(requests: Requests) -> str:
    """The same as text, in a fixed order."""
    return ",".join(f"{name}={amount}" for name, amount in sorted(requests.items()))


def added(pod: Object, requests: Requests) -> Object:
    """The spec of a pod with default requests in the containers that run the server and fetch its models, after everything else was put into it."""
    if not requests or pod.get("resources"):  # of the whole pod
        return pod
    made = dict(pod)
    for field in ("initContainers", "containers"):
        if field in pod:
            made[field] = [_added(one, requests) if _is_ours(one) else one for one in pod[field]]
    return made


def _is_ours(container: Object) -> bool:
    name = str(container["name"])
    return name == server.CONTAINER or name.startswith(server.FETCH_CONTAINER)


def _added(container: Object, requests: Requests) -> Object:
    resources: Object = container.get("resources") or {}
    # Kubernetes takes a limit for the request where there is none.
    known = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    missing = {name: amount for name, amount in requests.items() if name not in known}
    if not missing:
        return container
    requested = {**missing, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requested}}
