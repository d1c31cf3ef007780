"""Story: requests through a Gateway are divided between a service and its canary, the canary is promoted and no request fails; path prefixes."""

import collections
import contextlib
import functools
import http.client
import json
import typing

import pytest
import tritonclient.http

from e2e import load, services
from e2e.kubernetes import Kubernetes
from e2e.stories.test_restarts import no_request_fails

HOST = "demo.example.com"
PREFIX = "/api/predict/demo"
_WAYS = {"ingress": services.ingress(HOST), "gateway": services.gateway(HOST)}
_ASKED = 200


def _service(**fields: typing.Any) -> dict[str, typing.Any]:
    """A service with the one model that the load asks."""
    made = services.service("demo", **fields)
    made["spec"]["predictor"]["model"]["load"] = {"mode": "explicit", "models": ["word_count"]}
    return made


def _with_route(kubernetes: Kubernetes, *manifests: dict[str, typing.Any]) -> None:
    kubernetes.apply(services.secret(), *manifests)
    kubernetes.wait_ready("demo")
    load.wait_for_routes(kubernetes, *load.both(HOST))


@pytest.fixture
def demo(kubernetes: Kubernetes) -> Kubernetes:
    """A Ready service behind the Gateway; its server says its name, `main`."""
    made = _service(replicas=2, predictor={"args": ["--id=main"]}, gateway=services.gateway(HOST))
    _with_route(kubernetes, made)
    return kubernetes


def _shares() -> dict[str, float]:
    """The share of the requests that each server answers, by the server's name."""
    names: collections.Counter[str] = collections.Counter()
    connection = http.client.HTTPConnection(HOST, 80, timeout=20)
    for _ in range(_ASKED):
        connection.request("GET", "/v2")
        names[json.loads(connection.getresponse().read())["name"]] += 1
    connection.close()
    return {name: count / _ASKED for name, count in names.items()}


def _patch(kubernetes: Kubernetes, **spec: typing.Any) -> None:
    kubernetes.patch("infsvc", "demo", {"spec": spec})


def test_a_canary_is_promoted_and_no_request_fails(demo: Kubernetes) -> None:
    canary = {"replicas": 2, "args": ["--id=canary"]}
    with no_request_fails():
        _patch(demo, canary={"weight": 25, **canary})
        demo.wait_condition("demo", "CanaryReady", status="True", reason="Ready")
        demo.wait("a quarter", lambda: 0.15 < _shares().get("canary", 0) < 0.35, seen=_shares)
        _patch(demo, canary={"weight": 100})
        demo.wait("all requests", lambda: _shares() == {"canary": 1}, seen=_shares)
        _patch(demo, predictor={"args": canary["args"]})
        demo.wait_ready("demo")
        _patch(demo, canary=None)
        demo.wait("no canary", lambda: demo.get("deployment", "demo-canary") is None)
        demo.wait("its pods to end", lambda: len(demo.list("pods")) == 2)
    assert _shares() == {"canary": 1}, "the promoted pods have what the canary had"


def test_a_canary_that_does_not_start_gets_no_request(demo: Kubernetes) -> None:
    with no_request_fails():
        _patch(demo, canary={"weight": 50, "args": ["--no-such-option"]})
        demo.wait_condition("demo", "CanaryReady", status="False", reason="CrashLoopBackOff")
        assert _shares() == {"main": 1}
        assert demo.condition("demo")["status"] == "True"


def test_a_cookie_keeps_a_client_at_one_pod_until_that_ends(kubernetes: Kubernetes) -> None:
    pod = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    affinity = services.ingress(HOST, sessionAffinity={"type": "Cookie"})
    _with_route(
        kubernetes,
        _service(replicas=2, predictor={"args": ["--id=$(POD)"], "env": [pod]}, ingress=affinity),
    )
    kubernetes.wait("both pods", lambda: len(_shares()) == 2, seen=_shares)
    connection = http.client.HTTPConnection(HOST, 80, timeout=20)
    first, cookie = _ask(connection)
    assert cookie.startswith("naiad-pod=")
    assert {_ask(connection, cookie)[0] for _ in range(_ASKED)} == {first}
    connection.close()
    kubernetes.run("delete", "pod", first)
    said: list[tuple[str, str]] = []

    def answers() -> bool:
        # Until the ingress controller knows that the pod is gone, it asks it what comes with its cookie.
        fresh = http.client.HTTPConnection(HOST, 80, timeout=3)
        with contextlib.closing(fresh), contextlib.suppress(OSError, AssertionError):
            said.append(_ask(fresh, cookie))
        return bool(said)

    kubernetes.wait("an answer of the other pod", answers)
    [(other, again)] = said
    assert other != first
    connection = http.client.HTTPConnection(HOST, 80, timeout=20)
    assert {_ask(connection, again or cookie)[0] for _ in range(_ASKED)} == {other}
    connection.close()


def _ask(connection: http.client.HTTPConnection, cookie: str = "") -> tuple[str, str]:
    """The name of the server that answers, and the cookie that it sets."""
    connection.request("GET", "/v2", headers={"Cookie": cookie} if cookie else {})
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, body
    return json.loads(body)["name"], (response.headers["Set-Cookie"] or "").partition(";")[0]


@pytest.mark.parametrize("way", _WAYS)
def test_clients_call_below_a_prefix(kubernetes: Kubernetes, way: str) -> None:
    made = _service(pathPrefix=PREFIX)
    made["spec"][way] = _WAYS[way]
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    prefixed = functools.partial(load.http, f"{HOST}:80{PREFIX}")
    load.wait_for_routes(kubernetes, prefixed)
    assert not load.responds(lambda: load.http(f"{HOST}:80")), "the host has nothing beside it"
    without = functools.partial(load.grpc, f"grpc.{HOST}:80")
    kubernetes.wait("gRPC, which has no prefix", lambda: load.responds(without), timeout=20)
    with tritonclient.http.InferenceServerClient(f"{HOST}:80{PREFIX}") as client:
        assert client.is_server_ready()
        assert client.get_model_metadata("word_count")["name"] == "word_count"
    assert kubernetes.condition("demo", "NetworkReady")["reason"] == "PathPrefixOfHttp"
