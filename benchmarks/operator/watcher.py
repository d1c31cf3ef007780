"""What happens in the cluster of the benchmark, seen by watches of its own, and when nothing happens any more."""

import contextlib
import json
import threading
import time

import httpx

from tests.apiserver.audit import AuditLog
from tests.apiserver.client import Kubectl, Object, path_of

_WATCH_AGAIN_S = 0.1
SETTLED_S = 5.0
GIVE_UP_S = 600.0


class Watcher:
    """Counts objects and their changes, by a watch of its own in a thread, until it is stopped.

    One that went on when its control plane is gone would ask again and again, and take the processor from what is measured next.
    """

    def __init__(self, kubectl: Kubectl, kind: str, namespace: str) -> None:
        self.names: set[str] = set()
        self.rolling: set[str] = set()
        """Those that Kubernetes' controllers still work on; of other kinds than Deployments none."""
        self._heard: dict[str, tuple[str, threading.Event]] = {}
        self._kubectl, self._path = kubectl, path_of(kind, namespace)
        self._stopped = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def expect(self, name: str, text: str) -> threading.Event:
        """Set once an object's newest version holds a text."""
        event = threading.Event()
        self._heard[name] = (text, event)
        return event

    def stop(self) -> None:
        """Asks no more, once the present watch ends."""
        self._stopped.set()

    def _run(self) -> None:
        version = "0"
        while not self._stopped.wait(_WATCH_AGAIN_S):
            query = f"?watch=true&resourceVersion={version}&timeoutSeconds=600"
            with (
                contextlib.suppress(httpx.HTTPError),
                self._kubectl.lines(self._path + query) as lines,
            ):
                for line in lines:
                    version = self._take(line) or version

    def _take(self, line: str) -> str:
        event = json.loads(line)
        metadata = event["object"].get("metadata") or {}
        name = metadata.get("name") or ""
        if name:
            self.names.add(name)
            (self.rolling.add if is_rolling(event["object"]) else self.rolling.discard)(name)
        text, heard = self._heard.get(name, ("", None))
        if heard is not None and text in line:
            heard.set()
        version: str = metadata.get("resourceVersion") or ""
        return version


def is_rolling(resource: Object) -> bool:
    """Whether it is a Deployment whose controllers have not done all that they can do without nodes.

    They replace pods one by one, and wait for the first new one to become ready, which it does not.
    """
    if resource["kind"] != "Deployment":
        return False
    spec, status = resource["spec"], resource.get("status") or {}
    seen = (status.get("observedGeneration") or 0) >= resource["metadata"]["generation"]
    return not (
        seen and status.get("replicas") == spec["replicas"] and status.get("updatedReplicas")
    )


def settle(
    log: AuditLog,
    deployments: Watcher,
    *,
    seconds: float = SETTLED_S,
    give_up: float = GIVE_UP_S,
) -> None:
    """Waits until no Deployment is rolling out and the operator has not written since then for some seconds.

    Raises:
        TimeoutError: that did not come.
    """
    count, since = log.write_count(), time.monotonic()
    started = since
    while time.monotonic() - since < seconds:
        time.sleep(min(0.25, seconds))
        now = log.write_count()
        if now != count or deployments.rolling:
            count, since = now, time.monotonic()
        if time.monotonic() - started > give_up:
            raise TimeoutError(f"no rest; still rolling out: {sorted(deployments.rolling)[:5]}")
