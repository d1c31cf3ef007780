"""The later fields of routes, as the API server's own schemas have them."""

import json
import typing

import pytest

from naiad_operator.builders import kinds
from naiad_operator.cluster import errors
from naiad_operator.cluster.client import Client
from naiad_operator.reconcile.lookups.schemas import RouteFields, fields_of

Object = dict[str, typing.Any]

SERVED = frozenset((kinds.HTTP_ROUTE.key, kinds.GRPC_ROUTE.key))
BOTH = frozenset(map(kinds.mirror_percent, (kinds.HTTP_ROUTE, kinds.GRPC_ROUTE)))


def document(kind: str, *fields: str) -> Object:
    """A document as `/openapi/v3/apis/gateway.networking.k8s.io/v1` has it."""
    mirrored = {"properties": {field: {"type": "integer"} for field in fields}}
    filters = {"items": {"properties": {"requestMirror": mirrored}}}
    rules = {"items": {"properties": {"filters": filters}}}
    schema = {
        "properties": {"spec": {"properties": {"rules": rules}}},
        "x-kubernetes-group-version-kind": [{"group": "gateway.networking.k8s.io", "kind": kind}],
    }
    return {"components": {"schemas": {f"io.k8s.{kind}": schema, "io.k8s.Other": {}}}}


def test_a_field_is_found_by_kind() -> None:
    made = fields_of(document("HTTPRoute", "backendRef", "percent"))
    assert made == {kinds.mirror_percent(kinds.HTTP_ROUTE)}
    assert fields_of(document("GRPCRoute", "backendRef")) == frozenset()
    assert fields_of({}) == frozenset()


def test_session_persistence_is_a_field_of_a_rule() -> None:
    made = document("GRPCRoute")
    schema = made["components"]["schemas"]["io.k8s.GRPCRoute"]
    rule = schema["properties"]["spec"]["properties"]["rules"]["items"]
    rule["properties"]["sessionPersistence"] = {"type": "object"}
    assert fields_of(made) == {kinds.session_persistence(kinds.GRPC_ROUTE)}


class Api:
    """Has schemas, and counts how often each path is read."""

    def __init__(self, made: Object) -> None:
        self.hash = "1"
        self.made = made
        self.read: list[str] = []
        self.error: errors.ApiError | None = None
        self.text: bytes | None = None

    async def get_text(self, path: str) -> bytes:
        self.read.append(path)
        if self.error is not None:
            raise self.error
        if path == "/openapi/v3":
            address = f"/openapi/v3/apis/gateway.networking.k8s.io/v1?hash={self.hash}"
            paths = {"apis/gateway.networking.k8s.io/v1": {"serverRelativeURL": address}}
            return json.dumps({"paths": paths}).encode()
        return json.dumps(self.made).encode() if self.text is None else self.text


def reading(api: Api) -> RouteFields:
    return RouteFields(typing.cast("Client", api))


async def test_schemas_are_read_again_when_they_change() -> None:
    api = Api(document("HTTPRoute"))
    fields = reading(api)
    assert await fields.present(SERVED) == frozenset()
    assert await fields.present(SERVED) == frozenset()
    assert len(api.read) == 3
    api.made, api.hash = document("HTTPRoute", "percent"), "2"
    assert await fields.present(SERVED) == {kinds.mirror_percent(kinds.HTTP_ROUTE)}


async def test_a_cluster_without_routes_is_not_asked() -> None:
    api = Api({})
    assert await reading(api).present(frozenset()) == frozenset()
    assert api.read == []


@pytest.mark.parametrize("code", [403, 500])
async def test_what_was_known_is_kept_when_they_cannot_be_read(code: int) -> None:
    api = Api(document("HTTPRoute", "percent"))
    fields = reading(api)
    before = await fields.present(SERVED)
    api.error = errors.from_response("read", code=code, status={})
    assert await fields.present(SERVED) == before == {kinds.mirror_percent(kinds.HTTP_ROUTE)}


@pytest.mark.parametrize("text", [b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b"{", b"7", b'{"components":7}'], ids=["deep", "cut off", "a number", "numbers"])  # fmt: skip
async def test_schemas_that_cannot_be_read_stop_nothing(text: bytes) -> None:
    """Who may write CustomResourceDefinitions decides what they hold."""
    api = Api({})
    api.text = text
    assert await reading(api).present(SERVED) == frozenset()
