"""Story: KEDA's HTTP add-on holds requests to a service without pods until its first pod is Ready, and none fails."""

import concurrent.futures
import functools
import http.client
import json
import time

import pytest

from e2e import services
from e2e.addons import keda, keda_http
from e2e.addons.target import Target
from e2e.kubernetes import Kubernetes

HOST = "held.example.com"
_AT_ONCE = 8
_BODY = json.dumps(
    {"inputs": [{"name": "TEXT", "datatype": "BYTES", "shape": [1, 1], "data": ["two words"]}]}
)


def _infer(address: str) -> tuple[int, str]:
    """The status and the body of one inference by way of the add-on's proxy."""
    connection = http.client.HTTPConnection(address, timeout=180)
    try:
        connection.request("POST", "/v2/models/word_count/infer", _BODY, {"Host": HOST})
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        connection.close()


def _scaled_object() -> services.Object:
    """As docs/traffic.md has it, with a short wait before the last pod goes."""
    return {
        "apiVersion": "http.keda.sh/v1alpha1",
        "kind": "HTTPScaledObject",
        "metadata": {"name": "demo"},
        "spec": {
            "hosts": [HOST],
            "scaleTargetRef": {
                "apiVersion": "serving.naiad.dev/v1alpha1",
                "kind": "InferenceService",
                "name": "demo",
                "service": "demo",
                "port": 8000,
            },
            "replicas": {"min": 0, "max": 2},
            "scaledownPeriod": 10,
            "timeouts": {"conditionWait": "120s", "responseHeader": "60s"},
        },
    }


def _has_no_pod(kubernetes: Kubernetes) -> bool:
    stopped = kubernetes.condition("demo", "Stopped")
    return stopped.get("status") == "True" and not kubernetes.list("pods")


@pytest.mark.full
def test_requests_to_a_service_without_pods_wait_for_its_first_pod(
    kubernetes: Kubernetes, cluster: Target
) -> None:
    keda.ensure(cluster)
    address = keda_http.ensure(cluster)
    made = services.service("demo", predictor={"autoscaling": {"class": "external"}})
    made["spec"]["predictor"]["model"]["load"] = {"mode": "explicit", "models": ["word_count"]}
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    kubernetes.apply(_scaled_object())
    for round_ in range(2):
        started = time.monotonic()
        without = functools.partial(_has_no_pod, kubernetes)
        kubernetes.wait("no pod", without, seen=lambda: kubernetes.get("infsvc", "demo"), timeout=240)  # fmt: skip
        print(f"round {round_}: no pod after {time.monotonic() - started:.0f} s")
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as threads:
            answers = list(threads.map(_infer, [address] * _AT_ONCE))
        print(f"round {round_}: {_AT_ONCE} answers after {time.monotonic() - started:.1f} s")
        assert [status for status, _ in answers] == [200] * _AT_ONCE, answers
        assert [_infer(address)[0] for _ in range(20)] == [200] * 20
        kubernetes.wait_ready("demo")
