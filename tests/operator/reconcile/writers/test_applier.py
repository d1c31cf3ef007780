"""How children are created: directly for a new service, after a read for a missing one; never over an object of another owner."""

import collections.abc
import json
from typing import Any

import pytest
from typing_extensions import override

from naiad_operator.cluster import errors, packed
from naiad_operator.cluster.child_store import APPLIED_ANNOTATION, Child, ChildStore, Labels
from naiad_operator.cluster.client import Client
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.reconcile.decisions import plan
from naiad_operator.reconcile.writers.applier import Applier, ApplyResult

WANTED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {
        "name": "demo",
        "namespace": "ns",
        "annotations": {APPLIED_ANNOTATION: "stamp"},
        "ownerReferences": [{"kind": "InferenceService", "name": "demo", "uid": "ours", "controller": True}],
    },
}  # fmt: skip


class Api(Client):
    """An API server's answers to requests for one place.

    Args:
        present: what is there.
        rejects_versions: refuses a version for what is not there.
    """

    manager = "naiad-operator"

    def __init__(
        self, present: "dict[str, Any] | None" = None, *, rejects_versions: bool = False
    ) -> None:
        self.present = present
        self.rejects_versions = rejects_versions
        self.asked: list[str] = []
        self.uid = "made"

    @override
    async def get(self, ref: ResourceRef) -> dict[str, Any]:
        self.asked.append("get")
        if self.present is None:
            raise errors.NotFound(f"read {ref}")
        return self.present

    @override
    async def apply(
        self,
        ref: ResourceRef,
        manifest: collections.abc.Mapping[str, Any],
        *,
        manager: str = "",
        force: bool = True,
    ) -> dict[str, Any]:
        self.asked.append(f"apply {manifest['metadata'].get('resourceVersion', 'any')} {force=}")
        version = "resourceVersion" in manifest["metadata"]
        if version and (self.present is not None or self.rejects_versions):
            raise errors.Conflict(f"apply {ref}")
        document: dict[str, Any] = json.loads(json.dumps(manifest))
        document["metadata"].update(uid=self.uid, resourceVersion="7", managedFields=[])
        self.present = document
        return document


def foreign() -> dict[str, Any]:
    owner = {"kind": "ConfigMap", "name": "boss", "uid": "theirs", "controller": True}
    return {
        **WANTED,
        "metadata": {"name": "demo", "namespace": "ns", "uid": "x", "ownerReferences": [owner]},
    }


def empty_store() -> ChildStore:
    return ChildStore(
        Labels(instance="app.kubernetes.io/instance", manager="naiad-operator"),
        on_change=lambda _namespace, _name: None,
        transforms={},
    )


async def apply(
    api: Api,
    *,
    is_new: bool = False,
    was_complete: bool = False,
    step: plan.Step | None = None,
    store: ChildStore | None = None,
) -> ApplyResult:
    applier = Applier(api, store if store is not None else empty_store())
    return await apply_step(
        applier, step or plan.Create(WANTED), is_new=is_new, was_complete=was_complete
    )


async def apply_step(
    applier: Applier, step: plan.Step, *, is_new: bool, was_complete: bool = False
) -> ApplyResult:
    return await applier.apply(
        [step],
        namespace="ns",
        uid="ours",
        was_complete=was_complete,
        is_new=is_new,
        report_server_errors=False,
    )


async def test_entries_of_deleted_children_are_removed() -> None:
    """A child of which the API server keeps less than was applied is remembered, until it goes with its service."""
    store = empty_store()
    api = Api()
    applier = Applier(api, store)
    for number in range(3):
        api.present, api.uid = None, f"uid-{number}"
        await apply_step(applier, plan.Create(WANTED), is_new=True)
        store.remove(f"uid-{number}", "8")
    assert applier.partial == 1


async def test_a_child_of_a_new_service_is_created_with_one_request() -> None:
    api = Api()
    result = await apply(api, is_new=True)
    assert (api.asked, result.created, result.writes) == (["apply 1 force=False"], True, 1)


async def test_a_child_that_is_missing_later_is_read_first() -> None:
    api = Api()
    result = await apply(api, is_new=False)
    assert (api.asked, result.created) == (["get", "apply any force=False"], True)


@pytest.mark.parametrize("is_new", [True, False])
async def test_an_object_of_another_owner_is_left_alone_and_its_owner_named(
    *, is_new: bool
) -> None:
    api = Api(foreign())
    result = await apply(api, is_new=is_new)
    assert api.present == foreign()
    assert (result.created, result.writes) == (False, 0)
    assert [(conflict.kind, conflict.name, conflict.owner) for conflict in result.conflicts] == [
        ("Service", "demo", "ConfigMap boss")
    ]


async def test_an_api_server_that_rejects_the_version_gets_the_child_without_it() -> None:
    api = Api(rejects_versions=True)
    result = await apply(api, is_new=True)
    assert api.asked == ["apply 1 force=False", "get", "apply any force=False"]
    assert (result.created, result.writes) == (True, 1)


@pytest.mark.parametrize(
    ("present", "message"),
    [
        (None, "Service demo was missing and has been created"),
        (
            {**WANTED, "metadata": {**WANTED["metadata"], "uid": "x"}},
            "Service demo was changed by another client (metadata.labels) and put back",
        ),
    ],
    ids=["gone", "without its labels"],
)
async def test_the_event_of_a_child_that_was_missing(
    present: dict[str, Any] | None, message: str
) -> None:
    result = await apply(Api(present), is_new=False, was_complete=True)
    assert [event.message for event in result.events] == [message]


async def test_an_object_that_has_changed_since_it_was_read_is_read_again() -> None:
    now: dict[str, Any] = json.loads(json.dumps(WANTED))
    now["metadata"].update(
        uid="made", resourceVersion="18", labels={"app.kubernetes.io/instance": "demo"}
    )
    api, store = Api(now), empty_store()
    with pytest.raises(errors.Conflict):
        await apply(api, step=plan.Apply(WANTED, "made", version="17"), store=store)
    assert api.asked == ["apply 17 force=True", "get"]
    [known] = store.of_service("ns", "demo")
    assert known.version == "18", "the next look decides by what there is"


class RefusingApi(Api):
    """An API server that refuses every apply, and deletes."""

    @override
    async def apply(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise errors.Invalid("apply", message="no such Gateway")

    @override
    async def delete(self, ref: ResourceRef, *, uid: str) -> None:
        self.asked.append(f"delete {ref.plural}")


def live(kind: str) -> Child:
    return Child(
        kind=kind,
        namespace="ns",
        name="demo-canary",
        uid="u",
        version="1",
        instance="demo",
        controller_uid="ours",
        controller_name="InferenceService demo",
        deleting=False,
        applied="",
        fields=b"",
        body=packed.pack({"apiVersion": "v1"}),
    )


@pytest.mark.parametrize(
    ("kind", "deletes"), [("HTTPRoute", []), ("PodMonitor", ["delete services"])]
)
async def test_what_a_route_may_still_lead_to_stays_until_the_route_is_changed(
    kind: str, deletes: list[str]
) -> None:
    api = RefusingApi()
    refused = {**WANTED, "apiVersion": "x/v1", "kind": kind}
    result = await Applier(api, empty_store()).apply(
        [plan.Apply(refused, "made"), plan.Delete(live("Service"))],
        namespace="ns",
        uid="ours",
        was_complete=True,
        is_new=False,
        report_server_errors=False,
    )
    assert [error.kind for error in result.refused] == [kind]
    assert api.asked == deletes
