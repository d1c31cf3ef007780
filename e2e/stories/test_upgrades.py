"""Story g: the operator is upgraded to a release that gives pods another template, and a service pins an older server."""

import contextlib
import functools
import json
import subprocess
import threading
from collections.abc import Iterator

import pytest

from e2e import load, services
from e2e.addons import install
from e2e.addons.target import Target
from e2e.cluster.cluster import Cluster
from e2e.demo import IMAGES, ROOT, install_chart, version
from e2e.imagebuild import releases
from e2e.imagebuild.build import Images
from e2e.imagebuild.releases import LATER_OPERATOR, OLDER_SERVER, REMOVED_OPTION
from e2e.kubernetes import KubectlError, Kubernetes, Object
from tests.toolchain import programs

HOST, OTHER_HOST = "demo.example.com", "quickstart.example.com"
NAMES = ("a", "b", "c")
_SAMPLE_S = 0.2
_STARTS_S = 240
"""Three services that start at once have the time of a slow machine."""


@pytest.fixture(scope="module")
def others(target: Target) -> None:
    """The images of the other releases, each a layer on this tree's image; a cluster of the user's has them already."""
    if isinstance(target, Cluster):
        with Images(ROOT, IMAGES) as images:
            releases.provide(target, images, ROOT)


@pytest.fixture
def upgraded(target: Target, others: None) -> Iterator[functools.partial[None]]:
    """What runs `helm upgrade` to the later release; at the end the operator is this tree's again."""
    yield functools.partial(install_chart, target, f"image.tag={LATER_OPERATOR.version}")
    install_chart(target)


def test_an_older_server_gets_only_options_that_it_knows(
    kubernetes: Kubernetes, target: Target, others: None
) -> None:
    """The version is in the image's tag, so the operator knows it before the first pod runs."""
    older = services.service("demo", predictor={"image": target.image(OLDER_SERVER.image)})
    kubernetes.apply(services.secret(), older)
    kubernetes.wait_ready("demo")
    first = _pods(kubernetes)
    sender = functools.partial(load.http, f"demo.{kubernetes.namespace}.svc.cluster.local:8000")
    load.wait_for_routes(kubernetes, sender)
    with load.running([sender], rate=20) as result:
        # A field that needs a newer server is refused with what to do, and the pods stay.
        _edit(kubernetes, readiness={"policy": "any"})
        message = kubernetes.wait_condition(
            "demo", "SpecValid", status="False", reason="InvalidSpec"
        )
        assert "spec.predictor.readiness" in message
        assert f"this one counts as {OLDER_SERVER.version}" in message
        # What the operator has spared the pods: a server that is said to be newer than it is ends with the option.
        _edit(kubernetes, serverVersion=version())
        message = kubernetes.wait_condition(
            "demo", "Progressing", status="False", reason="CrashLoopBackOff"
        )
        assert REMOVED_OPTION in message
        assert first <= _pods(kubernetes), "the pod that serves stays until another does"
        _edit(kubernetes, readiness=None, serverVersion=None)
        kubernetes.wait_ready("demo", timeout=120)
    assert not result.failures, result.failures[:5]


def test_an_upgrade_restarts_one_service_at_a_time_and_pauses_at_one_that_fails(
    kubernetes: Kubernetes, target: Target, upgraded: functools.partial[None]
) -> None:
    kubernetes.apply(services.secret(), _settings(), *_three(target))
    for name in NAMES:
        kubernetes.wait_ready(name, timeout=_STARTS_S)
    senders = [functools.partial(load.http, f"{host}:80") for host in (HOST, OTHER_HOST)]
    load.wait_for_routes(kubernetes, *senders)
    before = _pods(kubernetes)

    # The new release says what it would restart, and does nothing.
    status, text = _plan(kubernetes, target)
    assert status == 3
    for name in NAMES:
        assert f"{kubernetes.namespace}/{name}: would restart its pods\n  spec.containers[server].env[RELEASE]: nothing →" in text  # fmt: skip
    assert _pods(kubernetes) == before

    # Running pods do not notice; a new one of b would not start.
    kubernetes.delete("configmap", "settings")
    with load.running(senders * 2, rate=100) as result, _one_at_a_time(kubernetes) as order:
        upgraded()
        kubernetes.wait_condition(
            "b", "Upgraded", status="False", reason="UpgradeFailed", timeout=_STARTS_S
        )
        assert kubernetes.condition("a", "Upgraded")["reason"] == "Current"
        message = kubernetes.wait_condition("c", "Upgraded", status="False", reason="UpgradePaused")
        assert f"because {kubernetes.namespace}/b" in message
        assert _releases(kubernetes) == {"a": "0.9.0", "b": "0.9.0", "c": ""}
        # Fixed, it goes on by itself.
        kubernetes.apply(_settings())
        for name in NAMES:
            kubernetes.wait_condition(name, "Upgraded", status="True", reason="Current", timeout=_STARTS_S)  # fmt: skip
            kubernetes.wait_ready(name, timeout=_STARTS_S)
    assert not result.failures, result.failures[:5]
    assert order == ["a", "b", "c"]
    assert set(_releases(kubernetes).values()) == {"0.9.0"}
    kubernetes.wait("the old pods gone", lambda: not before & _pods(kubernetes))


def _three(target: Target) -> list[Object]:
    """Two services under load, of which one pins an older server, and one that needs a ConfigMap."""
    settings = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
    older = {"image": target.image(OLDER_SERVER.image)}
    return [
        services.service("a", ingress=services.ingress(HOST)),
        services.service("b", predictor=settings),
        services.service("c", predictor=older, ingress=services.ingress(OTHER_HOST)),
    ]


def _settings() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"COLOUR": "blue"},
    }


def _edit(kubernetes: Kubernetes, **fields: object) -> None:
    kubernetes.patch("infsvc", "demo", {"spec": {"predictor": fields}})


def _pods(kubernetes: Kubernetes) -> set[str]:
    return {pod["metadata"]["name"] for pod in kubernetes.list("pods")}


def _releases(kubernetes: Kubernetes) -> dict[str, str]:
    """By service, the variable that the later release gives its pods."""
    found = {}
    for deployment in kubernetes.list("deployments"):
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        values = [one["value"] for one in container["env"] if one["name"] == "RELEASE"]
        found[deployment["metadata"]["name"]] = "".join(values)
    return found


def _plan(kubernetes: Kubernetes, target: Target) -> tuple[int, str]:
    """`naiad-operator plan` of the later release, as docs/operator.md runs it: the exit status, and what it prints of the namespace."""
    kubectl = programs.find(["kubectl"])["kubectl"]
    override = json.dumps({"spec": {"serviceAccountName": "naiad"}})
    command = ["-n", "naiad-system", "run", "plan", "--rm", "-i", "--restart=Never", f"--image={target.image(LATER_OPERATOR.image)}", f"--overrides={override}"]  # fmt: skip
    options = [f"--default-image={install.server_image(kubernetes.run)}", f"--watch-namespaces={kubernetes.namespace}"]  # fmt: skip
    ended = subprocess.run([kubectl, *command, "--", "plan", *options], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


@contextlib.contextmanager
def _one_at_a_time(kubernetes: Kubernetes) -> Iterator[list[str]]:
    """The services in the order in which they began to replace pods; fails at the end if two did so at once."""
    order: list[str] = []
    together: list[list[str]] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_SAMPLE_S):
            with contextlib.suppress(KubectlError):
                progressing = [one["metadata"]["name"] for one in kubernetes.list("deployments") if _progresses(one)]  # fmt: skip
                order.extend(name for name in progressing if name not in order)
                if len(progressing) > 1:
                    together.append(progressing)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield order
    finally:
        ended.set()
        thread.join()
    assert not together


def _progresses(deployment: Object) -> bool:
    """Whether pods of a Deployment are being replaced. Its generation says nothing: each annotation that the operator writes raises it."""
    wanted, status = deployment["spec"]["replicas"], deployment["status"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return counts != [wanted] * 3
