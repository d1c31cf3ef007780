"""Which annotations an Ingress gets for large bodies and long streams, by the name of its class."""

import typing

import msgspec
import pytest

from naiad_operator.api.types.traffic import Ingress
from naiad_operator.builders.traffic import ingress_limits


def ingress(class_name: str | None, **fields: typing.Any) -> Ingress:
    return msgspec.structs.replace(
        Ingress(enabled=True, host="a.example"), class_name=class_name, **fields
    )


def domains(annotations: dict[str, str]) -> set[str]:
    return {name.partition("/")[0] for name in annotations}


NGINX = {"nginx.ingress.kubernetes.io", "nginx.org"}
HAPROXY = {"haproxy-ingress.github.io", "haproxy.org"}
CONTOUR = {"projectcontour.io"}


@pytest.mark.parametrize(
    ("class_name", "expected"),
    [
        ("nginx", NGINX),
        ("nginx-internal", NGINX),
        ("my-haproxy", HAPROXY),
        ("contour", CONTOUR),
        ("Contour-Public", CONTOUR),
        ("traefik", set()),
        ("alb", set()),
        ("public", NGINX | HAPROXY | CONTOUR),
        (None, NGINX | HAPROXY | CONTOUR),
    ],
)
def test_a_class_gets_the_annotations_of_its_controller(
    class_name: str | None, expected: set[str]
) -> None:
    for grpc_service in ("", "demo-grpc"):
        made = ingress_limits.annotations(ingress(class_name), grpc_service=grpc_service)
        assert domains(made) == expected


def test_by_default_a_large_tensor_and_a_long_stream_pass_nginx() -> None:
    made = ingress_limits.annotations(ingress("nginx"))
    community = {
        name.partition("/")[2]: value
        for name, value in made.items()
        if name.startswith("nginx.ingress")
    }
    assert community == {
        "proxy-body-size": "0",
        "proxy-read-timeout": "3600",
        "proxy-send-timeout": "3600",
        "proxy-buffering": "off",
        "proxy-request-buffering": "off",
    }


@pytest.mark.parametrize(
    ("size", "count"),
    [("20Mi", "20971520"), ("1.5Gi", "1610612736"), ("64M", "64000000"), ("1e3", "1000")],
)
def test_a_size_is_written_in_bytes(size: str, count: str) -> None:
    made = ingress_limits.annotations(ingress(None, max_body_size=size, read_timeout_seconds=90))
    assert made["nginx.ingress.kubernetes.io/proxy-body-size"] == count
    assert made["nginx.org/client-max-body-size"] == count
    assert made["haproxy-ingress.github.io/proxy-body-size"] == count
    assert made["haproxy-ingress.github.io/timeout-server"] == "90s"
    assert made["projectcontour.io/response-timeout"] == "90s"


@pytest.mark.parametrize("class_name", ["traefik", "alb", "kong", "gce-internal"])
def test_limits_that_a_class_does_not_take_are_reported(class_name: str) -> None:
    assert ingress_limits.without_effect(ingress(class_name)) == ""
    message = ingress_limits.without_effect(ingress(class_name, max_body_size="1Gi"))
    assert message.startswith(
        f"ingress.maxBodySize cannot be set through an Ingress of class {class_name}: "
    )
    both = ingress_limits.without_effect(
        ingress(class_name, max_body_size="1Gi", read_timeout_seconds=9)
    )
    assert both.startswith("ingress.maxBodySize and ingress.readTimeoutSeconds cannot be set")
    assert ingress_limits.without_effect(ingress("nginx", max_body_size="1Gi")) == ""


def test_contour_has_one_of_the_two_limits() -> None:
    assert ingress_limits.without_effect(ingress("contour", read_timeout_seconds=9)) == ""
    message = ingress_limits.without_effect(
        ingress("contour", max_body_size="1Gi", read_timeout_seconds=9)
    )
    assert message == (
        "ingress.maxBodySize cannot be set through an Ingress of class contour: Contour does not limit bodies"
    )
