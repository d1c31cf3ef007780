"""Checks CPU, memory and other resources: requests above their limits, and what /dev/shm needs of them."""

import collections.abc
import decimal
import difflib
import typing

from naiad_operator.api import quantity
from naiad_operator.api.manifests.unvalidated import entries, part
from naiad_operator.check.finding import Findings, error, warning

_DEFAULT_SHARED_MEMORY = "1Gi"
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_BYTES = frozenset(_RESOURCES[1:])
_FEW_BYTES = 1024**2
"""No server runs in less."""
ABOVE_LIMIT = "Kubernetes takes no request above its limit"
"""In the message of every request above its limit."""


def findings(predictor: typing.Any, path: str) -> Findings:
    """What is wrong with the resources of a predictor or a canary.

    Args:
        predictor: the part of the spec, with defaults.
        path: its path.
    """
    requests = part(predictor, "resources", "requests")
    limits = part(predictor, "resources", "limits")
    size = part(predictor, "model", "cache").get("size")
    if size is not None and "ephemeral-storage" not in requests:
        yield from _compare(
            "ephemeral-storage", size, limits, f"{path}.model.cache.size", "which is also a request"
        )
    for kind, amounts in (("requests", requests), ("limits", limits)):
        for name, amount in amounts.items():
            yield from _odd(name, amount, f"{path}.resources.{kind}[{name}]")
    for name, amount in requests.items():
        yield from _compare(name, amount, limits, f"{path}.resources.requests[{name}]")
        if "/" in name and name not in limits:
            message = "Kubernetes wants the limit of an extended resource: write it in limits, where it counts as the request, too"
            yield error(f"{path}.resources.requests[{name}]", message)
    yield from _shared_memory(predictor, limits, path)


def of_pods(children: collections.abc.Iterable[dict[str, typing.Any]], path: str) -> Findings:
    """Requests above limits in the pods that are made, which a podTemplate may have changed.

    Args:
        children: the objects of a service.
        path: the field podTemplate.
    """
    for child in children:
        pod = part(child, "spec", "template", "spec")
        for container in (*entries(pod, "initContainers"), *entries(pod, "containers")):
            limits = part(container, "resources", "limits")
            for name, amount in part(container, "resources", "requests").items():
                if _exceeds(amount, limits.get(name)):
                    message = f"gives container {container.get('name')} a request of {amount} {name} and a limit of {limits[name]}: {ABOVE_LIMIT}"
                    yield error(path, message)


def _odd(name: str, amount: typing.Any, where: str) -> Findings:
    """What Kubernetes refuses or what is hardly meant: an unknown resource, less than nothing, bytes without a unit."""
    number = _number(amount)
    if "/" not in name and name not in _RESOURCES and not name.startswith("hugepages-"):
        near = difflib.get_close_matches(name, _RESOURCES, n=1)
        hint = f"did you mean {near[0]}?" if near else "others have a domain, as example.com/fpga"
        if "gpu" in name.lower():
            hint = "GPUs are requested in predictor.accelerator"
        yield error(where, f"there is no resource {name}: {hint}")
    if number is None or (number < 0 and isinstance(amount, str)):  # an error of the schema
        return
    if number < 0:
        yield error(where, f"is {amount}: write 0 or more")
    elif name in _BYTES and number != number.to_integral_value():
        message = f"is {amount}, {number:f} bytes, because m is a thousandth: write M or Mi, e.g. {str(amount).rstrip('m')}Mi"
        yield error(where, message)
    elif name in _BYTES and 0 < number < _FEW_BYTES:
        yield warning(where, f"is {amount}, {number:f} bytes: write a unit, e.g. {number:f}Mi")


def _compare(
    name: str, amount: typing.Any, limits: dict[str, typing.Any], where: str, role: str = ""
) -> Findings:
    if not _exceeds(amount, limits.get(name)):
        return
    what = f"is {amount}, {role}," if role else f"is {amount},"
    message = f"{what} and limits[{name}] is {limits[name]}: {ABOVE_LIMIT}: write at most {limits[name]}, or a higher limit"
    yield error(where, message)


def _exceeds(amount: typing.Any, limit: typing.Any) -> bool:
    wanted, most = _number(amount), _number(limit)
    return wanted is not None and most is not None and wanted > most and min(wanted, most) >= 0


def _shared_memory(predictor: typing.Any, limits: dict[str, typing.Any], path: str) -> Findings:
    amount = part(predictor).get("sharedMemory", _DEFAULT_SHARED_MEMORY)
    size, limit = _number(amount), _number(limits.get("memory"))
    if size is not None and limit is not None and size >= limit >= _FEW_BYTES:
        message = f"is {limits['memory']}, and /dev/shm (predictor.sharedMemory, {amount}) counts against it: a full /dev/shm would leave the server no memory; write a higher limit or a smaller sharedMemory"
        yield warning(f"{path}.resources.limits[memory]", message)


def _number(amount: typing.Any) -> decimal.Decimal | None:
    """The number that a quantity stands for; None for anything else, which is an error of the schema."""
    if isinstance(amount, bool) or not isinstance(amount, int | str):
        return None
    try:
        return quantity.amount(str(amount))
    except decimal.InvalidOperation:
        return None
