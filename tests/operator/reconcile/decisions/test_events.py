"""Events are written on transitions only, with the condition's own message."""

from typing import Any

import pytest

from naiad_operator.reconcile.decisions.events import Event, of_drift, of_transition


def status(ready: str, reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": message}
    return {"conditions": [condition], **more}


def test_becoming_ready_has_an_event_with_the_address() -> None:
    before, after = (
        status("False", "RollingOut"),
        status("True", "Ready", url="http://demo.example.com"),
    )
    assert of_transition(before, after) == [
        Event("Normal", "Ready", "the service is ready at http://demo.example.com")
    ]


def test_the_same_reason_again_has_no_event_even_with_another_message() -> None:
    before, after = status("False", "RollingOut", "1 of 3"), status("False", "RollingOut", "2 of 3")
    assert of_transition(before, after) == []


def test_the_steps_of_a_rollout_have_no_events() -> None:
    assert of_transition({}, status("False", "NewTemplate")) == []
    assert of_transition(status("False", "NewTemplate"), status("False", "RollingOut")) == []


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("RollingOut", "Normal"),
        ("Suspended", "Normal"),
        ("WaitingForVolume", "Normal"),
        ("ImagePullBackOff", "Warning"),
    ],
)
def test_only_what_needs_attention_is_a_warning(reason: str, kind: str) -> None:
    [event] = of_transition(status("True", "Ready"), status("False", reason, "why"))
    assert event == Event(kind, reason, "why")


def test_a_long_message_is_truncated_to_the_api_servers_limit() -> None:
    [event] = of_transition({}, status("False", "CrashLoopBackOff", "x" * 5000))
    assert len(event.message.encode()) <= 1024


def test_drift_of_replicas_explains_how_to_scale() -> None:
    event = of_drift("Deployment", "demo", ["spec.replicas"])
    assert "kubectl scale infsvc" in event.message


def test_drift_of_many_fields_names_a_few() -> None:
    event = of_drift("Service", "demo", ["a", "b", "c", "d", "e"])
    assert "(a, b, c and 2 more)" in event.message


def models(reason: str, ready: str = "Ready") -> dict[str, Any]:
    failed = {"type": "ModelsLoaded", "status": "False", "reason": reason, "message": "model m: x"}
    base = status("True" if ready == "Ready" else "False", ready, "model m: x")
    return {"conditions": [*base["conditions"], failed]}


def test_models_that_fail_beside_serving_ones_have_one_event() -> None:
    (event,) = of_transition(models("Loading"), models("ModelFailed"))
    assert event == Event("Warning", "ModelFailed", "model m: x")
    assert of_transition(models("ModelFailed"), models("ModelFailed")) == []
    assert of_transition(models("ModelFailed"), models("Loaded")) == []
    (event,) = of_transition(models("Loading", "Loading"), models("ModelFailed", "ModelFailed"))
    assert event.reason == "ModelFailed", "Ready says it, once"


def upgraded(reason: str) -> dict[str, object]:
    condition = {"type": "Upgraded", "status": "False", "reason": reason, "message": "why"}
    return {"conditions": [condition]}


def test_a_service_that_stops_an_upgrade_has_one_event() -> None:
    failed = upgraded("UpgradeFailed")
    assert of_transition(upgraded("Upgrading"), failed)[-1] == Event(
        "Warning", "UpgradeFailed", "why"
    )
    assert of_transition(failed, failed) == []
    assert of_transition(upgraded("UpgradePending"), upgraded("UpgradePaused")) == [], (
        "a thousand services may wait"
    )


def test_a_kept_number_of_pods_has_one_event() -> None:
    ready = status("True", "Ready")
    kept = {**ready, "keptReplicas": 5}
    (event,) = of_transition(ready, kept)
    assert (event.type, event.reason) == ("Normal", "ReplicasKept")
    assert "stays 5" in event.message
    assert "predictor.replicas" in event.message
    assert of_transition(kept, kept) == []
    assert of_transition({}, kept)[1:] == [], "a new service has one pod, which causes no Event"


def with_canary(value: str, reason: str, message: str = "") -> dict[str, Any]:
    made = status("True", "Ready")
    condition = {"type": "CanaryReady", "status": value, "reason": reason, "message": message}
    return {"conditions": [*made["conditions"], condition]}


def test_a_canary_has_an_event_when_it_is_ready_and_when_it_fails() -> None:
    plain, starts = status("True", "Ready"), with_canary("False", "RollingOut")
    ready = with_canary("True", "Ready", "the canary gets 10 of 100 requests")
    fails = with_canary("False", "ModelFailed", "model m: no file")
    assert of_transition(plain, starts) == []
    assert of_transition(starts, ready) == [
        Event("Normal", "CanaryReady", "the canary gets 10 of 100 requests")
    ]
    assert of_transition(ready, ready) == []
    assert of_transition(ready, fails) == [
        Event("Warning", "ModelFailed", "canary: model m: no file")
    ]
    assert of_transition(fails, plain) == []
