"""Metrics and triggers of autoscalers: what KEDA would refuse, and what needs requests of the pods."""

import typing

import pytest

from tests.operator.check.lines import RUN, fields
from tests.support import manifests


def keda(**fields: typing.Any) -> dict[str, typing.Any]:
    return {"autoscaling": {"class": "keda", **fields}}


CRON = {"type": "cron", "metadata": {"timezone": "UTC", "desiredReplicas": "1"}}
CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
WITHOUT_REQUESTS = ("--default-requests=", "--triggers=Allow")
WITH_CPU = {"resources": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("predictor", "message"),
    [
        (keda(triggers=[CRON]), ""),
        (keda(triggers=[{"metadata": {}}]), "triggers[0].type: is missing: write the name of a scaler"),
        (keda(triggers=[CRON, {"type": "cron"}]), "triggers[1].metadata: is missing: write a mapping"),
        (keda(triggers=[{**CRON, "metadata": {"desiredReplicas": 1}}]), "triggers[0].metadata[desiredReplicas]: is 1: write a text, in quotes"),
        (keda(triggers=[CPU]), "warning: triggers[0]: KEDA refuses a cpu trigger for containers without resources.requests[cpu]"),
        ({**keda(triggers=[CPU]), **WITH_CPU}, ""),
        (keda(triggers=[{**CPU, "metricType": "AverageValue"}]), "warning: triggers[0]: KEDA refuses a cpu trigger"),
        ({**keda(triggers=[CPU], minReplicas=0), **WITH_CPU}, "triggers: cpu and memory are measured in pods, so they start no first one"),
        ({**keda(triggers=[CPU], minReplicas=0, activation={"source": "nginx"}), **WITH_CPU}, ""),
        ({**keda(triggers=[CPU, CRON], minReplicas=0), **WITH_CPU}, ""),
    ],
)  # fmt: skip
def test_triggers_that_keda_would_refuse(
    check: RUN, predictor: dict[str, typing.Any], message: str
) -> None:
    status, lines = check(manifests.resource(**predictor), options=WITHOUT_REQUESTS)
    assert status == (1 if message and not message.startswith("warning") else 0)
    first = lines[0].replace("spec.predictor.autoscaling.", "", 1)
    assert first.startswith(message or "1 service")


def test_the_autoscaler_of_a_canary_needs_the_requests_of_its_pods(check: RUN) -> None:
    service = manifests.resource()
    service["spec"]["gateway"] = {"parentRefs": [{"name": "a"}], "hostnames": ["a.example.com"]}
    service["spec"]["canary"] = {"weight": 1, **keda(triggers=[CPU])}
    assert check(service)[1] == ["1 service, 7 objects: valid"], "they have default requests"
    _, lines = check(service, options=WITHOUT_REQUESTS)
    assert fields(lines) == ["spec.canary.autoscaling.triggers[0]"]


def test_a_share_of_a_request_needs_the_request(check: RUN) -> None:
    target = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    scaling = {"class": "hpa", "metrics": [metric]}
    status, lines = check(manifests.resource(autoscaling=scaling), options=WITHOUT_REQUESTS)
    assert status == 0
    assert lines[0].startswith("warning: spec.predictor.autoscaling.metrics[0]: utilization is")
    assert check(manifests.resource(autoscaling=scaling))[1] == ["1 service, 4 objects: valid"]
    with_limit = {"limits": {"cpu": "1"}}
    _, lines = check(manifests.resource(autoscaling=scaling, resources=with_limit))
    assert lines == ["1 service, 4 objects: valid"]
