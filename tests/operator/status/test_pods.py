"""Which pods count: the newest template's, in every state of a crash loop alike, and not those that were lost long ago."""

import copy
import datetime as dt
import typing

import pytest

from naiad_operator.api.parsing import service
from naiad_operator.reconcile.decisions import events
from naiad_operator.status import ModelState, Observed, autoscaling, pods, workload
from tests.operator.status.parts import HPA, KEDA, NOT_READY, ONE_READY, hpa, said
from tests.support import manifests
from tests.support.observations import (
    NOW,
    ago,
    condition,
    container,
    deployment,
    ended,
    lost,
    pod,
    status,
    unscheduled,
    waiting,
)

Manifest = dict[str, typing.Any]
HALF = {("Deployment", "demo"): deployment(total=3, updated=1, ready=2)}


def of_template(template: str, manifest: Manifest, *, created: str = "") -> Manifest:
    """The same pod, of another template."""
    name = f"demo-{template}-x7k2p"
    other = copy.deepcopy(manifest)
    other["metadata"] |= {"name": name, "labels": {"pod-template-hash": template}}
    other["metadata"]["creationTimestamp"] = created or other["metadata"]["creationTimestamp"]
    return other


def test_a_pod_of_an_old_template_that_was_evicted_does_not_fail_a_rollout() -> None:
    old = lost("demo-5c4d-aaaaa", created=ago(minutes=2))
    new = pod("demo-6d5f-bbbbb", created=ago(minutes=1), phase="Pending")
    serving = pod("demo-5c4d-ccccc", created=ago(days=2), phase="Running")
    given = status(children=HALF, pods=[old, new, serving], models=None)
    assert condition(given) == (
        "False",
        "RollingOut",
        "2 of 2 pods serve, 1 of the newest template",
    )
    assert condition(given, "Progressing")[:2] == ("True", "RollingOut")


def test_an_old_template_that_crashes_does_not_fail_the_rollout_of_its_correction() -> None:
    old = of_template("5c4d", ended("error: no bucket"), created=ago(hours=1))
    new = pod("demo-6d5f-bbbbb", created=ago(minutes=1), phase="Pending")
    given = status(children=NOT_READY, pods=[old, new], models=None)
    assert condition(given)[1] == "RollingOut"


@pytest.mark.parametrize(
    "message",
    ['ReplicaSet "demo-6d5f" is progressing.', 'Created new replica set "demo-6d5f"', ""],
)
def test_an_old_pod_that_is_replaced_during_a_rollout_does_not_make_its_template_the_newest(
    message: str,
) -> None:
    """The one that crashes is the new one, whatever is created after it."""
    rollout = deployment(
        total=3,
        updated=1,
        ready=2,
        conditions=[said("Progressing", "True", "ReplicaSetUpdated", message)],
    )
    new = of_template("6d5f", ended("error: no bucket"), created=ago(minutes=9))
    old = [
        pod("demo-5c4d-ccccc", created=ago(days=2), phase="Running"),
        pod("demo-5c4d-ddddd", created=ago(minutes=1), phase="Pending"),
    ]
    given = status(
        children={("Deployment", "demo"): rollout}, pods=[*old[bool(message) :], new], models=None
    )
    assert condition(given)[1] == "CrashLoopBackOff"


def test_a_crash_loop_is_one_condition_and_one_event() -> None:
    """The states that a kubelet writes in turn; the Event comes with the first one."""
    states = [
        *[ended("error: no license", restarts=2, phase=p) for p in ("waiting", "running", "terminated")],
        *[ended("error: no license", restarts=3, phase=p) for p in ("waiting", "running", "terminated")],
    ]  # fmt: skip
    before: Manifest = {}
    written = []
    sentences = set()
    for state in states:
        after = status(children=NOT_READY, pods=[state], models=None)
        written += events.of_transition(before, after)
        sentences.add(condition(after))
        before = after
    assert len(sentences) == 1
    assert [event.reason for event in written] == ["CrashLoopBackOff"]


def test_an_image_that_cannot_be_pulled_is_one_condition_in_both_states_of_its_back_off() -> None:
    """As kubelets of 1.29 and newer write them."""
    cause = 'failed to resolve reference "nope": not found'
    states = [
        waiting("ErrImagePull", cause),
        waiting("ImagePullBackOff", f'Back-off pulling image "nope": ErrImagePull: {cause}'),
    ]
    found = {condition(status(children=NOT_READY, pods=[s], models=None)) for s in states}
    assert found == {("False", "ImagePullBackOff", f"pod demo-6d5f-x7k2p: {cause}")}


def test_a_single_end_is_not_a_loop() -> None:
    given = status(
        children=ONE_READY, pods=[ended("error: x", restarts=1, phase="running")], models=None
    )
    assert condition(given)[1:] == (
        "ContainerEnded",
        "pod demo-6d5f-x7k2p ended and is started again: error: x",
    )


FAILED_MODEL = ModelState(name="m", version="2", state="UNAVAILABLE", reason="no file")


def restarted(*, restarts: int, running_since: str, ran_s: float = 20) -> Manifest:
    """A pod whose server needed too much memory, was started again, and has loaded its models; they are not ready."""
    again = ended("", code=137, reason="OOMKilled", restarts=restarts, phase="running", ran_s=ran_s)
    (server,) = again["status"]["containerStatuses"]
    server |= {"started": True, "state": {"running": {"startedAt": running_since}}}
    return again


@pytest.mark.parametrize(
    "recovered",
    [
        restarted(restarts=1, running_since=ago(seconds=29)),
        restarted(restarts=3, running_since=ago(days=3)),
        restarted(restarts=3, running_since=ago(minutes=1), ran_s=100_000),
    ],
    ids=["once", "in a loop, days ago", "after long runs"],
)
def test_a_server_that_has_started_again_is_not_ready_for_another_reason_than_its_last_end(
    recovered: Manifest,
) -> None:
    given = status(children=NOT_READY, pods=[recovered], models=[FAILED_MODEL])
    assert condition(given)[1:] == ("ModelFailed", "model m version 2: no file")
    assert condition(given, "Progressing")[:2] == ("True", "RollingOut")
    seen = Observed(children=NOT_READY, facts=manifests.facts(), pods=[recovered])
    parsed = service.parse(manifests.resource())
    assert not workload.crash_looping(parsed, seen, dt.datetime.fromisoformat(NOW))


def test_a_server_in_a_crash_loop_stays_in_it_when_it_has_started_until_it_runs_for_longer() -> (
    None
):
    looping = restarted(restarts=3, running_since=ago(minutes=14))
    given = status(children=NOT_READY, pods=[looping], models=None)
    assert condition(given)[1] == "OOMKilled"
    assert change(looping) == 60


def test_pods_that_a_node_loses_at_the_same_time_do_not_count_as_a_loop() -> None:
    """Three pods of ten, from one node."""
    three = [
        lost(f"demo-6d5f-{i}", created=ago(hours=1), ended=ago(minutes=2, seconds=i))
        for i in range(3)
    ]
    given = status(
        manifests.resource(replicas=10),
        children={("Deployment", "demo"): deployment(10, ready=7)},
        pods=three,
    )
    assert condition(given, "Progressing")[:2] == ("True", "RollingOut")


def test_losses_of_an_hour_ago_are_not_mentioned() -> None:
    given = status(children=ONE_READY, pods=[lost("demo-6d5f-aaaaa", created=ago(hours=1))])
    assert condition(given)[2] == "1 of 2 pods serve, 2 of the newest template"


def test_waiting_for_a_node_writes_no_event_and_failing_to_get_one_does() -> None:
    no_cpu = "0/3 nodes are available: 3 Insufficient cpu."
    before = status(children=NOT_READY, pods=[pod(phase="Pending")], models=None)
    waits = status(
        children=NOT_READY, pods=[unscheduled(no_cpu, since=ago(minutes=9))], models=None
    )
    fails = status(
        children=NOT_READY, pods=[unscheduled(no_cpu, since=ago(minutes=11))], models=None
    )
    assert events.of_transition(before, waits) == []
    assert condition(waits, "Progressing")[:2] == ("True", "WaitingForNode")
    (event,) = events.of_transition(waits, fails)
    assert (event.type, event.reason) == ("Warning", "Unschedulable")


def test_a_service_stays_ready_while_an_added_pod_waits_for_a_node() -> None:
    given = status(
        manifests.resource(autoscaling={"class": "hpa", "queueTimeMs": 5, "minReplicas": 2}),
        children={("Deployment", "demo"): deployment(3, ready=2)},
        pods=[unscheduled("0/3 nodes are available", since=ago(minutes=1))],
    )
    assert condition(given)[0] == "True"
    assert condition(given, "Progressing")[:2] == ("True", "WaitingForNode")


def change(*observed: Manifest) -> float | None:
    """In how many seconds the passing of time changes the status."""
    moment = dt.datetime.fromisoformat(NOW)
    seen = Observed(
        children={("Deployment", "demo"): deployment(ready=0)},
        facts=manifests.facts(),
        pods=observed,
    )
    at = workload.next_change(service.parse(manifests.resource()), seen, moment)
    return None if at is None else (at - moment).total_seconds()


def test_the_end_of_a_wait_is_known_so_that_it_is_reported_in_time() -> None:
    assert change(pod(phase="Running")) is None
    assert change(unscheduled("x", since=ago(minutes=9))) == 60
    assert change(unscheduled("x", since=ago(minutes=11))) is None
    assert change(lost("demo-6d5f-a", created=ago(minutes=8))) == 120


def test_metrics_of_an_autoscaler_that_are_late_are_a_failure_in_time() -> None:
    active = said("ScalingActive", "False", "FailedGetPodsMetric", "no metrics")
    moment = dt.datetime.fromisoformat(NOW)
    for minutes, reason, seconds in ((2, "Pending", 60), (4, "MetricsUnavailable", None)):
        children = hpa({**active, "lastTransitionTime": ago(minutes=minutes)})
        given = status(manifests.resource(**HPA), children=children)
        assert condition(given, "AutoscalingReady")[1] == reason
        seen = Observed(children=children, facts=manifests.facts())
        at = autoscaling.next_change(service.parse(manifests.resource(**HPA)), seen, moment)
        assert (at and (at - moment).total_seconds()) == seconds


def test_a_paused_scaled_object_is_named_and_is_not_a_failure() -> None:
    conditions = [said("Ready", "True", ""), said("Paused", "True", "ScaledObjectPaused")]
    children = {("ScaledObject", "demo"): {"status": {"conditions": conditions}}}
    given = status(manifests.resource(**KEDA), children=children)
    value, reason, message = condition(given, "AutoscalingReady")
    assert (value, reason) == ("True", "AutoscalingPaused")
    assert "ScaledObject demo is paused" in message
    assert condition(given)[0] == "True"


def test_metrics_that_cannot_be_fetched_are_a_failure_soon() -> None:
    """An autoscaler whose adapter, or Prometheus, is gone does not wait for the metrics of new pods."""
    fetch = "unable to get metric queue: unable to fetch metrics from custom metrics API: "
    for error, seconds, reason in (
        ("the server is currently unable to handle the request", 5, "Pending"),
        ("the server is currently unable to handle the request", 11, "MetricsUnavailable"),
        ("the server could not find the metric queue for pods", 170, "Pending"),
    ):
        active = said("ScalingActive", "False", "FailedGetPodsMetric", f"{fetch}{error}")
        children = hpa({**active, "lastTransitionTime": ago(seconds=seconds)})
        given = status(manifests.resource(**HPA), children=children)
        assert condition(given, "AutoscalingReady")[1] == reason
        asks = "do prometheus-adapter and the Prometheus that it asks run?"
        message = condition(given, "AutoscalingReady")[2]
        assert (asks in message) is ("handle the request" in error)


@pytest.mark.parametrize(
    ("created", "served", "reason", "seconds"),
    [
        (2, None, "Pending", 60),
        (60, 1, "Pending", 120),
        (1, 60, "Pending", 120),
        (60, 60, "MetricsUnavailable", None),
    ],
    ids=["new", "its models took an hour", "moved to KEDA", "for an hour"],
)
def test_metrics_that_keda_lacks_are_a_failure_in_time(
    created: int, served: int | None, reason: str, seconds: int | None
) -> None:
    """A new pod's metrics are scraped, and KEDA asks again, a moment after the first question."""
    conditions = [said("Ready", "False", "TriggerError", "Triggers do not work")]
    metadata = {"creationTimestamp": ago(minutes=created)}
    demo = deployment(1, ready=1)
    if served is not None:
        available = said("Available", "True", "MinimumReplicasAvailable")
        demo["status"]["conditions"] = [{**available, "lastTransitionTime": ago(minutes=served)}]
    children = {
        ("ScaledObject", "demo"): {"metadata": metadata, "status": {"conditions": conditions}},
        ("Deployment", "demo"): demo,
    }
    given = status(manifests.resource(**KEDA), children=children)
    assert condition(given, "AutoscalingReady")[1] == reason
    seen = Observed(children=children, facts=manifests.facts())
    moment = dt.datetime.fromisoformat(NOW)
    at = autoscaling.next_change(service.parse(manifests.resource(**KEDA)), seen, moment)
    assert (at and (at - moment).total_seconds()) == seconds


def running(name: str, *, ready: bool = False, **more: typing.Any) -> Manifest:
    conditions = [said("Ready", "True" if ready else "False", "")]
    return pod(name, phase="Running", podIP="10.0.0.1", conditions=conditions, **more)


def test_a_server_has_started_once_its_startup_probe_succeeds() -> None:
    assert pods.has_started(running("demo-new-a", ready=True))
    for started in (True, False):
        server = {"name": "server", "started": started}
        assert pods.has_started(running("demo-new-a", containerStatuses=[server])) is started


def reporting(*candidates: Manifest, looping: tuple[str, ...] = ()) -> list[str]:
    rollout = deployment(
        conditions=[said("Progressing", "True", "", 'ReplicaSet "demo-new" is progressing.')]
    )
    return [pod_["metadata"]["name"] for pod_ in pods.reporting(candidates, rollout, looping)]


def test_a_pod_of_the_newest_template_reports_before_others() -> None:
    old, new = running("demo-old-a", ready=True), running("demo-new-a")
    assert reporting(old, new) == ["demo-new-a", "demo-old-a"]
    assert reporting(old, new, running("demo-new-b", ready=True)) == ["demo-new-b"]
    assert reporting(old) == ["demo-old-a"]


def test_a_pod_that_has_loaded_its_models_and_is_not_ready_reports_before_one_that_is() -> None:
    """Its models say why; those of the others, which serve, would hide it."""
    ready = running("demo-new-a", ready=True)
    server = {"name": "server", "state": {"running": {}}}
    loading = running("demo-new-b", containerStatuses=[{**server, "started": False}])
    failed = running("demo-new-c", containerStatuses=[{**server, "started": True}])
    assert reporting(ready, loading) == ["demo-new-a"]
    assert reporting(ready, loading, failed) == ["demo-new-c", "demo-new-a"]


def test_a_pod_that_cannot_report_is_not_polled() -> None:
    leaving = running("demo-new-a")
    leaving["metadata"]["deletionTimestamp"] = NOW
    without_address = pod("demo-new-b", phase="Running")
    down = running(
        "demo-new-d", containerStatuses=[{"name": "server", "state": {"waiting": {"reason": "x"}}}]
    )
    assert reporting(leaving, without_address, pod("demo-new-c", phase="Pending"), down) == []
    assert reporting(running("demo-new-e"), looping=("demo-new-e",)) == []


RUNS: dict[str, typing.Any] = {"running": {}}


@pytest.mark.parametrize(
    ("given", "starting"),
    [
        (container(state=RUNS), True),
        (pod(phase="Pending", initContainerStatuses=[{"name": "fetch", "state": RUNS}]), True),
        (container(state=RUNS, restartCount=1), False),
        (waiting("ImagePullBackOff"), False),
        (waiting("ContainerCreating"), False),
        (unscheduled("0/3 nodes are available"), False),
        (pod(), False),
    ],
)
def test_a_pod_starts_while_a_container_runs_for_the_first_time(
    given: dict[str, typing.Any],
    starting: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    assert pods.are_starting([pod(), given]) is starting
    given["metadata"]["deletionTimestamp"] = NOW
    assert not pods.are_starting([given])


@pytest.mark.parametrize("text", ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_time_that_python_has_none_for_can_be_compared_and_added_to(text: str) -> None:
    now = dt.datetime.now(dt.UTC)
    moment = pods.time(text)
    assert (moment > now) == text.startswith("9999")
    assert moment + dt.timedelta(days=365) > moment
