"""`kubectl wait` itself, on a new, a changed and a broken service: it ends when the operator has carried out the last edit, and not before."""

import contextlib
import subprocess
import threading
import typing

import pytest

from tests.apiserver import kubelet as kubelets
from tests.apiserver.client import Kubectl, Object, until
from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import condition, inference_service, make_namespace
from tests.operator.live.conftest import Start
from tests.toolchain.programs import find

_TIMEOUT_S = 100
Wait = typing.Callable[..., "Waiting"]


class Waiting:
    """A running `kubectl wait`."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def met(self) -> str:
        """Waits for its end; what it printed. Fails if the condition was not met."""
        printed, _ = self._process.communicate(timeout=_TIMEOUT_S + 20)
        assert self._process.returncode == 0, printed
        return printed

    def end(self) -> None:
        """Ends it if it still runs."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def wait(plane: ControlPlane, namespace: str) -> typing.Iterator[Wait]:
    """Starts `kubectl wait --for=condition=…` for a service."""
    started: list[Waiting] = []
    program = find(["kubectl"])["kubectl"]
    config = f"--kubeconfig={plane.kubeconfig(ADMIN_TOKEN)}"

    def one(name: str, *conditions: str, timeout: str = f"{_TIMEOUT_S}s") -> Waiting:
        wanted = [f"--for=condition={each}" for each in conditions]
        command = [program, config, "wait", "-n", namespace, f"infsvc/{name}", *wanted]
        started.append(Waiting([*command, f"--timeout={timeout}"]))
        return started[-1]

    yield one
    for waiting in started:
        waiting.end()


@contextlib.contextmanager
def node(kubelet: Kubelet, namespace: str, become: kubelets.Say | None = None) -> typing.Iterator[None]:  # fmt: skip
    """Plays the node as long as the block runs."""
    ended = threading.Event()

    def play() -> None:
        while not ended.wait(0.2):
            kubelet.step(namespace, become=become)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    yield
    ended.set()
    thread.join()


def no_image(pod: Object) -> Object:
    """The image of the pod cannot be pulled."""
    return kubelets.waiting(pod, reason="ImagePullBackOff", message="no such image")


@pytest.mark.usefixtures("operator")
def test_a_new_a_changed_and_a_broken_service_are_waited_for(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str, wait: Wait
) -> None:
    kubectl.create(inference_service("demo", namespace))
    ready, sound = wait("demo", "Ready"), wait("demo", "Stalled=false")
    sound.met()
    assert not ready.is_over, "no pod is ready yet"
    with node(kubelet, namespace):
        ready.met()
    # An edit: what was true of the spec before does not count.
    edit: Object = {"spec": {"predictor": {"env": [{"name": "A", "value": "1"}]}}}
    kubectl.patch("InferenceService", "demo", namespace, body=edit)
    changed = wait("demo", "Ready")
    wait("demo", "Progressing").met()
    assert not changed.is_over
    with node(kubelet, namespace):
        changed.met()
    # One that breaks it, and its correction.
    wrong: Object = {"spec": {"predictor": {"image": "registry.example.com/none:1"}}}
    kubectl.patch("InferenceService", "demo", namespace, body=wrong)
    with node(kubelet, namespace, become=no_image):
        wait("demo", "Stalled", "Ready=false").met()
    correction: Object = {"spec": {"predictor": {"image": None}}}
    kubectl.patch("InferenceService", "demo", namespace, body=correction)
    with node(kubelet, namespace):
        wait("demo", "Ready", "Stalled=false", "Progressing=false").met()


@pytest.mark.usefixtures("operator")
def test_an_invalid_spec_is_seen_at_its_own_generation(
    kubectl: Kubectl, kubelet: Kubelet, namespace: str, wait: Wait
) -> None:
    kubectl.create(inference_service("bad", namespace))
    with node(kubelet, namespace):
        wait("bad", "Ready").met()
        wrong: Object = {"spec": {"profile": "none-of-this-name"}}
        kubectl.patch("InferenceService", "bad", namespace, body=wrong)
        wait("bad", "SpecValid=false", "Ready=false", "Stalled").met()
        service = kubectl.get("InferenceService", "bad", namespace)
        assert service["status"]["observedGeneration"] == service["metadata"]["generation"]
        kubectl.patch("InferenceService", "bad", namespace, body={"spec": {"profile": None}})
        wait("bad", "SpecValid", "Ready", "Stalled=false").met()


def test_without_an_operator_nothing_is_taken_for_done(
    kubectl: Kubectl, kubelet: Kubelet, start: Start, plane: ControlPlane
) -> None:
    """The conditions of the generation before an edit count for nothing while no operator has seen the edit."""
    alone = make_namespace(kubectl, "wait-alone")
    kubectl.create(inference_service("demo", alone))
    with start(f"--watch-namespaces={alone}").wait_ready() as operator, node(kubelet, alone):
        until("ready", lambda: _ready(kubectl, alone))
        operator.stop()
    edit: Object = {"spec": {"predictor": {"env": [{"name": "A", "value": "1"}]}}}
    kubectl.patch("InferenceService", "demo", alone, body=edit)
    command = [find(["kubectl"])["kubectl"], f"--kubeconfig={plane.kubeconfig(ADMIN_TOKEN)}", "wait", "-n", alone, "infsvc/demo"]  # fmt: skip
    for one in ("Ready", "Stalled=false"):
        finished = subprocess.run([*command, f"--for=condition={one}", "--timeout=1s"], capture_output=True, text=True, check=False)  # fmt: skip
        assert "timed out" in finished.stderr, one


def _ready(kubectl: Kubectl, namespace: str) -> bool:
    service = kubectl.get("InferenceService", "demo", namespace)
    return condition(service, "Ready").get("status") == "True"
