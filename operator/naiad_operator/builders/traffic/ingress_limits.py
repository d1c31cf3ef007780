"""Annotations by which Ingress controllers let large bodies and long streams through; no controller reads those of another.

The class of an Ingress may have any name. One that holds the name of a controller gets the annotations of that controller; any other,
and none, gets those of all.
"""

import collections.abc
import decimal
import typing

from naiad_operator.api import quantity
from naiad_operator.api.types.traffic import DEFAULT_READ_TIMEOUT_SECONDS, Ingress

Annotations = dict[str, str]


class _Limits(typing.NamedTuple):
    """What the annotations of one Ingress have to say.

    Attributes:
        body: the limit of a body in bytes; 0 for no limit.
        seconds: the time between two reads from a pod.
        grpc_service: the Service whose pods speak gRPC; "" for HTTP.
    """

    body: int
    seconds: int
    grpc_service: str


def _nginx(limits: _Limits) -> Annotations:
    """Those of ingress-nginx and of F5's controller. Without buffers a body reaches the server, and a stream the client, as it comes."""
    community, f5 = "nginx.ingress.kubernetes.io", "nginx.org"
    made = {
        f"{community}/proxy-body-size": str(limits.body),
        f"{community}/proxy-read-timeout": str(limits.seconds),
        f"{community}/proxy-send-timeout": str(limits.seconds),
        f"{f5}/client-max-body-size": str(limits.body),
        f"{f5}/proxy-read-timeout": f"{limits.seconds}s",
        f"{f5}/proxy-send-timeout": f"{limits.seconds}s",
    }
    if limits.grpc_service:
        return {
            f"{community}/backend-protocol": "GRPC",
            f"{f5}/grpc-services": limits.grpc_service,
            **made,
        }
    return {
        **made,
        f"{community}/proxy-buffering": "off",
        f"{community}/proxy-request-buffering": "off",
        f"{f5}/proxy-buffering": "False",
    }


def _haproxy(limits: _Limits) -> Annotations:
    """Those of haproxy-ingress and of HAProxy's own controller, which have no limit of a body by default."""
    community, own = "haproxy-ingress.github.io", "haproxy.org"
    made = {
        f"{community}/timeout-server": f"{limits.seconds}s",
        f"{own}/timeout-server": f"{limits.seconds}s",
    }
    if limits.body:
        made[f"{community}/proxy-body-size"] = str(limits.body)
    if limits.grpc_service:
        made |= {f"{community}/backend-protocol": "grpc", f"{own}/server-proto": "h2"}
    return made


def _contour(limits: _Limits) -> Annotations:
    return {"projectcontour.io/response-timeout": f"{limits.seconds}s"}


_CONTROLLERS: dict[str, collections.abc.Callable[[_Limits], Annotations]] = {
    "nginx": _nginx,
    "haproxy": _haproxy,
    "contour": _contour,
}

_ELSEWHERE = {
    "traefik": "Traefik limits bodies by a Middleware (buffering.maxRequestBodyBytes), named in the annotation "
    "traefik.ingress.kubernetes.io/router.middlewares, and times by its entry points (respondingTimeouts)",
    "alb": "an AWS load balancer has no limit of a body, and one idle timeout: the annotation "
    "alb.ingress.kubernetes.io/load-balancer-attributes: idle_timeout.timeout_seconds=3600",
    "kong": "Kong reads its times from the Service: konghq.com/read-timeout, in milliseconds, in service.annotations",
    "gce": "Google's load balancer reads its time from a BackendConfig (timeoutSec)",
}
"""Controllers that take no limits from the annotations of an Ingress, and where they do take them from."""


def annotations(ingress: Ingress, *, grpc_service: str = "") -> Annotations:
    """The annotations of the Ingress of HTTP, or of gRPC when a Service of gRPC is named."""
    limits = _Limits(_bytes(ingress.max_body_size), _seconds(ingress), grpc_service)
    if _elsewhere(ingress):
        return {}
    named = [make for name, make in _CONTROLLERS.items() if name in _class(ingress)]
    made: Annotations = {}
    for make in named or _CONTROLLERS.values():
        made |= make(limits)
    return made


def without_effect(ingress: Ingress) -> str:
    """Which limits in the spec this class of Ingress does not take, and where to set them; "" if none."""
    fields = {
        "ingress.maxBodySize": ingress.max_body_size is not None,
        "ingress.readTimeoutSeconds": ingress.read_timeout_seconds is not None,
    }
    where = _elsewhere(ingress)
    if not where and "contour" in _class(ingress):
        del fields["ingress.readTimeoutSeconds"]
        where = "Contour does not limit bodies"
    written = " and ".join(field for field, is_written in fields.items() if is_written)
    if not (written and where):
        return ""
    return f"{written} cannot be set through an Ingress of class {ingress.class_name}: {where}"


def _elsewhere(ingress: Ingress) -> str:
    return next((where for name, where in _ELSEWHERE.items() if name in _class(ingress)), "")


def _class(ingress: Ingress) -> str:
    return (ingress.class_name or "").lower()


def _seconds(ingress: Ingress) -> int:
    given = ingress.read_timeout_seconds
    return DEFAULT_READ_TIMEOUT_SECONDS if given is None else given


def _bytes(size: str | None) -> int:
    return (
        0 if size is None else int(quantity.amount(size).to_integral_value(decimal.ROUND_CEILING))
    )
