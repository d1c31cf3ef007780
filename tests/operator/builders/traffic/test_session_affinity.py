"""What keeps clients at their pods, by the class of the Ingress, and in routes."""

import re
import typing

import msgspec
import pytest

from naiad_operator.api.types.traffic import Gateway, Ingress, ParentReference, SessionAffinity
from naiad_operator.builders import kinds
from naiad_operator.builders.traffic import session_affinity
from tests.support import manifests

COOKIE = SessionAffinity(type="Cookie")
HEADER = SessionAffinity(type="Header")
NGINX, HAPROXY = "nginx.ingress.kubernetes.io/", "haproxy-ingress.github.io/"
TRAEFIK = "traefik.ingress.kubernetes.io/service.sticky.cookie"


def ingress(
    class_name: str | None, wanted: SessionAffinity | None, **fields: typing.Any
) -> Ingress:
    return msgspec.structs.replace(
        Ingress(enabled=True, host="a.example"),
        class_name=class_name,
        session_affinity=wanted,
        **fields,
    )


def annotations(class_name: str | None, wanted: SessionAffinity | None) -> dict[str, str]:
    return session_affinity.annotations(ingress(class_name, wanted), service="demo")


def test_nginx_takes_a_cookie_or_hashes_a_header() -> None:
    assert annotations("nginx", COOKIE) == {
        f"{NGINX}affinity": "cookie",
        f"{NGINX}affinity-mode": "persistent",
        f"{NGINX}session-cookie-name": "naiad-pod",
        "nginx.com/sticky-cookie-services": "serviceName=demo naiad-pod path=/",
    }
    aged = msgspec.structs.replace(COOKIE, name="pod", max_age_seconds=60)
    made = annotations("nginx", aged)
    assert made[f"{NGINX}session-cookie-name"] == "pod"
    assert made[f"{NGINX}session-cookie-max-age"] == "60"
    assert made["nginx.com/sticky-cookie-services"] == "serviceName=demo pod expires=60s path=/"
    assert annotations("nginx", HEADER) == {
        f"{NGINX}upstream-hash-by": "$http_naiad_sequence",
        "nginx.org/lb-method": "hash $http_naiad_sequence consistent",
    }


def test_haproxy_and_amazon_take_their_own_words() -> None:
    assert annotations("haproxy", COOKIE) == {
        f"{HAPROXY}affinity": "cookie",
        f"{HAPROXY}session-cookie-name": "naiad-pod",
        "haproxy.org/cookie-persistence": "naiad-pod",
    }
    assert annotations("haproxy", HEADER) == {
        f"{HAPROXY}balance-algorithm": "hdr(naiad-sequence)",
        "haproxy.org/load-balance": "hdr(naiad-sequence)",
    }
    aged = msgspec.structs.replace(COOKIE, max_age_seconds=60)
    assert annotations("alb", aged)["alb.ingress.kubernetes.io/target-group-attributes"] == (
        "stickiness.enabled=true,stickiness.type=lb_cookie,stickiness.lb_cookie.duration_seconds=60"
    )
    assert "indirect" in annotations("haproxy", aged)[f"{HAPROXY}session-cookie-keywords"]


def test_traefik_reads_it_from_the_service() -> None:
    aged = msgspec.structs.replace(COOKIE, max_age_seconds=60)
    assert annotations("traefik", aged) == {}
    assert session_affinity.service_annotations(ingress("traefik", aged)) == {
        TRAEFIK: "true",
        f"{TRAEFIK}.name": "naiad-pod",
        f"{TRAEFIK}.httponly": "true",
        f"{TRAEFIK}.maxage": "60",
    }
    for other in (
        None,
        ingress("traefik", None),
        ingress("traefik", HEADER),
        ingress("nginx", COOKIE),
        ingress("traefik", COOKIE, enabled=False),
    ):
        assert session_affinity.service_annotations(other) == {}


@pytest.mark.parametrize("class_name", ["public", None])
def test_a_class_of_another_name_gets_the_annotations_of_all(class_name: str | None) -> None:
    made = annotations(class_name, COOKIE)
    assert {name.partition("/")[0] for name in made} == {
        "nginx.ingress.kubernetes.io",
        "nginx.com",
        "haproxy-ingress.github.io",
        "haproxy.org",
        "alb.ingress.kubernetes.io",
    }
    assert session_affinity.service_annotations(ingress(class_name, COOKIE))
    assert annotations(class_name, None) == {}


@pytest.mark.parametrize(
    ("class_name", "wanted", "where"),
    [
        ("nginx", COOKIE, ""),
        ("nginx", HEADER, ""),
        ("traefik", COOKIE, ""),
        ("traefik", HEADER, "this controller has none by a header"),
        ("alb", HEADER, "this controller has none by a header"),
        ("contour", COOKIE, "HTTPProxy"),
        ("kong", HEADER, "KongUpstreamPolicy"),
        ("gce-internal", COOKIE, "BackendConfig"),
        ("contour", None, ""),
        (None, HEADER, ""),
    ],
)
def test_a_class_that_does_not_take_it_is_reported(
    class_name: str | None, wanted: SessionAffinity | None, where: str
) -> None:
    message = session_affinity.without_effect(ingress(class_name, wanted))
    assert bool(message) is bool(where)
    assert where in message
    if wanted is not None and where:
        start = f"ingress.sessionAffinity of type {wanted.type} cannot be set through an Ingress of class {class_name}: "
        assert message.startswith(start)
        assert annotations(class_name, wanted) == {}


def test_a_route_has_it_in_its_rules() -> None:
    def rule(wanted: SessionAffinity | None) -> dict[str, typing.Any]:
        gateway = Gateway(parent_refs=(ParentReference(name="g"),), session_persistence=wanted)
        return session_affinity.persistence(gateway, manifests.facts(), kinds.HTTP_ROUTE)

    assert rule(None) == {}
    assert rule(HEADER) == {
        "sessionPersistence": {"type": "Header", "sessionName": "naiad-sequence"}
    }
    assert rule(msgspec.structs.replace(COOKIE, name="pod", max_age_seconds=60)) == {
        "sessionPersistence": {
            "type": "Cookie",
            "sessionName": "pod",
            "absoluteTimeout": "60s",
            "cookieConfig": {"lifetimeType": "Permanent"},
        }
    }


@pytest.mark.parametrize(
    ("seconds", "text"), [(60, "60s"), (3600, "1h0s"), (604_800, "168h0s"), (100_001, "27h2801s")]
)
def test_a_gateway_takes_numbers_of_five_digits(seconds: int, text: str) -> None:
    wanted = msgspec.structs.replace(HEADER, max_age_seconds=seconds)
    gateway = Gateway(parent_refs=(ParentReference(name="g"),), session_persistence=wanted)
    made = session_affinity.persistence(gateway, manifests.facts(), kinds.HTTP_ROUTE)
    assert made["sessionPersistence"]["absoluteTimeout"] == text
    assert re.fullmatch("([0-9]{1,5}(h|m|s|ms)){1,4}", text)


def test_routes_of_the_standard_channel_are_made_without() -> None:
    gateway = Gateway(parent_refs=(ParentReference(name="g"),), session_persistence=HEADER)
    facts = manifests.facts(missing=[kinds.session_persistence(kinds.HTTP_ROUTE)])
    assert session_affinity.persistence(gateway, facts, kinds.HTTP_ROUTE) == {}
    assert session_affinity.persistence(gateway, facts, kinds.GRPC_ROUTE)
    both = (kinds.HTTP_ROUTE, kinds.GRPC_ROUTE)
    message = session_affinity.persistence_without_effect(gateway, facts, both)
    assert message.startswith("gateway.sessionPersistence has no effect: HTTPRoute of this cluster")
    assert session_affinity.persistence_without_effect(gateway, manifests.facts(), both) == ""
