"""Whether the status of an InferenceService is true: what it says, beside what the cluster shows."""

import os
import time

from e2e.kubernetes import Kubernetes, condition_of

WITHIN_S = 30
"""How soon after a fault the status must be true."""
LONGEST_WAIT_S = 120
"""How long it is waited for on a machine that has other things to do."""
_BUSY = 4
"""The load average per core from which it has; the cluster alone has about two."""


def hold(what: str, seconds: float, limit: float) -> None:
    """Prints how long something took, and holds it to a limit unless the machine is busy: its seconds say nothing then.

    Args:
        what: e.g. "two pods serve".
        seconds: what it took.
        limit: in seconds.
    """
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    print(f"{what}: {seconds:.1f} s of {limit:g} s (load {load:.0f} on {cores} cores)")
    assert seconds <= limit or load > _BUSY * cores, f"{what}: {seconds:.1f} s"


def untrue(kubernetes: Kubernetes, name: str) -> list[str]:
    """What the status says and the cluster does not show; [] when it is true."""
    service = kubernetes.get("infsvc", name) or {}
    deployment = kubernetes.get("deployment", name) or {}
    pods = [
        pod for pod in kubernetes.list("pods") if condition_of(pod, "Ready").get("status") == "True"
    ]
    status, shown = service.get("status", {}), deployment.get("status", {})
    wanted = deployment["spec"]["replicas"]
    complete = shown.get("observedGeneration") == deployment["metadata"]["generation"] and all(
        shown.get(field) == wanted for field in ("replicas", "updatedReplicas", "availableReplicas")
    )
    pairs = {
        "observedGeneration": service["metadata"]["generation"],
        "replicas": shown.get("replicas", 0),
        "updatedReplicas": shown.get("updatedReplicas", 0),
        "availableReplicas": shown.get("availableReplicas", 0),
        "readyReplicas": len(pods),
    }
    found = [f"{field} {status.get(field)}, is {value}" for field, value in pairs.items() if status.get(field) != value]  # fmt: skip
    ready, available = (
        condition_of(service, kind).get("status") for kind in ("Ready", "Available")
    )
    if (ready == "True") != complete:
        found.append(f"Ready {ready}, the Deployment: {shown}")
    if (available == "True") != (shown.get("availableReplicas", 0) > 0):
        found.append(f"Available {available}, the Deployment: {shown}")
    return found


def wait(kubernetes: Kubernetes, name: str, *, since: str) -> None:
    """Waits until the status is true, and then until the service is Ready; prints after how many seconds that was.

    Args:
        kubernetes: the namespace.
        name: of the service.
        since: what has just happened, e.g. "an edit".

    Raises:
        NotInTimeError: the status does not become true, or the service not Ready.
        AssertionError: it did not within `WITHIN_S`, and the machine is not busy.
    """
    started = time.monotonic()
    kubernetes.wait(
        f"a status of {name} that is true",
        lambda: not untrue(kubernetes, name),
        seen=lambda: untrue(kubernetes, name),
        timeout=LONGEST_WAIT_S,
    )
    hold(f"a true status after {since}", time.monotonic() - started, WITHIN_S)
    kubernetes.wait_ready(name, timeout=LONGEST_WAIT_S)
    print(f"Ready {time.monotonic() - started:.1f} s after {since}")
