"""What is rendered for a service whose Deployments exist: templates that wait, those of a canary, and what a newer operator has written."""

import dataclasses
import datetime as dt
import typing

import pytest

from naiad_operator import versions
from naiad_operator.api.parsing import service
from naiad_operator.cluster import packed
from naiad_operator.cluster.child_store import Child
from naiad_operator.queue import Key
from naiad_operator.reconcile.decisions import desired, plan
from naiad_operator.status.upgrade import Upgrade, UpgradeState, upgraded
from naiad_operator.upgrade import record as records
from naiad_operator.upgrade.record import Record
from naiad_operator.upgrade.scheduler import UpgradeScheduler, Upgrading, Waiting
from naiad_operator.upgrade.turn import Hold, Turn
from naiad_operator.versions import Version
from tests.support import manifests

Object = dict[str, typing.Any]
GATEWAY: Object = {"parentRefs": [{"name": "public"}], "hostnames": ["demo.example.com"]}
AT = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
NOW = "2026-01-31T12:00:00Z"


def resource(*, canary: bool = False, **predictor: typing.Any) -> service.InferenceService:
    manifest = manifests.resource(replicas=2, **predictor)
    if canary:
        manifest["spec"] |= {"gateway": GATEWAY, "canary": {"weight": 10}}
    return service.parse(manifest)


def render(given: service.InferenceService, *live: Child) -> desired.Desired:
    return desired.render(
        given, live, cluster=manifests.facts(), running=None, allow_downgrade=False
    )


def owned(value: typing.Any) -> Object:
    """A field set that owns everything of an object, its lists as a whole."""
    return {f"f:{k}": owned(v) for k, v in value.items()} if isinstance(value, dict) else {}


def live(
    manifest: plan.Manifest, record: Record, *, template: Object | None = None, available: int = 2
) -> Child:
    """A Deployment with this record and template, whose pods serve."""
    metadata = {**manifest["metadata"], "annotations": records.annotations(record), "generation": 1}
    spec = {**manifest["spec"], "template": template or record.template}
    numbers = {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "availableReplicas": available,
    }
    body = {**manifest, "metadata": metadata, "spec": spec, "status": numbers}
    return Child(
        kind="Deployment",
        namespace="models",
        name=metadata["name"],
        uid=f"uid-of-{metadata['name']}",
        version="1",
        instance="demo",
        controller_uid="uid-1",
        controller_name="InferenceService.serving.naiad.dev demo",
        deleting=False,
        applied="",
        fields=packed.pack(owned({"metadata": metadata, "spec": spec})),
        body=packed.pack(body),
    )


def deployments(given: service.InferenceService, **changes: typing.Any) -> list[Child]:
    """The Deployments of a service as an earlier operator has written them, with another template."""
    made = render(given)
    chosen = made.choose(admitted=False, now=NOW)
    by_name = {m["metadata"]["name"]: m for m in made.manifests if m["kind"] == "Deployment"}
    old = {"operator": Version(0, 1, 0), "template_version": Version(0, 1, 0), **changes}
    return [
        live(
            by_name[name],
            dataclasses.replace(record, template=earlier(record.template), **old),
        )
        for name, record in chosen.items()
    ]


def earlier(template: Object) -> Object:
    return {**template, "spec": {**template["spec"], "enableServiceLinks": True}}


def is_earlier(manifest: plan.Manifest) -> bool:
    return bool(manifest["spec"]["template"]["spec"]["enableServiceLinks"])


@pytest.mark.parametrize("canary", [False, True])
def test_pods_and_those_of_the_canary_wait_together_and_are_replaced_together(
    canary: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    given = resource(canary=canary)
    made = render(given, *deployments(given))
    assert made.is_staged
    assert made.waiting(is_starting=False) == Waiting(serves=True, stuck=False)
    for admitted in (False, True):
        chosen = made.choose(admitted=admitted, now=NOW)
        found = [m for m in made.manifests_with(chosen) if m["kind"] == "Deployment"]
        assert len(found) == 1 + canary
        assert [is_earlier(manifest) for manifest in found] == [not admitted] * len(found)
        assert [r.mark is not None for r in chosen.values()] == [admitted] * len(found)
        state = made.upgrade(
            chosen, UpgradeScheduler(limit=1, wake=lambda _: None), "models", AT
        ).state
        assert state is (UpgradeState.UPGRADING if admitted else UpgradeState.WAITING)


def test_pods_of_which_none_serves_or_may_serve_do_not_wait() -> None:
    given = resource()
    [deployment] = deployments(given)
    made = render(given, deployment)
    assert made.waiting(is_starting=False) == Waiting(serves=True, stuck=False)
    body = deployment.manifest()
    del body["status"]["availableReplicas"]
    made = render(given, dataclasses.replace(deployment, body=packed.pack(body)))
    assert made.waiting(is_starting=True) == Waiting(serves=False, stuck=False)
    assert made.waiting(is_starting=False) == Waiting(serves=False, stuck=True)


def requested(given: service.InferenceService, *children: Child) -> list[typing.Any]:
    """What the pods of a service and of its canary request of CPU, with a default of 1, and what is recorded of that."""
    cluster = manifests.facts()
    defaults = dataclasses.replace(cluster.defaults, requests={"cpu": "1"})
    cluster = dataclasses.replace(cluster, defaults=defaults)
    made = desired.render(given, children, cluster=cluster, running=None, allow_downgrade=False)
    assert not made.is_staged
    return [
        (record.template["spec"]["containers"][0]["resources"].get("requests"), record.made_from.requests)
        for record in made.choose(admitted=False, now=NOW).values()
    ]  # fmt: skip


def test_neither_an_upgrade_nor_another_default_changes_the_requests_of_pods_that_run() -> None:
    given, edited = (resource(canary=True, args=args) for args in ([], ["--log-verbose=1"]))
    made = render(given)  # as an earlier release, without default requests
    by_name = {m["metadata"]["name"]: m for m in made.manifests if m["kind"] == "Deployment"}
    chosen = made.choose(admitted=False, now=NOW)
    running = [live(by_name[name], record) for name, record in chosen.items()]
    assert requested(given, *running) == [(None, "")] * 2
    assert requested(edited, *running) == [({"cpu": "1"}, "cpu=1")] * 2
    assert requested(given) == [({"cpu": "1"}, "cpu=1")] * 2


def test_an_edit_of_the_canary_replaces_its_pods_alone() -> None:
    before = resource(canary=True)
    manifest = {
        **before.raw,
        "spec": {**before.raw["spec"], "canary": {"weight": 10, "image": "naiad:0.2.0"}},
    }
    made = render(service.parse(manifest), *deployments(before))
    chosen = made.choose(admitted=False, now=NOW)
    by_name = {
        m["metadata"]["name"]: m for m in made.manifests_with(chosen) if m["kind"] == "Deployment"
    }
    assert is_earlier(by_name["demo"])
    assert not is_earlier(by_name["demo-canary"])


def test_a_canary_with_an_image_of_its_own_has_a_servers_version_of_its_own() -> None:
    manifest = resource(canary=True, serverVersion="0.1.5", image="mirror/x").raw
    spec = {**manifest["spec"], "canary": {"weight": 10, "image": "naiad-server:0.2.0"}}
    made = render(service.parse({**manifest, "spec": spec}))
    assert [str(pods.rendered.made_from.version) for pods in made.pods] == ["0.1.5", "0.2.0"]


def test_writing_a_record_differs_from_replacing_pods() -> None:
    given = resource()
    made = render(given, *deployments(given))
    for admitted in (False, True):
        chosen = made.choose(admitted=admitted, now=NOW)
        (manifest,) = (m for m in made.manifests_with(chosen) if m["kind"] == "Deployment")
        assert made.writes_records_only([plan.Apply(manifest, "uid")], chosen) is not admitted
    chosen = made.choose(admitted=False, now=NOW)
    drift = plan.Apply(manifest, "uid", drift=("spec.replicas",))
    assert not made.writes_records_only([drift], chosen)
    assert not made.writes_records_only([], chosen)


def test_what_a_newer_operator_has_written_stays_and_what_is_missing_is_created() -> None:
    given = resource()
    newer = Version(9, 0, 0)
    children = deployments(given, operator=newer, template_version=newer)
    made = render(given, *children)
    assert made.defers
    assert not render(given, *deployments(given)).defers
    chosen = made.choose(admitted=False, now=NOW)
    assert chosen["demo"].template_version == newer
    steps = desired.steps_to(
        made.manifests_with(chosen),
        children,
        given,
        unwatched=(),
        only_missing=True,
        accepted=lambda *_: False,
    )
    assert steps
    assert all(isinstance(step, plan.Create) for step in steps)
    assert "Deployment" not in {
        step.manifest["kind"] for step in steps if isinstance(step, plan.Create)
    }
    assert (
        made.upgrade(chosen, UpgradeScheduler(limit=1, wake=lambda _: None), "models", AT).state
        is UpgradeState.NEWER
    )


def test_the_version_of_this_release_renders_for_a_new_service() -> None:
    made = render(resource())
    assert made.pods[0].record is None
    assert made.choose(admitted=False, now=NOW)["demo"].operator == versions.OWN


def upgrade_of(
    made: desired.Desired, *, admitted: bool, blocked: Key | None, at: dt.datetime
) -> Upgrade:
    scheduler = UpgradeScheduler(limit=1, wake=lambda _: None, time_limit_s=1800)
    scheduler.open()
    if blocked is not None:
        scheduler.observe(blocked, Upgrading(is_blocked=True))
    return made.upgrade(made.choose(admitted=admitted, now=NOW), scheduler, "models", at)


def test_a_condition_names_no_service_of_another_namespace() -> None:
    given = resource()
    made = render(given, *deployments(given))
    near = upgrade_of(made, admitted=False, blocked=Key("models", "other"), at=AT)
    far = upgrade_of(made, admitted=False, blocked=Key("payments", "ledger"), at=AT)
    assert near.paused_by == "models/other"
    assert far.paused_by == "a service of another namespace"
    for word in ("payments", "ledger"):
        assert word not in upgraded(far, "").message


@pytest.mark.parametrize(("seconds", "overdue"), [(0, False), (1799, False), (1800, True)])
def test_a_service_that_gets_new_pods_is_overdue_after_the_time_limit(
    seconds: int,
    overdue: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    given = resource()
    made = render(given, *deployments(given))
    at = AT + dt.timedelta(seconds=seconds)
    found = upgrade_of(made, admitted=True, blocked=None, at=at)
    state = made.scheduler_state(found, is_blocked=True, is_starting=False)
    assert state == Upgrading(is_blocked=True, is_overdue=overdue)


@pytest.mark.parametrize(
    ("hold", "reason", "state"),
    [
        (Hold.PAUSED, ("False", "UpgradePaused"), Waiting),
        (Hold.SKIPPED, ("True", "UpgradeSkipped"), type(None)),
    ],
)
def test_a_held_service_says_what_holds_it(
    hold: Hold, reason: tuple[str, str], state: type
) -> None:
    given = resource()
    made = dataclasses.replace(render(given, *deployments(given)), turn=Turn(hold=hold, why="so"))
    found = upgrade_of(made, admitted=False, blocked=None, at=AT)
    condition = upgraded(found, "")
    assert (condition.status, condition.reason) == reason
    assert condition.message.endswith("because so")
    assert isinstance(made.scheduler_state(found, is_blocked=False, is_starting=False), state)
