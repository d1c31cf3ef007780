"""A reconcile that fails in the operator itself; everything else is tested against a real API server."""

import datetime as dt
import typing

import pytest

from naiad_operator.cluster import errors
from naiad_operator.cluster.child_store import ChildStore, Labels
from naiad_operator.cluster.client import Client
from naiad_operator.queue import Key
from naiad_operator.reconcile import applier, events, model_poller, pending_objects, reconciler
from naiad_operator.reconcile.cluster_info import ClusterInfo
from naiad_operator.status import ModelReport
from naiad_operator.status.observed import NOT_REPORTED
from tests.support import manifests

Object = dict[str, typing.Any]


class Api:
    """An API server with one service. It may refuse the status, and records the Events."""

    manager = "naiad-operator"

    def __init__(self) -> None:
        self.service = manifests.resource()
        self.service["metadata"]["resourceVersion"] = "1"
        self.statuses: list[Object] = []
        self.reasons: list[str] = []
        self.refuses: Exception | None = None

    async def get(self, ref: object) -> Object:
        return self.service

    async def merge(self, ref: object, body: Object, *, subresource: str) -> Object:
        if self.refuses is not None:
            raise self.refuses
        self.statuses.append(body["status"])
        self.service = {**self.service, "status": body["status"]}
        return self.service

    async def create(self, ref: object, body: Object) -> Object:
        self.reasons.append(body["reason"])
        return body


def reconciler_of(api: Api) -> reconciler.Reconciler:
    client = typing.cast("Client", api)
    tools = reconciler.Dependencies(
        api=client,
        pending=pending_objects.PendingObjects(lambda: 0.0),
        children=ChildStore(
            Labels(instance="i", manager="m"), on_change=lambda *_: None, transforms={}
        ),
        cluster_info=ClusterInfo(client, manifests.DEFAULTS, inspect_nodes=False),
        models=typing.cast("model_poller.ModelPoller", NoModels()),
        clock=lambda: dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
    )
    return reconciler.Reconciler(tools)


class NoModels:
    """A poller without any pod."""

    def poll(self, key: Key, addresses: object) -> None:
        """Does nothing."""

    def report(self, key: Key) -> ModelReport:
        """Has no model states."""
        return NOT_REPORTED


async def test_corrected_drift_has_an_event_although_the_status_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def put_back(*_: object, **__: object) -> applier.ApplyResult:
        return applier.ApplyResult(
            events=[events.of_drift("Deployment", "demo", ["spec.replicas"])]
        )

    monkeypatch.setattr(applier.Applier, "apply", put_back)
    api = Api()
    api.refuses = errors.Conflict("patch status", code=409)
    with pytest.raises(errors.Conflict):
        await reconciler_of(api).reconcile(Key("models", "demo"))
    assert api.reasons == ["DriftCorrected"]


async def test_a_bug_is_reported_in_the_status_once_and_still_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> typing.NoReturn:
        raise KeyError("spec")

    monkeypatch.setattr(reconciler, "build", broken)
    api = Api()
    look = reconciler_of(api)
    for _ in range(2):
        with pytest.raises(KeyError):
            await look.reconcile(Key("models", "demo"))
    (status,) = api.statuses
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "OperatorError")
    assert "KeyError('spec')" in ready["message"]
    assert "report it" in ready["message"]
    assert api.reasons == ["OperatorError"]
    assert look.states[Key("models", "demo")] == "OperatorError"
    assert [c["type"] for c in status["conditions"]] == ["Ready"], "the spec is not at fault"
    assert status["observedGeneration"] == 0, "this generation is not applied"
