"""From `kubectl apply` of the example with magika in S3 until its first answer through the ingress, and the operator's share of that.

The share is from the creation of the InferenceService to that of its Deployment, and from the pod's readiness to the service's, as watches of
the API server see these. The rest is Kubernetes, the server's start with its models, and the ingress controller.
"""

import pathlib
import subprocess
import threading
import time
from collections.abc import Callable

import numpy as np
import tritonclient.http

from benchmarks.cluster.report import Result
from e2e.kubernetes import Kubernetes
from tests.toolchain import programs

_EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "quickstart.yaml"
_NAME, _HOST = "quickstart", "quickstart.example.com:80"
_READY = '{.status.conditions[?(@.type=="Ready")].status}'
_GIVE_UP_S = 120
_INPUT_LENGTH = 2048


class Watch:
    """Notes when an object of a kind was first seen, and when it was first Ready.

    Args:
        namespace: where.
        kind: of the objects.

    Attributes:
        seen: when the first object was seen; None before. Monotonic seconds, as `ready`.
        ready: when the first object was Ready.
    """

    def __init__(self, namespace: str, kind: str) -> None:
        self.seen: float | None = None
        self.ready: float | None = None
        kubectl = programs.find(["kubectl"])["kubectl"]
        line = "{.metadata.name} " + _READY + '{"\\n"}'
        command = [kubectl, "-n", namespace, "get", kind, "--watch", "-o", f"jsonpath={line}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own words
        threading.Thread(target=self._read, daemon=True).start()

    def stop(self) -> None:
        """Ends the watch."""
        self._process.terminate()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            now = time.monotonic()
            self.seen = self.seen or now
            if line.split()[-1] == "True":
                self.ready = self.ready or now


def measure(runs: int, say: Callable[[str], None]) -> list[Result]:
    """Applies the example in a namespace of its own and deletes it, several times."""
    results = [_once(number, say) for number in range(runs)]
    totals, shares = zip(*results, strict=True)
    return [
        Result("`kubectl apply` → first answer (images present, magika in S3)", totals, bound=20),
        Result("the operator's share of it", shares, bound=1),
    ]


def _once(number: int, say: Callable[[str], None]) -> tuple[float, float]:
    """The seconds until the first answer, and the operator's share."""
    kubernetes = Kubernetes(f"bench-{number}")
    admin = Kubernetes("default")
    admin.run("create", "namespace", kubernetes.namespace)
    kinds = ("inferenceservices", "deployments", "pods")
    watches = {kind: Watch(kubernetes.namespace, kind) for kind in kinds}
    time.sleep(1)  # the watches are open
    started = time.monotonic()
    kubernetes.run("apply", "-f", str(_EXAMPLE))
    service, deployment, pod = (watches[kind] for kind in kinds)
    kubernetes.wait("Ready", lambda: service.ready is not None, timeout=_GIVE_UP_S)
    kubernetes.wait("the first answer", _answers, timeout=_GIVE_UP_S)
    total = time.monotonic() - started
    for watch in watches.values():
        watch.stop()
    begin, end = _between(service.seen, deployment.seen), _between(pod.ready, service.ready)
    # The two watches race when the operator is quicker than one line of a watch.
    share = max(0.0, begin) + max(0.0, end)
    say(f"first answer {total:.2f} s: Deployment after {begin:.2f} s, pod Ready {_between(started, pod.ready):.2f} s after apply, service {end:.2f} s later")  # fmt: skip
    admin.run("delete", "namespace", kubernetes.namespace, "--wait=true", "--timeout=90s")
    return total, share


def _between(begin: float | None, end: float | None) -> float:
    assert begin is not None
    assert end is not None
    return end - begin


def _answers() -> bool:
    """Whether the model answers through the ingress; the route may not be there yet."""
    client = tritonclient.http.InferenceServerClient(_HOST)
    tensor = tritonclient.http.InferInput("bytes", [1, _INPUT_LENGTH], "INT32")
    tensor.set_data_from_numpy(np.zeros((1, _INPUT_LENGTH), dtype=np.int32))
    try:
        return bool(client.infer("magika", [tensor]).as_numpy("target_label").size)
    except (tritonclient.utils.InferenceServerException, OSError):
        return False
    finally:
        client.close()
