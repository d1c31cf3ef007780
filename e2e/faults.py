"""What the stories of faults share: a service behind the ingress, light load on it, and the add-ons that a fault must not hit."""

import collections
import collections.abc
import contextlib
import functools
import json
import os
import pathlib
import signal
import time

from e2e import load, services
from e2e.addons import install
from e2e.cluster.cluster import Cluster
from e2e.cluster.layout import Node
from e2e.kubernetes import Kubernetes, Object, condition_of

HOST = "demo.example.com"
RATE = 50
SENDERS = 8
"""Connections, half of them gRPC's: as many requests may be on their way at once."""

_SYSTEM = "naiad-system"
_OTHER_HOST = "quickstart.example.com"


def service(kubernetes: Kubernetes, **predictor: object) -> None:
    """Makes the service `demo` and waits until it is Ready and its routes lead to it.

    Args:
        kubernetes: the namespace.
        predictor: fields of `spec.predictor`.
    """
    made = services.service(
        "demo", replicas=None, predictor=predictor, ingress=services.ingress(HOST)
    )
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    load.wait_for_routes(kubernetes, *load.both(HOST))


@contextlib.contextmanager
def requests(*, timeout: float = 20) -> collections.abc.Iterator[load.Result]:
    """Light load over HTTP and gRPC; at the end it prints what became of it.

    Args:
        timeout: of one request, in seconds.
    """
    http = functools.partial(load.http, f"{HOST}:80", timeout=timeout)
    grpc = functools.partial(load.grpc, f"grpc.{HOST}:80", timeout=timeout)
    with load.running([http, grpc] * (SENDERS // 2), rate=RATE) as result:
        time.sleep(1)
        assert result.sent, "no request has ended"
        assert not result.failures, f"before the fault: {result.failures[:5]}"
        yield result
        time.sleep(1)
    failed = [at for at, _ in result.failures]
    between = f", between {failed[0]:.1f} and {failed[-1]:.1f} s" if failed else ""
    print(f"{len(failed)} of {result.sent} requests failed{between}; the slowest took {result.slowest:.2f} s")  # fmt: skip


def edit(kubernetes: Kubernetes, **predictor: object) -> None:
    """Changes fields of `spec.predictor`."""
    kubernetes.patch("infsvc", "demo", {"spec": {"predictor": predictor}})


def wait_for_ingress_controller(kubernetes: Kubernetes) -> None:
    """Waits until the ingress controller notices changes again: another Service of the same pods gets requests.

    Its watches are opened again with growing pauses, up to a minute after the API server is back. What it knows until then is the state of before.
    """
    spec = (kubernetes.get("service", "demo") or {})["spec"]
    ports = [{key: port[key] for key in ("name", "port", "targetPort")} for port in spec["ports"]]
    wanted = {"selector": spec["selector"], "ports": ports}
    backend = {"service": {"name": "again", "port": {"name": "http"}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    kubernetes.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "again"}, "spec": wanted},
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": "again"},
            "spec": {
                "ingressClassName": "traefik",
                "rules": [{"host": _OTHER_HOST, "http": {"paths": [path]}}],
            },
        },
    )
    began = time.monotonic()
    sender = functools.partial(load.http, f"{_OTHER_HOST}:80")
    kubernetes.wait("the ingress controller's watches", lambda: load.responds(sender), timeout=120)
    print(f"the ingress controller notices changes {time.monotonic() - began:.1f} s later")
    kubernetes.delete("ingress", "again")


def pods_by_node(kubernetes: Kubernetes) -> dict[str, list[str]]:
    """The names of the service's serving pods, by node."""
    found = collections.defaultdict[str, list[str]](list)
    for pod in kubernetes.list("pods"):
        is_ready = condition_of(pod, "Ready").get("status") == "True"
        if is_ready and "deletionTimestamp" not in pod["metadata"]:
            found[pod["spec"]["nodeName"]].append(pod["metadata"]["name"])
    return dict(found)


def serving(kubernetes: Kubernetes) -> int:
    """How many pods of the service serve."""
    return sum(map(len, pods_by_node(kubernetes).values()))


def restarts(pod: "Object | None") -> int:
    """How often the containers of a pod were started again."""
    states = ((pod or {}).get("status") or {}).get("containerStatuses", [])
    return sum(state["restartCount"] for state in states)


def operator_pods() -> list[Object]:
    """The pods of the operator."""
    return Kubernetes(_SYSTEM).list("pods")


def restarts_of_operator() -> int:
    """How often the operator was started again in its present pods."""
    return sum(map(restarts, operator_pods()))


def errors_of_operator() -> list[str]:
    """What the operator has logged as an error."""
    system = Kubernetes(_SYSTEM)
    logs = [system.run("logs", pod["metadata"]["name"]) for pod in operator_pods()]
    entries = [json.loads(line) for log in logs for line in log.splitlines()]
    return [entry["message"] for entry in entries if entry["level"] == "error"]


@contextlib.contextmanager
def cordoned(*nodes: Node) -> collections.abc.Iterator[None]:
    """Nodes that get no further pods for the length of a context."""
    admin = Kubernetes(_SYSTEM)
    for node in nodes:
        admin.run("cordon", node.name)
    try:
        yield
    finally:
        for node in nodes:
            admin.run("uncordon", node.name)


def move_operator(cluster: Cluster, node: Node) -> None:
    """Moves the operator to a node, without binding it to that."""
    with cordoned(*(other for other in cluster.nodes if other != node)):
        Kubernetes(_SYSTEM).run("delete", "pods", "--all")
        install.wait_for_deployments(cluster, f"{_SYSTEM}/naiad")


def spare_node(cluster: Cluster) -> Node:
    """The node that a story may end: the ingress controller and the object store, of which there is one each, prefer the other."""
    node = cluster.nodes[1]
    for namespace in ("ingress", "store"):
        for pod in Kubernetes(namespace).list("pods"):
            where = pod["spec"]["nodeName"]
            assert where != node.name, f"{pod['metadata']['name']} runs on {where}, which this story ends"  # fmt: skip
    return node


def crash(pod: Object) -> None:
    """Ends the server's first process as a crash does: by a signal from outside, which it cannot handle."""
    uid = pod["metadata"]["uid"]
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if uid in (process / "cgroup").read_text() and b"serve" in (process / "cmdline").read_bytes():  # fmt: skip
                os.kill(int(process.name), signal.SIGKILL)
                return
    raise AssertionError(f"no server of pod {uid} is a process of this machine")
