"""The steps for what is wanted and what is there."""

import copy
from typing import Any

from naiad_operator.cluster import packed
from naiad_operator.cluster.child_store import APPLIED_ANNOTATION, Child
from naiad_operator.reconcile.decisions import plan

UID = "uid-of-the-service"
OWNER = "InferenceService.serving.naiad.dev demo"


def deployment(**spec: Any) -> plan.Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "demo", "namespace": "ns", "labels": {"app": "demo"}},
        "spec": {"paused": False, **spec},
    }


def other(kind: str, name: str = "demo") -> plan.Manifest:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"x": 1},
    }


def owned(value: Any) -> dict[str, Any]:
    """The field set of a manifest without lists."""
    if not isinstance(value, dict):
        return {}
    return {f"f:{key}": owned(entry) for key, entry in value.items()}


def applied(manifest: plan.Manifest, **changes: Any) -> Child:
    """The live object after a manifest was applied."""
    stamped = plan.stamped(manifest)
    metadata = {k: v for k, v in stamped["metadata"].items() if k not in ("name", "namespace")}
    fields = {"f:metadata": owned(metadata), "f:spec": owned(stamped["spec"])}
    known = {
        "kind": manifest["kind"],
        "namespace": "ns",
        "name": manifest["metadata"]["name"],
        "uid": f"uid-of-{manifest['kind']}",
        "version": "1",
        "instance": "demo",
        "controller_uid": UID,
        "controller_name": OWNER,
        "deleting": False,
        "applied": stamped["metadata"]["annotations"][APPLIED_ANNOTATION],
        "fields": packed.pack(fields),
        "body": packed.pack(stamped),
    }
    return Child(**(known | changes))


def decide(wanted: list[plan.Manifest], *live: Child) -> list[plan.Step]:
    return plan.decide(wanted, live, uid=UID, owner=OWNER, accepted=lambda child, stamp: False)


def without(child: Child, *path: str) -> Child:
    fields = copy.deepcopy(child.owned())
    node = fields
    for step in path[:-1]:
        node = node[f"f:{step}"]
    del node[f"f:{path[-1]}"]
    return Child(**{name: getattr(child, name) for name in Child.__slots__} | {"fields": packed.pack(fields)})  # fmt: skip


def test_an_unchanged_child_has_no_step() -> None:
    wanted = [deployment(replicas=1), other("Service")]
    assert decide(wanted, *(applied(each) for each in wanted)) == []


def test_a_missing_child_is_created() -> None:
    [step] = decide([deployment()])
    assert isinstance(step, plan.Create)
    assert APPLIED_ANNOTATION in step.manifest["metadata"]["annotations"]


def test_a_new_spec_is_applied_under_the_childs_uid_and_is_not_drift() -> None:
    [step] = decide([deployment(replicas=3)], applied(deployment(replicas=1)))
    assert step == plan.Apply(plan.stamped(deployment(replicas=3)), "uid-of-Deployment")


def test_a_field_that_another_client_changed_is_drift() -> None:
    child = without(applied(deployment(replicas=1)), "spec", "replicas")
    [step] = decide([deployment(replicas=1)], child)
    assert isinstance(step, plan.Apply)
    assert step.drift == ("spec.replicas",)


def test_a_field_that_this_api_server_drops_is_not_applied_for_ever() -> None:
    child = without(applied(deployment(future="x")), "spec", "future")
    steps = plan.decide(
        [deployment(future="x")],
        [child],
        uid=UID,
        owner=OWNER,
        accepted=lambda child, stamp: True,
    )
    assert steps == []


def test_an_unwanted_child_is_deleted_after_the_others_are_applied() -> None:
    gone = applied(other("Ingress"))
    steps = decide([deployment(replicas=2)], applied(deployment(replicas=1)), gone)
    assert [type(step) for step in steps] == [plan.Apply, plan.Delete]
    assert steps[1] == plan.Delete(gone)


def test_an_autoscaler_is_deleted_before_the_replicas_are_applied() -> None:
    scaler = applied(other("HorizontalPodAutoscaler"))
    steps = decide([deployment(replicas=2)], applied(deployment()), scaler)
    assert [type(step) for step in steps] == [plan.Delete, plan.Apply]


def test_an_object_that_the_service_does_not_control_is_never_deleted() -> None:
    assert decide([], applied(other("Ingress"), controller_uid="another")) == []
    assert decide([], applied(other("Ingress"), controller_uid="")) == []


def test_an_object_of_another_owner_is_never_applied() -> None:
    theirs = applied(
        deployment(),
        controller_uid="another",
        controller_name="InferenceService.serving.kserve.io demo",
    )
    [step] = decide([deployment()], theirs)
    assert isinstance(step, plan.Create)


def test_children_of_an_earlier_service_of_this_name_are_waited_for() -> None:
    old = applied(deployment(), controller_uid="uid-of-the-service-before")
    assert decide([deployment()], old) == [plan.Wait("Deployment", "demo")]
    assert decide([], old) == []


def test_a_terminating_child_is_waited_for_and_not_deleted_again() -> None:
    assert decide([deployment()], applied(deployment(), deleting=True)) == [
        plan.Wait("Deployment", "demo")
    ]
    assert decide([], applied(deployment(), deleting=True)) == []


def test_replicas_that_an_autoscaler_takes_over_are_first_given_to_a_second_manager() -> None:
    steps = decide([deployment()], applied(deployment(replicas=4)))
    assert steps[0] == plan.HandOver("demo", "uid-of-Deployment", 4)
    assert isinstance(steps[1], plan.Apply)


def test_replicas_that_the_operator_does_not_own_need_no_handover() -> None:
    child = without(applied(deployment(replicas=4)), "spec", "replicas")
    [step] = decide([deployment(paused=True)], child)
    assert isinstance(step, plan.Apply)


def test_replicas_are_taken_over_only_at_the_version_that_was_read() -> None:
    """The autoscaler may have scaled since; what it added must not be taken away again."""
    child = applied(deployment(), version="17")
    [step] = decide([deployment(replicas=4)], child)
    assert isinstance(step, plan.Apply)
    assert (step.version, step.drift) == ("17", ())


def test_replicas_that_another_client_changed_are_always_put_back() -> None:
    child = without(applied(deployment(replicas=4), version="17"), "spec", "replicas")
    [step] = decide([deployment(replicas=4)], child)
    assert isinstance(step, plan.Apply)
    assert step.version == ""


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    one = {"kind": "X", "metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}}
    two = {"metadata": {"labels": {"y": "2", "x": "1"}, "name": "a"}, "kind": "X"}
    assert plan.digest(one) == plan.digest(two)


def test_the_routes_leave_a_removed_canary_before_it_is_deleted() -> None:
    before = [
        other("HTTPRoute"),
        other("Deployment", "demo-canary"),
        other("Service", "demo-canary"),
    ]
    now = {**other("HTTPRoute"), "spec": {"x": 2}}
    steps = decide([now], *(applied(manifest) for manifest in before))
    assert isinstance(steps[0], plan.Apply)
    assert [step.child.kind for step in steps[1:] if isinstance(step, plan.Delete)] == [
        "Deployment",
        "Service",
    ]


CANARY = [other("Deployment", "demo-canary"), other("Service", "demo-canary")]


def route(*, generation: int, seen: int | None) -> Child:
    """A live HTTPRoute; `seen` is the generation that its Gateway has, None without a Gateway."""
    manifest = other("HTTPRoute")
    body = plan.stamped(manifest)
    body["metadata"]["generation"] = generation
    if seen is not None:
        accepted = {"type": "Accepted", "status": "True", "observedGeneration": seen}
        body["status"] = {"parents": [{"conditions": [accepted]}]}
    return applied(manifest, body=packed.pack(body))


def test_a_canary_is_kept_until_the_gateway_has_the_route_without_it() -> None:
    """Otherwise Traefik may see the Service go first, and answers every request with an error for two seconds."""
    canary = [applied(manifest) for manifest in CANARY]
    kept = [plan.Keep(child) for child in canary]
    changed = {**other("HTTPRoute"), "spec": {"x": 2}}
    steps = decide([changed], route(generation=1, seen=1), *canary)
    assert [type(step) for step in steps] == [plan.Apply, plan.Keep, plan.Keep]
    assert decide([other("HTTPRoute")], route(generation=2, seen=1), *canary) == kept
    deleted = [plan.Delete(child) for child in canary]
    assert decide([other("HTTPRoute")], route(generation=2, seen=2), *canary) == deleted


def test_a_canary_is_not_kept_for_ever() -> None:
    canary = [applied(manifest) for manifest in CANARY]
    live = [route(generation=2, seen=1), *canary]
    steps = plan.decide([other("HTTPRoute")], live, uid=UID, owner=OWNER, accepted=lambda child, stamp: False, keeps=False)  # fmt: skip
    assert steps == [plan.Delete(child) for child in canary]


def test_a_route_without_a_gateway_keeps_no_canary() -> None:
    canary = [applied(manifest) for manifest in CANARY]
    changed = {**other("HTTPRoute"), "spec": {"x": 2}}
    steps = decide([changed], route(generation=1, seen=None), *canary)
    assert [type(step) for step in steps] == [plan.Apply, plan.Delete, plan.Delete]
