"""What a platform refuses to services: nothing is created for a service that has it, and its condition says the field and what to write."""

from collections.abc import Callable

import pytest

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.objects import condition, inference_service, make_namespace
from tests.apiserver.operator import OperatorProcess, at_rest
from tests.operator.live.conftest import Start
from tests.operator.live.test_profiles import profiles

__all__ = ["profiles"]


@pytest.fixture(scope="module")
def operator(start: Start, namespace: str) -> OperatorProcess:
    """An operator as a new installation of the chart starts it."""
    options = ("--pod-template=Restricted", "--triggers=Refuse")
    return start(f"--watch-namespaces={namespace}", *options).wait_ready()


def refusal(kubectl: Kubectl, name: str, namespace: str) -> str:
    """The message of the condition SpecValid once it is False."""

    def look() -> str | None:
        shown = condition(kubectl.get("InferenceService", name, namespace), "SpecValid")
        return shown["message"] if shown.get("status") == "False" else None

    return until(f"{name} to be refused", look)


REFUSED: dict[str, tuple[Object, str]] = {
    "path-of-the-node": (
        {"podTemplate": {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}}},
        "spec.predictor.podTemplate.spec.volumes[0].hostPath: spec.volumes[root].hostPath would be",
    ),
    "sidecar": (
        {"podTemplate": {"spec": {"containers": [{"name": "sidecar", "image": "a"}]}}},
        "securityContext.allowPrivilegeEscalation would be absent, which is refused, because podTemplate is Restricted here",
    ),
    "trigger": (
        {"autoscaling": {"class": "keda", "triggers": [{"type": "metrics-api", "metadata": {"url": "http://10.0.0.1"}}]}},
        "spec.predictor.autoscaling.triggers[0]: is refused here",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("case", REFUSED)
def test_a_service_that_is_refused_gets_nothing_until_it_is_edited(
    kubectl: Kubectl, namespace: str, case: str
) -> None:
    fields, words = REFUSED[case]
    kubectl.create(inference_service(case, namespace, **fields))
    assert words in refusal(kubectl, case, namespace)
    assert kubectl.find("Deployment", case, namespace) is None
    assert kubectl.find("Service", case, namespace) is None
    without = {"spec": {"predictor": dict.fromkeys(fields)}}
    kubectl.patch("InferenceService", case, namespace, body=without)
    until(f"{case} to get its pods", lambda: kubectl.find("Deployment", case, namespace))


def test_a_profile_holds_the_namespaces_that_it_binds_whatever_a_service_names(
    kubectl: Kubectl, start: Start, profiles: Callable[..., None]
) -> None:
    team, other = make_namespace(kubectl, "team"), make_namespace(kubectl, "other")
    wanted: Object = {"podTemplate": {"spec": {"hostPID": True}}}
    namespaces = {"selector": {"matchLabels": {"tier": "gold"}}}
    profiles("free", labels={"a": "b"})
    profiles("held", policy={"namespaces": namespaces, "podTemplate": "Refuse"})
    with start(f"--watch-namespaces={team},{other}").wait_ready() as operator:
        for namespace in (team, other):
            kubectl.create(
                inference_service("demo", namespace, spec_={"profile": "free"}, **wanted)
            )
            kubectl.wait_for("Deployment", "demo", namespace)
        body: Object = {"metadata": {"labels": {"tier": "gold"}}}
        kubectl.patch("Namespace", team, body=body)
        assert "refused here (the NaiadProfile held)" in refusal(kubectl, "demo", team)
        assert kubectl.find("Deployment", "demo", team) is not None, "pods serve on"
        patch: Object = {"spec": {"predictor": {"podTemplate": None}}}
        kubectl.patch("InferenceService", "demo", team, body=patch)

        def is_bound() -> bool:
            shown = kubectl.get("InferenceService", "demo", team)
            words: str = condition(shown, "SpecValid").get("message", "")
            return words == (
                "the NaiadProfile held binds this namespace, so that spec.profile free has no effect"
            )

        until("the service to say which profile binds it", is_bound)
        policy = {"namespaces": namespaces, "enforced": ["priorityClassName", "nodeSelector"]}
        profiles("held", policy=policy, nodeSelector={"pool": "tenants"})
        patch = {"spec": {"predictor": {"nodeSelector": {"pool": "others"}}}}
        kubectl.patch("InferenceService", "demo", team, body=patch)
        words = "spec.predictor.nodeSelector[pool]: the NaiadProfile held enforces nodeSelector"
        assert words in refusal(kubectl, "demo", team)
        patch = {"spec": {"predictor": {"nodeSelector": None, "priorityClassName": "high"}}}
        kubectl.patch("InferenceService", "demo", team, body=patch)
        until(
            "the other field to be named",
            lambda: "held enforces priorityClassName" in refusal(kubectl, "demo", team),
        )
        patch = {"spec": {"predictor": {"priorityClassName": None}}}
        kubectl.patch("InferenceService", "demo", team, body=patch)
        until("the service to be valid", lambda: is_bound() or None)
        profiles("held", policy={"namespaces": namespaces, "hosts": ["*.{namespace}.example.com"]})
        patch = {"spec": {"ingress": {"enabled": True, "host": "payments.example.com"}}}
        kubectl.patch("InferenceService", "demo", team, body=patch)
        words = f"payments.example.com is refused, because the NaiadProfile held allows *.{team}.example.com"
        assert words in refusal(kubectl, "demo", team)
        assert kubectl.find("Ingress", "demo", team) is None
        profiles("second", policy={"namespaces": {"names": [team]}})
        words = "NaiadProfile held and NaiadProfile second bind"
        until("both to be named", lambda: words in refusal(kubectl, "demo", team) or None)
        assert operator.stop() == 0, operator.tail()


def test_labels_of_a_namespace_concern_its_services_alone_and_only_those_that_a_profile_selects_by(
    kubectl: Kubectl, plane: ControlPlane, start: Start, profiles: Callable[..., None]
) -> None:
    """Counted in reconciles: of twelve services in a namespace whose labels change, and of one in a namespace that a profile binds from then on."""
    mine, theirs = make_namespace(kubectl, "labels-mine"), make_namespace(kubectl, "labels-theirs")
    profiles("gold", policy={"namespaces": {"selector": {"matchLabels": {"tier": "gold"}}}})
    with start(f"--watch-namespaces={mine},{theirs}").wait_ready() as operator:
        for namespace, name in ((mine, "demo"), *((theirs, f"demo-{n}") for n in range(12))):
            kubectl.create(inference_service(name, namespace))
            kubectl.wait_for("Deployment", name, namespace)
        at_rest(plane, operator)
        before = operator.looks()
        for number in range(5):
            label: Object = {"metadata": {"labels": {"cost": str(number)}}}
            kubectl.patch("Namespace", theirs, body=label)
        kubectl.patch("Namespace", mine, body={"metadata": {"labels": {"tier": "gold"}}})

        def profile_of(name: str, namespace: str) -> str | None:
            status: Object = kubectl.get("InferenceService", name, namespace)["status"]
            return status.get("profile")

        until("the profile to bind the namespace", lambda: profile_of("demo", mine) == "gold")
        at_rest(plane, operator)
        assert operator.looks() - before < 12
        assert profile_of("demo-0", theirs) is None
        assert operator.stop() == 0, operator.tail()
