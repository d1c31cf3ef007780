"""Story h: two teams on one cluster, each with its namespace, its tokens and its rights; and an operator with fewer rights.

The network plugin of this project's cluster does not enforce a NetworkPolicy, so the story reads the policy; where the plugin can, it holds.
"""

import contextlib
import functools
import typing
import urllib.request
from collections.abc import Iterator

import pytest
import tritonclient.utils

from e2e import load, services
from e2e.addons import install
from e2e.addons.target import Target
from e2e.demo import install_chart
from e2e.kubernetes import KubectlError, Kubernetes, Object

pytestmark = pytest.mark.full

HOST = "demo.example.com"
NEIGHBOUR = "quickstart.example.com"
_OPERATOR = "system:serviceaccount:naiad-system:naiad"
_GATEWAY_GROUP = "gateway.networking.k8s.io"


def _team(kubernetes: Kubernetes, host: str, token: str, **spec: typing.Any) -> load.Sender:
    """A Ready service `demo` of a team, with a token and a NetworkPolicy; requests to it."""
    kubernetes.run("create", "secret", "generic", "tokens", f"--from-literal=token={token}")
    made = services.service(
        "demo",
        auth={"tokenSecret": "tokens"},
        networkPolicy={"enabled": True},
        **{"ingress": services.ingress(host), **spec},
    )
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    sender = functools.partial(load.http, f"{host}:80", load.Access(token=token))
    load.wait_for_routes(kubernetes, sender)
    return sender


def test_services_of_two_namespaces(kubernetes: Kubernetes, neighbour: Kubernetes) -> None:
    sender = _team(kubernetes, HOST, "ours")
    theirs = _team(neighbour, NEIGHBOUR, "theirs")
    with load.http(f"{NEIGHBOUR}:80", load.Access(token="ours")) as send:  # noqa: SIM117 - in two steps
        with pytest.raises(tritonclient.utils.InferenceServerException, match="token"):
            send()
    for each in (kubernetes, neighbour):
        assert _may_connect(each) == [
            # HTTP and gRPC: the ingress controller, and the namespace itself.
            {"ports": [8000, 8001], "namespaces": ["ingress"], "pods": [{}]},
            # Metrics: they expose no secrets, and this operator was installed without prometheusNamespace.
            {"ports": [8002], "namespaces": [], "pods": []},
        ]
    with load.running([theirs] * 2, rate=50) as result:
        kubernetes.delete("infsvc", "demo")
        kubernetes.wait("its route to end", lambda: not load.responds(sender))
    assert not result.failures


def _may_connect(kubernetes: Kubernetes) -> list[Object]:
    """Who may connect to the pods of the service `demo`, by the rules of its NetworkPolicy."""
    spec = (kubernetes.get("networkpolicy", "demo") or {})["spec"]
    assert spec["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "demo"
    found = []
    for rule in spec["ingress"]:
        peers = rule.get("from", [])
        spaces = [peer["namespaceSelector"]["matchLabels"] for peer in peers if "namespaceSelector" in peer]  # fmt: skip
        found.append(
            {
                "ports": [port["port"] for port in rule["ports"]],
                "namespaces": [labels["kubernetes.io/metadata.name"] for labels in spaces],
                "pods": [peer["podSelector"] for peer in peers if "namespaceSelector" not in peer],
            }
        )
    return found


def test_rights_and_secrets_end_at_the_namespace(
    kubernetes: Kubernetes, neighbour: Kubernetes
) -> None:
    kubernetes.run("create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice")
    kubernetes.apply(services.secret())
    neighbour.run("create", "secret", "generic", "theirs", "--from-literal=AWS_ACCESS_KEY_ID=x")
    made = services.service("demo")
    made["spec"]["predictor"]["model"]["storage"]["secretName"] = "theirs"
    _as(kubernetes, "alice", made)
    with pytest.raises(KubectlError, match="alice"):
        _as(neighbour, "alice", made)
    for user in ("alice", _OPERATOR):
        assert not _may(neighbour, user, "get", "secrets")
    assert _may(neighbour, _OPERATOR, "patch", "deployments")
    # A Secret of another namespace does not exist for a service, whatever its name.
    message = kubernetes.wait_condition(
        "demo", "Progressing", status="False", reason="CreateContainerConfigError"
    )
    assert "theirs" in message
    (pod,) = kubernetes.list("pods")
    assert not [each for each in pod["spec"]["volumes"] if "projected" in each], "no token of the API"  # fmt: skip
    _as(kubernetes, "alice", services.service("demo"))
    kubernetes.wait_ready("demo")


def test_a_team_without_the_right_to_a_pod_template(kubernetes: Kubernetes) -> None:
    """As the tutorial does it, with the rights of the chart that this cluster has."""
    for name, role in (("bob", "naiad-user"), ("carol", "naiad-editor")):
        kubernetes.run("create", "rolebinding", name, f"--clusterrole={role}", f"--user={name}")
    right = ("update", "inferenceservices.serving.naiad.dev", "--subresource=podtemplate")
    assert not _may(kubernetes, "bob", *right)
    assert _may(kubernetes, "carol", *right)
    assert not _may(kubernetes, "bob", "get", "secrets")
    kubernetes.apply(services.secret())
    made = services.service("demo")
    _as(kubernetes, "bob", made)
    kubernetes.wait_ready("demo")
    made["spec"]["predictor"]["podTemplate"] = {"metadata": {"annotations": {"a": "b"}}}
    with pytest.raises(KubectlError, match=r"podTemplate \(of .*\): bob may not set"):
        _as(kubernetes, "bob", made)
    _as(kubernetes, "carol", made)
    kubernetes.patch("infsvc", "demo", {"spec": {"predictor": {"replicas": 2}}})
    kubernetes.wait_ready("demo")


def _as(kubernetes: Kubernetes, user: str, manifest: Object) -> None:
    """`kubectl apply` by a user."""
    Kubernetes(kubernetes.namespace, user=user).apply(manifest)


def _may(kubernetes: Kubernetes, user: str, *right: str) -> bool:
    with contextlib.suppress(KubectlError):  # "no" is an exit status of 1
        return kubernetes.run("auth", "can-i", *right, f"--as={user}").strip() == "yes"
    return False


def test_an_operator_without_an_optional_group(kubernetes: Kubernetes, target: Target) -> None:
    made = services.service("demo", gateway=services.gateway(HOST))
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    sender = functools.partial(load.http, f"{HOST}:80")
    load.wait_for_routes(kubernetes, sender)
    with load.running([sender] * 2, rate=50) as result:
        with _without(_GATEWAY_GROUP, target):
            message = kubernetes.wait_condition(
                "demo", "NetworkReady", status="False", reason="WatchFailed"
            )
            assert f'add to its role: apiGroups: ["{_GATEWAY_GROUP}"]' in message
            assert _GATEWAY_GROUP in _health()
            # What needs no Gateway goes on.
            kubernetes.apply(services.service("other", ingress=services.ingress(NEIGHBOUR)))
            kubernetes.wait_ready("other")
            kubernetes.patch("infsvc", "demo", {"spec": {"predictor": {"replicas": 2}}})
            kubernetes.wait("two pods", lambda: _ready(kubernetes, "demo") == 2)
        kubernetes.wait_ready("demo")
        kubernetes.wait("health without a note", lambda: _health().strip() == "ok", seen=_health)
    assert not result.failures


def _ready(kubernetes: Kubernetes, name: str) -> int:
    """How many pods of a service are ready."""
    status = (kubernetes.get("deployment", name) or {}).get("status", {})
    return int(status.get("readyReplicas", 0))


@contextlib.contextmanager
def _without(group: str, target: Target) -> Iterator[None]:
    """An operator that started without its rules for a group; with the rule again afterwards."""
    system = Kubernetes("naiad-system")
    rules = (system.get("clusterrole", "naiad") or {})["rules"]
    system.patch("clusterrole", "naiad", {"rules": [each for each in rules if group not in each["apiGroups"]]})  # fmt: skip
    try:
        system.run("delete", "pods", "--all")
        install.wait_for_deployments(target, "naiad-system/naiad")
        yield
    finally:
        system.patch("clusterrole", "naiad", {"rules": rules})


def _health() -> str:
    """What the operator's /healthz says."""
    pods = Kubernetes("naiad-system").list("pods")
    (address,) = [pod["status"]["podIP"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]  # fmt: skip
    with urllib.request.urlopen(f"http://{address}:8080/healthz", timeout=10) as response:
        text: str = response.read().decode()
    return text


def test_an_operator_of_one_namespace(
    kubernetes: Kubernetes, neighbour: Kubernetes, target: Target
) -> None:
    senders = [_team(kubernetes, HOST, "ours"), _team(neighbour, NEIGHBOUR, "theirs")]
    two = {"spec": {"predictor": {"replicas": 2}}}
    with load.running(senders, rate=50) as result:
        install_chart(target, f"watchNamespaces={{{kubernetes.namespace}}}")
        try:
            assert kubernetes.get("clusterrole", "naiad") is None
            assert not _may(neighbour, _OPERATOR, "list", "pods")
            for each in (kubernetes, neighbour):
                each.patch("infsvc", "demo", two)
            kubernetes.wait_ready("demo")
            assert len(kubernetes.list("pods")) == 2
            assert len(neighbour.list("pods")) == 1
        finally:
            install_chart(target)
        neighbour.wait_ready("demo")
        assert len(neighbour.list("pods")) == 2
    assert not result.failures
