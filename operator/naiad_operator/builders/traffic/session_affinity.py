"""How an Ingress controller or a Gateway keeps the requests of one client, or of one sequence, at one pod.

A cookie names the pod: the controller sets it with the first response, and the client sends it back. The header of an Ingress is the client's own: all
requests with one value of it get to one pod. That of a Gateway is like a cookie: its first response has it. The class of the Ingress tells the controllers apart, as in `ingress_limits`. Pure.
"""

import collections.abc
import typing

from naiad_operator.api.types.traffic import Gateway, Ingress, SessionAffinity
from naiad_operator.builders import kinds
from naiad_operator.builders.facts import ClusterFacts

Annotations = dict[str, str]

COOKIE, HEADER = "Cookie", "Header"
_COOKIE_NAME, _HEADER_NAME = "naiad-pod", "naiad-sequence"


def name_of(wanted: SessionAffinity) -> str:
    """The name of the cookie or the header."""
    return wanted.name or (_COOKIE_NAME if wanted.type == COOKIE else _HEADER_NAME)


def _nginx(wanted: SessionAffinity, services: str) -> Annotations:
    """Those of ingress-nginx and of F5's controller, which has cookies only as NGINX Plus."""
    community, name = "nginx.ingress.kubernetes.io", name_of(wanted)
    if wanted.type == HEADER:
        variable = f"$http_{name.lower().replace('-', '_')}"
        return {
            f"{community}/upstream-hash-by": variable,
            "nginx.org/lb-method": f"hash {variable} consistent",
        }
    age = wanted.max_age_seconds
    cookie = f"serviceName={services} {name}{f' expires={age}s' if age else ''} path=/"
    made = {
        f"{community}/affinity": "cookie",
        f"{community}/affinity-mode": "persistent",
        f"{community}/session-cookie-name": name,
        "nginx.com/sticky-cookie-services": cookie,
    }
    if age:
        made[f"{community}/session-cookie-max-age"] = str(age)
        made[f"{community}/session-cookie-expires"] = str(age)
    return made


def _haproxy(wanted: SessionAffinity, _services: str) -> Annotations:
    """Those of haproxy-ingress and of HAProxy's own controller."""
    community, own, name = "haproxy-ingress.github.io", "haproxy.org", name_of(wanted)
    if wanted.type == HEADER:
        return {
            f"{community}/balance-algorithm": f"hdr({name})",
            f"{own}/load-balance": f"hdr({name})",
        }
    made = {
        f"{community}/affinity": "cookie",
        f"{community}/session-cookie-name": name,
        f"{own}/cookie-persistence": name,
    }
    if wanted.max_age_seconds:
        # haproxy-ingress writes these words behind the cookie as they are.
        made[f"{community}/session-cookie-keywords"] = (
            f"indirect nocache httponly maxlife {wanted.max_age_seconds}s"
        )
    return made


def _alb(wanted: SessionAffinity, _services: str) -> Annotations:
    if wanted.type == HEADER:
        return {}
    attributes = "stickiness.enabled=true,stickiness.type=lb_cookie"
    if wanted.max_age_seconds:
        attributes += f",stickiness.lb_cookie.duration_seconds={wanted.max_age_seconds}"
    return {
        "alb.ingress.kubernetes.io/target-type": "ip",  # the node port of a Service would choose any pod
        "alb.ingress.kubernetes.io/target-group-attributes": attributes,
    }


_CONTROLLERS: dict[str, collections.abc.Callable[[SessionAffinity, str], Annotations]] = {
    "nginx": _nginx,
    "haproxy": _haproxy,
    "alb": _alb,
}

_TRAEFIK = "traefik"

_ELSEWHERE = {
    "contour": "Contour takes it from an HTTPProxy (loadBalancerPolicy), not from an Ingress",
    "kong": "Kong takes it from a KongUpstreamPolicy, which service.annotations name (konghq.com/upstream-policy)",
    "gce": "Google's load balancer takes it from a BackendConfig (sessionAffinity), which service.annotations name",
}
"""Controllers that do not take it from annotations, and where they do take it from."""


def annotations(ingress: Ingress, *, service: str) -> Annotations:
    """The annotations of an Ingress that leads to a Service; none without session affinity."""
    wanted = ingress.session_affinity
    if wanted is None or _elsewhere(ingress):
        return {}
    named = [make for name, make in _CONTROLLERS.items() if name in _class(ingress)]
    if _TRAEFIK in _class(ingress):
        return {}
    made: Annotations = {}
    for make in named or _CONTROLLERS.values():
        made |= make(wanted, service)
    return made


def service_annotations(ingress: Ingress | None) -> Annotations:
    """The annotations of the Service behind an Ingress: Traefik reads them there."""
    if ingress is None or not ingress.enabled or ingress.session_affinity is None:
        return {}
    wanted, prefix = ingress.session_affinity, "traefik.ingress.kubernetes.io/service.sticky.cookie"
    is_other = any(name in _class(ingress) for name in (*_CONTROLLERS, *_ELSEWHERE))
    if wanted.type != COOKIE or is_other:
        return {}
    made = {prefix: "true", f"{prefix}.name": name_of(wanted), f"{prefix}.httponly": "true"}
    if wanted.max_age_seconds:
        made[f"{prefix}.maxage"] = str(wanted.max_age_seconds)
    return made


def without_effect(ingress: Ingress) -> str:
    """Why the session affinity of the spec has no effect with this class of Ingress, and what to do; "" if it has one, or there is none."""
    wanted = ingress.session_affinity
    if not ingress.enabled or wanted is None:
        return ""
    where = _elsewhere(ingress)
    if wanted.type == HEADER and not where:
        no_header = next((name for name in (_TRAEFIK, "alb") if name in _class(ingress)), "")
        if no_header:
            where = "this controller has none by a header: write type: Cookie, or send each sequence over one gRPC stream"
    if not where:
        return ""
    return f"ingress.sessionAffinity of type {wanted.type} cannot be set through an Ingress of class {ingress.class_name}: {where}"


def persistence(gateway: Gateway, facts: ClusterFacts, kind: kinds.Kind) -> dict[str, typing.Any]:
    """The `sessionPersistence` of the rules of a route; empty without one, and where the routes of the cluster do not have it."""
    wanted = gateway.session_persistence
    if wanted is None or kinds.session_persistence(kind) not in facts.apis:
        return {}
    made: dict[str, typing.Any] = {"type": wanted.type, "sessionName": name_of(wanted)}
    if wanted.max_age_seconds:
        made["absoluteTimeout"] = _gateway_duration(wanted.max_age_seconds)
        if wanted.type == COOKIE:
            made["cookieConfig"] = {"lifetimeType": "Permanent"}
    return {"sessionPersistence": made}


def _gateway_duration(seconds: int) -> str:
    """A duration as the Gateway API has it, whose numbers have at most five digits."""
    hours, rest = divmod(seconds, 3600)
    return f"{hours}h{rest}s" if hours else f"{rest}s"


def persistence_without_effect(
    gateway: Gateway, facts: ClusterFacts, wanted: collections.abc.Iterable[kinds.Kind]
) -> str:
    """Which routes of the cluster cannot have the session persistence of the spec, and what to do; "" if all can, or there is none."""
    lacking = [
        kind.kind
        for kind in wanted
        if kind.key in facts.apis and kinds.session_persistence(kind) not in facts.apis
    ]
    if gateway.session_persistence is None or not lacking:
        return ""
    return (
        f"gateway.sessionPersistence has no effect: {' and '.join(lacking)} of this cluster do not have it: install the experimental channel of the Gateway API, "
        "or send each sequence over one gRPC stream"
    )


def _elsewhere(ingress: Ingress) -> str:
    return next((where for name, where in _ELSEWHERE.items() if name in _class(ingress)), "")


def _class(ingress: Ingress) -> str:
    return (ingress.class_name or "").lower()
