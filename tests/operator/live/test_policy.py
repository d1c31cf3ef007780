"""What a platform refuses to services: nothing is created for a service that has it, and its condition says the field and what to write."""

import pytest

from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.objects import condition, inference_service
from tests.apiserver.operator import OperatorProcess
from tests.operator.live.conftest import Start


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
