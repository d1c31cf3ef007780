"""Mirrored requests: where the copies go, which share, and what a cluster without the field gets."""

import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.builders import build, kinds
from naiad_operator.builders.traffic import ingress, mirror
from naiad_operator.errors import InvalidSpec
from tests.support import manifests

Object = dict[str, typing.Any]

GATEWAY = {
    "parentRefs": [{"name": "public"}],
    "hostnames": ["demo.example.com"],
    "grpcHostnames": ["grpc.example.com"],
}
CANARY = {"weight": 0, "image": "registry/naiad:2"}


def parsed(**spec: typing.Any) -> service.InferenceService:
    manifest = manifests.resource()
    manifest["spec"] |= {"gateway": GATEWAY, **spec}
    return service.parse(manifest)


def filters(lacking: str = "", **spec: typing.Any) -> dict[str, list[Object]]:
    """The filters of the rule of each route."""
    facts = manifests.facts(missing=[lacking] if lacking else [])
    return {
        one["kind"]: one["spec"]["rules"][0].get("filters", [])
        for one in build(parsed(**spec), facts)
        if one["kind"].endswith("Route")
    }


def copies(name: str, port: int, **more: int) -> Object:
    reference = {"group": "", "kind": "Service", "name": name, "port": port}
    return {"type": "RequestMirror", "requestMirror": {"backendRef": reference, **more}}


def test_a_share_goes_to_another_service() -> None:
    assert filters(mirror={"service": "next", "percent": 5}) == {
        "HTTPRoute": [copies("next", 8000, percent=5)],
        "GRPCRoute": [copies("next", 8001, percent=5)],
    }


def test_without_a_service_the_canary_gets_the_copies_also_with_no_weight() -> None:
    made = filters(mirror={}, canary=CANARY, pathPrefix="/api/demo")
    assert made["HTTPRoute"][0]["type"] == "URLRewrite"
    assert made["HTTPRoute"][1:] == [copies("demo-canary", 8000)]
    assert made["GRPCRoute"] == [copies("demo-canary", 8001)]


def test_all_need_no_share() -> None:
    lacking = kinds.mirror_percent(kinds.HTTP_ROUTE)
    made = filters(lacking, mirror={"service": "next", "percent": 100})
    assert made["HTTPRoute"] == [copies("next", 8000)]


def test_a_share_that_routes_cannot_have_copies_nothing_and_is_said() -> None:
    lacking = kinds.mirror_percent(kinds.HTTP_ROUTE)
    wanted = {"service": "next", "percent": 5}
    made = filters(lacking, mirror=wanted)
    assert made["HTTPRoute"] == []
    assert made["GRPCRoute"] == [copies("next", 8001, percent=5)]
    demo, facts = parsed(mirror=wanted), manifests.facts(missing=[lacking])
    of_gateway = demo.spec.gateway
    assert of_gateway is not None
    said = mirror.without_effect(demo, facts, ingress.route_kinds(of_gateway))
    assert said.startswith("mirror has no effect: HTTPRoute of this cluster cannot mirror a share")
    assert mirror.without_effect(demo, manifests.facts(), ingress.route_kinds(of_gateway)) == ""


def test_a_service_is_not_its_own_mirror() -> None:
    with pytest.raises(InvalidSpec) as refused:
        filters(mirror={"service": "demo"})
    [problem] = refused.value.problems
    assert problem.path == "spec.mirror.service"


def test_the_pods_stay_when_requests_are_mirrored() -> None:
    def template(**spec: typing.Any) -> Object:
        [made] = [
            one
            for one in build(parsed(**spec), manifests.facts())
            if one["kind"] == "Deployment" and not one["metadata"]["name"].endswith("canary")
        ]
        found: Object = made["spec"]["template"]
        return found

    assert template(mirror={"service": "next"}) == template()
