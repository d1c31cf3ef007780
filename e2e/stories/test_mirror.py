"""Story: a Gateway that mirrors requests sends a copy of each to the canary, whose answers no client sees."""

import http.client
import json
import re

import pytest

from e2e import services
from e2e.addons import contour
from e2e.addons.target import Target
from e2e.kubernetes import Kubernetes

HOST = "mirrored.example.com"
_ASKED = 40
_BODY = json.dumps(
    {"inputs": [{"name": "TEXT", "datatype": "BYTES", "shape": [1, 1], "data": ["two words"]}]}
)


def _infer(address: str) -> int:
    """The status of one inference by way of the Gateway."""
    connection = http.client.HTTPConnection(address, 80, timeout=20)
    connection.request("POST", "/v2/models/word_count/infer", _BODY, {"Host": HOST})
    status = connection.getresponse().status
    connection.close()
    return status


def _name(address: str) -> str:
    """The name of the server that answers by way of the Gateway."""
    connection = http.client.HTTPConnection(address, 80, timeout=20)
    connection.request("GET", "/v2", headers={"Host": HOST})
    name: str = json.loads(connection.getresponse().read())["name"]
    connection.close()
    return name


def _served(kubernetes: Kubernetes, component: str) -> float:
    """How many inferences the pods of one component have answered."""
    total = 0.0
    for pod in kubernetes.list("pods", f"app.kubernetes.io/component={component}"):
        address = (pod.get("status") or {}).get("podIP")
        if address:
            connection = http.client.HTTPConnection(address, 8002, timeout=20)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            found = re.findall(r"^nv_inference_request_success\{.*\} ([0-9.e+]+)$", text, re.MULTILINE)  # fmt: skip
            total += sum(map(float, found))
    return total


@pytest.mark.full
def test_a_canary_gets_a_copy_of_each_request_and_answers_none(
    kubernetes: Kubernetes, cluster: Target
) -> None:
    address = contour.ensure(cluster)
    made = services.service(
        "demo",
        predictor={"args": ["--id=main"]},
        gateway={"parentRefs": [contour.GATEWAY], "hostnames": [HOST]},
        canary={"weight": 0, "replicas": 1, "args": ["--id=canary"]},
        mirror={},
    )
    made["spec"]["predictor"]["model"]["load"] = {"mode": "explicit", "models": ["word_count"]}
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    kubernetes.wait_condition("demo", "CanaryReady", status="True", reason="Ready")
    assert kubernetes.condition("demo", "NetworkReady")["status"] == "True"
    kubernetes.wait("the route", lambda: _infer(address) == 200)
    kubernetes.wait("the first copy", lambda: _infer(address) == 200 and _served(kubernetes, "canary") > 0)  # fmt: skip
    before = _served(kubernetes, "server"), _served(kubernetes, "canary")
    assert [_infer(address) for _ in range(_ASKED)] == [200] * _ASKED
    assert {_name(address) for _ in range(_ASKED)} == {"main"}, (
        "no client gets the answer to a copy"
    )

    def counted() -> tuple[float, float]:
        return _served(kubernetes, "server") - before[0], _served(kubernetes, "canary") - before[1]

    kubernetes.wait("a copy of each", lambda: counted() == (_ASKED, _ASKED), seen=counted)
    # Without the mirror, the canary of weight 0 rests again.
    kubernetes.patch("infsvc", "demo", {"spec": {"mirror": None}})

    def rests() -> bool:
        seen = _served(kubernetes, "canary")
        return [_infer(address) for _ in range(5)] == [200] * 5 and _served(kubernetes, "canary") == seen  # fmt: skip

    kubernetes.wait("no copies", rests)
