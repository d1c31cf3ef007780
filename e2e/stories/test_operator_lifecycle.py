"""Story g: the operator is killed, uninstalled and installed again; services go on serving, and no pod restarts."""

import functools

from e2e import load, services
from e2e.addons import install
from e2e.addons.target import Target
from e2e.demo import install_chart
from e2e.kubernetes import Kubernetes

HOST = "demo.example.com"


def test_services_go_on_without_the_operator(kubernetes: Kubernetes, target: Target) -> None:
    made = services.service("demo", ingress=services.ingress(HOST))
    kubernetes.apply(services.secret(), made)
    kubernetes.wait_ready("demo")
    sender = functools.partial(load.http, f"{HOST}:80")
    load.wait_for_routes(kubernetes, sender)
    before = [pod["metadata"]["name"] for pod in kubernetes.list("pods")]
    system = Kubernetes("naiad-system")
    with load.running([sender] * 4, rate=100) as result:
        system.run("delete", "pods", "--all", "--grace-period=0", "--force")
        install.wait_for_deployments(target, "naiad-system/naiad")
        install.helm(target, "uninstall", "naiad", "-n", "naiad-system", "--wait")
        # An edit while there is no operator.
        kubernetes.patch("infsvc", "demo", {"spec": {"predictor": {"replicas": 2}}})
        install_chart(target)
        kubernetes.wait_ready("demo")
    assert not result.failures
    after = [pod["metadata"]["name"] for pod in kubernetes.list("pods")]
    assert set(before) < set(after), "the first pod stayed, and the edit added another"
