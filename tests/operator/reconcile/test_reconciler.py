"""A reconcile that fails in the operator itself; everything else is tested against a real API server."""

import datetime as dt
import typing

import pytest

from naiad_operator.api.manifests import unreadable
from naiad_operator.api.types.status import NOT_OBSERVED
from naiad_operator.builders import names
from naiad_operator.cluster import errors
from naiad_operator.cluster.child_store import ChildStore, Labels
from naiad_operator.cluster.client import Client
from naiad_operator.queue import Deleted, Key, Result
from naiad_operator.reconcile import reconciler
from naiad_operator.reconcile.decisions import desired, events, plan
from naiad_operator.reconcile.lookups import model_poller, nodes_and_claims, scale_ups
from naiad_operator.reconcile.lookups.cluster_info import ClusterInfo
from naiad_operator.reconcile.stores import service_store
from naiad_operator.reconcile.writers import applier
from naiad_operator.status import ModelReport
from naiad_operator.status.observed import NOT_REPORTED
from naiad_operator.upgrade.scheduler import UpgradeScheduler
from tests.support import manifests

Object = dict[str, typing.Any]
NAIAD = "serving.naiad.dev/v1alpha1"


class Api:
    """An API server with one service. It may refuse the status, and records the Events."""

    manager = "naiad-operator"

    def __init__(self, *, service: Object | None = None) -> None:
        self.service = service or manifests.resource()
        self.service["metadata"]["resourceVersion"] = "1"
        self.statuses: list[Object] = []
        self.reasons: list[str] = []
        self.refuses: Exception | None = None
        self.is_gone = False
        self.reads = 0

    async def get(self, ref: object) -> Object:
        self.reads += 1
        if self.is_gone:
            raise errors.NotFound("read", code=404)
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


def reconciler_of(
    api: Api,
    *,
    children: ChildStore | None = None,
    services: service_store.ServiceStore | None = None,
    problems: dict[str, str] | None = None,
) -> reconciler.Reconciler:
    client = typing.cast("Client", api)
    cluster_info = ClusterInfo(client)
    cluster_info.kinds = manifests.EVERY_API
    tools = reconciler.Dependencies(
        api=client,
        services=services or service_store.ServiceStore(lambda: 0.0),
        children=children or store(),
        cluster_info=cluster_info,
        defaults=manifests.DEFAULTS,
        nodes=nodes_and_claims.Nodes(client, lambda: 0.0, enabled=False),
        claims=nodes_and_claims.Claims(client, lambda: 0.0),
        scale_ups=scale_ups.ScaleUps(client, lambda: 0.0),
        watch_problems=lambda _: problems or {},
        models=typing.cast("model_poller.ModelPoller", NoModels()),
        profile_of=lambda _: None,
        upgrades=UpgradeScheduler(limit=1, wake=lambda _: None),
        clock=lambda: dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
    )
    return reconciler.Reconciler(tools)


def store() -> ChildStore:
    labels = Labels(instance=names.INSTANCE_LABEL, manager="m")
    return ChildStore(labels, on_change=lambda *_: None, transforms={})


class NoModels:
    """A poller without any pod."""

    def poll(self, key: Key, addresses: object, of: str = "") -> None:
        """Does nothing."""

    def report(self, key: Key, of: str = "") -> ModelReport:
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

    monkeypatch.setattr(desired, "build", broken)
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
    assert look.conditions[Key("models", "demo")] == (
        ("Ready", "False", "OperatorError"),
        ("Stalled", "True", "OperatorError"),
    )
    assert [c["type"] for c in status["conditions"]] == ["Ready", "Stalled"], (
        "the spec is not at fault"
    )
    assert status["observedGeneration"] == 0, "this generation is not applied"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[plan.Step]:
    """The steps of all reconciles; none is carried out."""
    recorded: list[plan.Step] = []

    async def apply(_: object, steps: list[plan.Step], **__: object) -> applier.ApplyResult:
        recorded.extend(steps)
        return applier.ApplyResult()

    monkeypatch.setattr(applier.Applier, "apply", apply)
    return recorded


KEY = Key("models", "demo")
KEDA = {"autoscaling": {"class": "keda", "queueTimeMs": 5}}


def known(api: Api) -> service_store.ServiceStore:
    services = service_store.ServiceStore(lambda: 0.0)
    services.put(KEY, api.service)
    return services


async def test_a_resync_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "decide", lambda *_, **__: [])
    api = Api()
    look = reconciler_of(api, services=known(api))
    for _ in range(3):
        await look.reconcile(KEY)
    assert api.reads == 0
    assert len(api.statuses) == 1


async def test_children_that_are_missing_are_not_made_for_a_service_whose_deletion_was_missed(
    steps: list[plan.Step],
) -> None:
    api = Api(service={**manifests.resource(), "status": {"observedGeneration": 3}})
    look = reconciler_of(api, services=known(api))
    api.is_gone = True
    assert isinstance(await look.reconcile(KEY), Deleted)
    assert steps == []


@pytest.mark.usefixtures("steps")
async def test_a_status_that_the_api_server_filled_in_is_the_status_of_a_new_service() -> None:
    filled_in = Api(service={**manifests.resource(), "status": NOT_OBSERVED})
    without = Api()
    for api in (filled_in, without):
        await reconciler_of(api, services=known(api)).reconcile(KEY)
    assert filled_in.statuses == without.statuses
    assert filled_in.statuses[0]["keptReplicas"] == 1
    assert filled_in.reasons == without.reasons
    assert "ReplicasKept" not in filled_in.reasons


async def test_a_conflict_causes_a_read(steps: list[plan.Step]) -> None:
    api = Api()
    look = reconciler_of(api, services=known(api))
    api.refuses = errors.Conflict("patch status", code=409)
    with pytest.raises(errors.Conflict):
        await look.reconcile(KEY)
    api.refuses = None
    await look.reconcile(KEY)
    assert api.reads == 1


def scaled_object() -> Object:
    metadata = {
        "name": "demo",
        "namespace": "models",
        "uid": "uid-9",
        "resourceVersion": "5",
        "labels": {names.INSTANCE_LABEL: "demo"},
        "ownerReferences": [
            {
                "apiVersion": "serving.naiad.dev/v1alpha1",
                "kind": "InferenceService",
                "name": "demo",
                "uid": "uid-1",
                "controller": True,
            }
        ],
    }
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata}


@pytest.mark.parametrize("wanted", [True, False])
async def test_objects_of_a_kind_that_cannot_be_watched_are_left_as_they_are(
    steps: list[plan.Step], *, wanted: bool
) -> None:
    """Neither applied nor deleted: the store may be outdated."""
    api = Api(service=manifests.resource(**(KEDA if wanted else {})))
    children = store()
    children.update("ScaledObject", scaled_object())
    look = reconciler_of(api, children=children, problems={"ScaledObject": "no list verb"})
    await look.reconcile(KEY)
    kinds = {step.manifest["kind"] for step in steps if isinstance(step, plan.Create | plan.Apply)}
    assert {"Deployment", "Service"} <= kinds
    assert not any(isinstance(step, plan.Delete) for step in steps)
    assert "ScaledObject" not in kinds
    (status,) = api.statuses
    reasons = {c["type"]: c["reason"] for c in status["conditions"]}
    assert (reasons["AutoscalingReady"] == "WatchFailed") is wanted


UNREADABLE = unreadable.marked(
    {"apiVersion": "serving.naiad.dev/v1alpha1", "kind": "InferenceService"}, "it is too deep"
)


def unreadable_service() -> Object:
    """A service of which only the head was read."""
    metadata = manifests.resource()["metadata"]
    return {**UNREADABLE, "metadata": metadata}


async def test_a_service_that_cannot_be_read_says_so_once() -> None:
    api = Api(service=unreadable_service())
    tested = reconciler_of(api)
    await tested.reconcile(KEY)
    (status,) = api.statuses
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    assert ready["reason"] == "InvalidSpec"
    assert ready["message"] == "the operator cannot read this object: it is too deep"
    assert api.reasons == ["InvalidSpec"]
    await tested.reconcile(KEY)
    assert len(api.statuses) == 1


async def test_a_service_that_cannot_be_read_nor_written_is_left_alone() -> None:
    api = Api(service=unreadable_service())
    api.refuses = errors.Invalid("patch status", code=422, message="too deep")
    assert await reconciler_of(api).reconcile(KEY) == Result()
    api.refuses = errors.ServerTrouble("patch status", code=500)
    with pytest.raises(errors.ServerTrouble):
        await reconciler_of(api).reconcile(KEY)


def unreadable_child(*owners: Object) -> Object:
    """The head of an object with the labels of the service's children."""
    metadata: Object = {
        "name": KEY.name,
        "namespace": KEY.namespace,
        "uid": "c",
        "resourceVersion": "1",
        "labels": {names.INSTANCE_LABEL: KEY.name},
        "ownerReferences": list(owners),
    }
    return unreadable.marked({"metadata": metadata}, "it is too deep")


async def test_a_child_that_cannot_be_read_is_named_and_nothing_is_written() -> None:
    api = Api()
    children = store()
    owner = {"apiVersion": NAIAD, "kind": "InferenceService", "name": KEY.name}
    uid = api.service["metadata"]["uid"]
    owned = unreadable_child({**owner, "uid": uid, "controller": True})
    children.put("ScaledObject", owned)
    await reconciler_of(api, children=children).reconcile(KEY)
    (status,) = api.statuses
    (message,) = {
        each["message"] for each in status["conditions"] if each["type"] in {"Ready", "SpecValid"}
    }
    assert message.startswith(
        f"ScaledObject {KEY.name}: the operator cannot read this object, so everything stays as it is: it is too deep"
    )


async def test_an_object_of_others_that_cannot_be_read_keeps_nothing_from_being_written(
    steps: list[plan.Step],
) -> None:
    """Who may write a kind may write its labels; the service has no use for the object."""
    await reconciler_of(Api()).reconcile(KEY)
    alone = list(steps)
    steps.clear()
    children, api = store(), Api()
    children.put("ScaledObject", unreadable_child())
    await reconciler_of(api, children=children).reconcile(KEY)
    assert steps == alone != []
    assert "InvalidSpec" not in api.reasons
