"""Checks CPU, memory and other resources: requests above their limits, and what an autoscaler or /dev/shm needs of them."""

import decimal
import typing

from naiad_operator.api import quantity
from naiad_operator.api.manifests.unvalidated import part
from naiad_operator.check.finding import Findings, error, warning

_DEFAULT_SHARED_MEMORY = "1Gi"


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
    for name, amount in requests.items():
        yield from _compare(name, amount, limits, f"{path}.resources.requests[{name}]")
        if "/" in name and name not in limits:
            message = "Kubernetes wants the limit of an extended resource: write it in limits, where it counts as the request, too"
            yield error(f"{path}.resources.requests[{name}]", message)
    yield from _shared_memory(predictor, limits, path)
    yield from _utilization(predictor, {*requests, *limits}, path)


def _compare(
    name: str, amount: typing.Any, limits: dict[str, typing.Any], where: str, role: str = ""
) -> Findings:
    wanted, most = _number(amount), _number(limits.get(name))
    if wanted is None or most is None or wanted <= most:
        return
    what = f"is {amount}, {role}," if role else f"is {amount},"
    message = f"{what} and limits[{name}] is {limits[name]}: Kubernetes takes no request above its limit: write at most {limits[name]}, or a higher limit"
    yield error(where, message)


def _shared_memory(predictor: typing.Any, limits: dict[str, typing.Any], path: str) -> Findings:
    amount = part(predictor).get("sharedMemory", _DEFAULT_SHARED_MEMORY)
    size, limit = _number(amount), _number(limits.get("memory"))
    if size is not None and limit is not None and size >= limit:
        message = f"is {limits['memory']}, and /dev/shm (predictor.sharedMemory, {amount}) counts against it: a full /dev/shm would leave the server no memory; write a higher limit or a smaller sharedMemory"
        yield warning(f"{path}.resources.limits[memory]", message)


def _utilization(predictor: typing.Any, known: set[str], path: str) -> Findings:
    """An autoscaler computes utilization from requests, for which a limit stands in."""
    metrics = part(predictor, "autoscaling").get("metrics")
    for index, metric in enumerate(metrics if isinstance(metrics, list | tuple) else ()):
        resource = part(metric, "resource")
        name = resource.get("name")
        if part(resource, "target").get("type") == "Utilization" and name not in known:
            message = f"utilization is a share of resources.requests[{name}], which is not set, so that the autoscaler would not work: write the request, or set it in the NaiadProfile"
            yield warning(f"{path}.autoscaling.metrics[{index}]", message)


def _number(amount: typing.Any) -> decimal.Decimal | None:
    """The number that a quantity stands for; None for anything else, which is an error of the schema."""
    if isinstance(amount, bool) or not isinstance(amount, int | str):
        return None
    try:
        return quantity.amount(str(amount))
    except decimal.InvalidOperation:
        return None
