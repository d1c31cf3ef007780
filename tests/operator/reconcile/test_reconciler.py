"""One look at a service where the operator itself is at fault; everything else is shown against a real API server."""

import datetime as dt
import typing

import pytest

from naiad_operator.cluster.children import Children, Labels
from naiad_operator.cluster.client import Client
from naiad_operator.queue import Key
from naiad_operator.reconcile import models, news, reconciler
from naiad_operator.reconcile.surroundings import Surroundings
from tests.support import manifests

Object = dict[str, typing.Any]


class Api:
    """An API server that holds one service."""

    manager = "naiad-operator"

    def __init__(self) -> None:
        self.service = manifests.resource()
        self.service["metadata"]["resourceVersion"] = "1"
        self.statuses: list[Object] = []

    async def get(self, place: object) -> Object:
        return self.service

    async def merge(self, place: object, body: Object, *, subresource: str) -> Object:
        self.statuses.append(body["status"])
        self.service = {**self.service, "status": body["status"]}
        return self.service

    async def create(self, place: object, body: Object) -> Object:
        return body


def looking(api: Api) -> reconciler.Reconciler:
    client = typing.cast("Client", api)
    tools = reconciler.Tools(
        api=client,
        news=news.News(lambda: 0.0),
        children=Children(Labels(instance="i", manager="m"), wake=lambda *_: None, trims={}),
        surroundings=Surroundings(client, manifests.DEFAULTS, inspect_nodes=False),
        models=typing.cast("models.Models", None),
        clock=lambda: dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
    )
    return reconciler.Reconciler(tools)


async def test_a_bug_is_told_in_the_status_once_and_still_counts_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> typing.NoReturn:
        raise KeyError("spec")

    monkeypatch.setattr(reconciler, "build", broken)
    api = Api()
    look = looking(api)
    for _ in range(2):
        with pytest.raises(KeyError):
            await look.reconcile(Key("models", "demo"))
    (status,) = api.statuses
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "False"
    assert "KeyError('spec')" in ready["message"]
    assert "report it" in ready["message"]
