"""How many requests fail at 200 per second while pods are replaced, and while a node is drained."""

import time
from collections.abc import Callable

from benchmarks.cluster.report import Result
from e2e import load, services
from e2e.kubernetes import Kubernetes

_HOST = "demo.example.com"
_RATE = 200
_BEFORE_S, _AFTER_S = 2.0, 3.0


def measure(runs: int, say: Callable[[str], None]) -> list[Result]:
    """Runs each several times on one service of two pods, which gets HTTP, gRPC and streams of gRPC together. Streams that end with UNAVAILABLE do not count."""
    admin, demo = Kubernetes("default"), Kubernetes("bench-rates")
    admin.run("create", "namespace", demo.namespace)
    made = services.service("demo", replicas=2, ingress=services.ingress(_HOST))
    demo.apply(services.secret(), made)
    demo.wait_ready("demo")
    load.wait_for_routes(demo, *load.both(_HOST))
    results = []
    for name, work in (("a rolling update", _update), ("a drained node", _drain)):
        failed, sent, rates = [], 0, []
        for run in range(runs):
            started = time.monotonic()
            with load.running(load.mixed(_HOST, []), rate=_RATE) as outcome:
                time.sleep(_BEFORE_S)
                work(demo, run)
                time.sleep(_AFTER_S)
            rates.append(outcome.sent / (time.monotonic() - started))
            failed.append(float(len(outcome.failures)))
            sent += outcome.sent
            say(f"{name}: {len(outcome.failures)} of {outcome.sent} requests failed, {rates[-1]:.0f} per second {outcome.failures[:3] or ''}")  # fmt: skip
        results.append(Result(f"{name} at {_RATE} requests per second: failed requests (of {sent:,})", tuple(failed), unit="requests", bound=0))  # fmt: skip
        results.append(Result(f"{name}: requests per second", tuple(rates), unit="per second"))
    admin.run("delete", "namespace", demo.namespace, "--wait=true", "--timeout=90s")
    return results


def _update(demo: Kubernetes, run: int) -> None:
    env = [{"name": "RUN", "value": str(run)}]
    demo.patch("inferenceservice", "demo", {"spec": {"predictor": {"env": env}}})
    demo.wait_ready("demo")


def _drain(demo: Kubernetes, run: int) -> None:
    nodes = [item["metadata"]["name"] for item in demo.list("nodes")]
    node = nodes[run % len(nodes)]
    with demo.drained(node):
        demo.wait_ready("demo")
