"""An upgrade of the operator: which pods it restarts, when, and what survives it. Each release is a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import OPERATOR_TOKEN, ControlPlane
from tests.apiserver.kubelet import Kubelet, crash_looping, ready as running
from tests.apiserver.objects import (
    condition,
    event_of,
    events_of,
    inference_service,
    make_namespace,
    ready,
    replicas_of,
)
from tests.apiserver.operator import OperatorProcess, at_rest

pytestmark = pytest.mark.slow

Release = Callable[..., OperatorProcess]
ROOT = Path(__file__).parents[3]
PREFIX = "serving.naiad.dev/"
FIRST, THIS, LATER = "0.1.0", "0.2.0", "0.9.0"
EDIT = {"spec": {"predictor": {"args": ["--log-verbose=1"]}}}


@pytest.fixture
def release(plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Release:
    """Starts a release of the operator in a namespace; `template` is what its pod template differs by."""

    def start(namespace: str, version: str, *arguments: str, template: str = "") -> OperatorProcess:
        process = OperatorProcess(
            plane.kubeconfig(OPERATOR_TOKEN),
            f"--watch-namespaces={namespace}",
            "--default-image=registry.example.com/naiad:1",
            *arguments,
            log=tmp_path / f"{version}{template}.log",
            environ={"OTHER_VERSION": version, "OTHER_VARIABLE": template},
            module="tests.support.other_release",
        )
        request.addfinalizer(process.kill)
        return process.wait_ready()

    return start


def services(kubectl: Kubectl, kubelet: Kubelet, namespace: str, names: str) -> None:
    for name in names:
        kubectl.create(inference_service(name, namespace, replicas=2))
    for name in names:
        ready(kubectl, kubelet, name, namespace)


def template(kubectl: Kubectl, name: str, namespace: str) -> Object:
    found: Object = kubectl.get("Deployment", name, namespace)["spec"]["template"]
    return found


def of_release(kubectl: Kubectl, namespace: str, names: str) -> dict[str, str]:
    """By service, what its pod template differs by."""
    found = {}
    for name in names:
        variables = template(kubectl, name, namespace)["spec"]["containers"][0]["env"]
        given = [variable["value"] for variable in variables if variable["name"] == "RELEASE"]
        found[name] = "".join(given)
    return found


def recorded(kubectl: Kubectl, name: str, namespace: str) -> dict[str, str]:
    annotations = kubectl.get("Deployment", name, namespace)["metadata"]["annotations"]
    return {k.removeprefix(PREFIX): v for k, v in annotations.items() if k.startswith(PREFIX)}


def reason(kubectl: Kubectl, name: str, namespace: str) -> str:
    service = kubectl.get("InferenceService", name, namespace)
    return str(condition(service, "Upgraded").get("reason"))


def reasons(kubectl: Kubectl, namespace: str, names: str) -> list[str]:
    return [reason(kubectl, name, namespace) for name in names]


def planned(
    plane: ControlPlane, namespace: str, version: str, *arguments: str, template: str = ""
) -> tuple[int, str]:
    """What the plan command of a release prints, and its exit status."""
    command = [sys.executable, "-m", "tests.support.other_release", "plan"]
    command += [
        f"--kubeconfig={plane.kubeconfig(OPERATOR_TOKEN)}",
        f"--watch-namespaces={namespace}",
    ]
    command += ["--default-image=registry.example.com/naiad:1", *arguments]
    paths = os.pathsep.join([str(ROOT / "operator"), str(ROOT)])
    environ = {"OTHER_VERSION": version, "OTHER_VARIABLE": template, "PYTHONPATH": paths}
    ended = subprocess.run(
        command,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout or ended.stderr


def failing(service: str) -> Callable[[Object], Object]:
    """Pods of this service whose template is a later one end at once."""

    def become(pod: Object) -> Object:
        labels, env = pod["metadata"]["labels"], pod["spec"]["containers"][0]["env"]
        is_new = any(variable["name"] == "RELEASE" for variable in env)
        if is_new and labels["app.kubernetes.io/instance"] == service:
            return crash_looping(pod, message="no such option")
        return running(pod)

    return become


def restarted(
    plane: ControlPlane,
    operator: OperatorProcess,
    namespace: str,
    again: Callable[[], OperatorProcess],
) -> tuple[OperatorProcess, list[Object]]:
    """The operator after a restart, and what that wrote."""
    written = at_rest(plane, operator)
    operator.kill()
    started = again()
    at_rest(plane, started)
    return started, plane.audit.writes(written, namespace=namespace)


def test_services_are_upgraded_one_after_the_other_until_one_does_not_become_ready(
    plane: ControlPlane, kubectl: Kubectl, kubelet: Kubelet, release: Release
) -> None:
    namespace = make_namespace(kubectl, "staged")
    old = release(namespace, FIRST)
    services(kubectl, kubelet, namespace, "abc")
    before = at_rest(plane, old)
    assert old.stop() == 0
    assert "template-version" not in recorded(kubectl, "a", namespace)

    # The plan says what is going to happen, and does nothing.
    status, text = planned(plane, namespace, THIS)
    assert f"{namespace}/a: would change, and no pod restarts\n  Deployment a\n" in text
    assert (status, "3 services: 0 would restart" in text) == (0, True)
    status, text = planned(plane, namespace, THIS, template="x")
    field = 'spec.containers[server].env[RELEASE]: nothing → {"name": "RELEASE", "value": "x"}'
    for name in "abc":
        assert f"{namespace}/{name}: would restart its pods\n  {field}\n" in text
    assert (status, plane.audit.writes(before)) == (3, [])

    new = release(namespace, THIS, template="x")
    until("the first", lambda: reason(kubectl, "a", namespace) == "Upgrading")
    at_rest(plane, new)
    assert of_release(kubectl, namespace, "abc") == {"a": "x", "b": "", "c": ""}
    assert reasons(kubectl, namespace, "bc") == ["UpgradePending"] * 2
    versions = [recorded(kubectl, name, namespace)["template-version"] for name in "abc"]
    assert versions == [THIS, FIRST, FIRST]
    for name in "bc":
        events = [event["reason"] for event in events_of(kubectl, name, namespace)]
        assert events[-1] == "Ready", "writing a record does not look like a rollout"
    # Killed in the middle, it goes on where it was, and the one that is being upgraded still counts.
    new.kill()
    new = release(namespace, THIS, template="x")
    at_rest(plane, new)
    assert of_release(kubectl, namespace, "abc") == {"a": "x", "b": "", "c": ""}
    assert new.metric('naiad_operator_upgrades{state="waiting"}') == 2

    def paused() -> bool:
        kubelet.step(namespace, become=failing("b"))
        return reasons(kubectl, namespace, "abc") == ["Current", "UpgradeFailed", "UpgradePaused"]

    until("a pause", paused)
    event = event_of(kubectl, "b", namespace, reason="UpgradeFailed")
    assert "no such option" in event["message"]
    waiting = condition(kubectl.get("InferenceService", "c", namespace), "Upgraded")
    assert f"because {namespace}/b" in waiting["message"]
    assert new.metric('naiad_operator_upgrades{state="failed"}') == 1
    assert new.metric('naiad_operator_upgrades{state="paused"}') == 1
    assert of_release(kubectl, namespace, "abc") == {"a": "x", "b": "x", "c": ""}
    # A restart during the pause changes nothing either.
    new, written = restarted(plane, new, namespace, lambda: release(namespace, THIS, template="x"))
    assert written == []
    # The user's own edit ends it.
    kubectl.patch("InferenceService", "b", namespace, body=EDIT)

    def done() -> bool:
        kubelet.step(namespace)
        return reasons(kubectl, namespace, "abc") == ["Current"] * 3

    until("the end", done)
    assert set(of_release(kubectl, namespace, "abc").values()) == {"x"}
    for name in "abc":
        ready(kubectl, kubelet, name, namespace)
        assert "upgrade" not in recorded(kubectl, name, namespace)
    at_rest(plane, new)
    _, text = planned(plane, namespace, THIS, "--output=json", template="x")
    whole = json.loads(text)
    assert [one["result"] for one in whole["services"]] == ["unchanged"] * 3


def test_after_the_time_limit_the_next_service_goes_on_and_one_that_is_skipped_does_not(
    plane: ControlPlane, kubectl: Kubectl, kubelet: Kubelet, release: Release
) -> None:
    namespace = make_namespace(kubectl, "limited")
    old = release(namespace, THIS)
    services(kubectl, kubelet, namespace, "abc")
    assert old.stop() == 0
    skip = {"metadata": {"annotations": {f"{PREFIX}upgrades": "Skip"}}}
    first = {"metadata": {"annotations": {f"{PREFIX}upgrade-order": "-1"}}}
    kubectl.patch("InferenceService", "a", namespace, body=skip)
    kubectl.patch("InferenceService", "c", namespace, body=first)
    new = release(namespace, THIS, "--upgrade-time-limit-seconds=5", template="x")

    def went_on() -> bool:
        kubelet.step(namespace, become=failing("c"))
        found = reasons(kubectl, namespace, "abc")
        return found == ["UpgradeSkipped", "Current", "UpgradeFailed"]

    until("b", went_on)
    assert of_release(kubectl, namespace, "abc") == {"a": "", "b": "x", "c": "x"}
    named = f'naiad_operator_upgrade_blocked{{service="c",service_namespace="{namespace}"}}'
    assert new.metric(named) == 1
    blocked = condition(kubectl.get("InferenceService", "c", namespace), "Upgraded")
    assert "others no longer wait for it" in blocked["message"]
    kubectl.patch(
        "InferenceService",
        "a",
        namespace,
        body={"metadata": {"annotations": {f"{PREFIX}upgrades": None}}},
    )

    def unskipped() -> bool:
        kubelet.step(namespace, become=failing("c"))
        return reasons(kubectl, namespace, "a") == ["Current"]

    until("a", unskipped)
    assert of_release(kubectl, namespace, "a") == {"a": "x"}
    at_rest(plane, new)


def test_an_edit_is_not_delayed_and_an_older_operator_does_not_roll_back(
    plane: ControlPlane, kubectl: Kubectl, kubelet: Kubelet, release: Release
) -> None:
    namespace = make_namespace(kubectl, "edited-while-waiting")
    old = release(namespace, THIS)
    services(kubectl, kubelet, namespace, "abc")
    assert old.stop() == 0
    new = release(namespace, LATER, "--max-concurrent-restarts=0", template="x")
    kubectl.patch(
        "InferenceService", "b", namespace, body={"spec": {"replicas": 3}}, subresource="scale"
    )
    kubectl.patch("InferenceService", "c", namespace, body=EDIT)
    until("three", lambda: replicas_of(kubectl, "b", namespace) == 3)
    until("the edit", lambda: of_release(kubectl, namespace, "c") == {"c": "x"})
    at_rest(plane, new)
    assert of_release(kubectl, namespace, "abc") == {"a": "", "b": "", "c": "x"}
    assert reasons(kubectl, namespace, "abc") == ["UpgradePending", "UpgradePending", "Current"]
    # A manual change of a waiting Deployment is put back to what it was, not to what it will be.
    drift = {"spec": {"template": {"spec": {"enableServiceLinks": True}}}}
    kubectl.patch("Deployment", "a", namespace, body=drift)
    event_of(kubectl, "a", namespace, reason="DriftCorrected")
    assert not template(kubectl, "a", namespace)["spec"]["enableServiceLinks"]
    assert of_release(kubectl, namespace, "a") == {"a": ""}

    # Both at once come to rest, and the newer one handles an edit.
    ready(kubectl, kubelet, "c", namespace)
    before = at_rest(plane, new)
    older = release(namespace, THIS)
    at_rest(plane, older, new)
    written = [
        write["objectRef"]["resource"] for write in plane.audit.writes(before, namespace=namespace)
    ]
    assert "deployments" not in written
    kubectl.patch("InferenceService", "a", namespace, body=EDIT)
    ready(kubectl, kubelet, "a", namespace)
    at_rest(plane, older, new)
    assert of_release(kubectl, namespace, "ac") == {"a": "x", "c": "x"}
    # The newer one is taken away: the older one goes on, and replaces no pod for it.
    assert new.stop() == 0
    kubectl.patch(
        "InferenceService", "c", namespace, body={"spec": {"replicas": 3}}, subresource="scale"
    )
    until("three", lambda: replicas_of(kubectl, "c", namespace) == 3)
    assert of_release(kubectl, namespace, "ac") == {"a": "x", "c": "x"}
    assert older.stop() == 0
    back = release(namespace, THIS, "--allow-downgrade=true")

    def rolled_back() -> bool:
        kubelet.step(namespace)
        return of_release(kubectl, namespace, "abc") == {"a": "", "b": "", "c": ""}

    until("the old template", rolled_back)
    assert back.stop() == 0


def test_a_restore_without_a_status_replaces_no_pod_and_keeps_their_number(
    plane: ControlPlane, kubectl: Kubectl, kubelet: Kubelet, release: Release
) -> None:
    namespace = make_namespace(kubectl, "restored")
    first = release(namespace, THIS)
    scaling: dict[str, Any] = {
        "class": "hpa",
        "minReplicas": 3,
        "maxReplicas": 8,
        "queueTimeMs": 10,
    }
    kubectl.create(inference_service("a", namespace, autoscaling=scaling))
    until("three", lambda: kubectl.find("Deployment", "a", namespace))
    until("three", lambda: replicas_of(kubectl, "a", namespace) == 3)
    kubectl.patch(
        "InferenceService", "a", namespace, body={"spec": {"predictor": {"autoscaling": None}}}
    )
    until("kept", lambda: recorded(kubectl, "a", namespace).get("kept-replicas") == "3")
    ready(kubectl, kubelet, "a", namespace)
    at_rest(plane, first)
    assert first.stop() == 0
    service = kubectl.get("InferenceService", "a", namespace)
    del service["status"]
    kubectl.replace_status(service)
    scale = {"spec": {"replicas": 5}}
    kubectl.patch("Deployment", "a", namespace, body=scale, subresource="scale")
    before = kubectl.get("Deployment", "a", namespace)
    filled_in = {"conditions": [], "observedGeneration": 0}
    assert kubectl.get("InferenceService", "a", namespace)["status"] == filled_in

    second = release(namespace, THIS, "--default-image=registry.example.com/naiad:2")
    until("three again", lambda: replicas_of(kubectl, "a", namespace) == 3)
    at_rest(plane, second)
    after = kubectl.get("Deployment", "a", namespace)
    assert after["spec"]["template"] == before["spec"]["template"]
    status = ready(kubectl, kubelet, "a", namespace)["status"]
    assert status["image"]["name"] == "registry.example.com/naiad:1"
    assert status["keptReplicas"] == 3


def test_a_plan_without_a_cluster_says_so(tmp_path: Path, plane: ControlPlane) -> None:
    status, text = planned(plane, "default", THIS, f"--kubeconfig={tmp_path / 'none'}")
    assert status == 1
    assert "none" in text
