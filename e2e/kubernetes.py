"""A user's view of the cluster of `$KUBECONFIG`: kubectl, and waiting with a reason."""

import contextlib
import json
import time
import typing
from collections.abc import Callable, Iterator, Sequence

from e2e import kubectl
from e2e.kubectl import KubectlError
from tests.toolchain import programs

__all__ = ["KubectlError", "Kubernetes", "NotInTimeError", "Object", "condition_of"]

Object = dict[str, typing.Any]


class NotInTimeError(AssertionError):
    """A condition did not hold in time; the message says what was seen last."""


class Kubernetes:
    """One namespace of a cluster.

    Args:
        namespace: where the objects of a test are.
        user: in whose name requests are sent; "": the administrator's.
    """

    def __init__(self, namespace: str, *, user: str = "") -> None:
        self.namespace = namespace
        self._as = [f"--as={user}"] if user else []
        self._program = programs.find(["kubectl"])["kubectl"]

    def run(self, *arguments: str, text: str = "") -> str:
        """The output of kubectl in the namespace.

        Raises:
            KubectlError: it failed.
        """
        command = [self._program, "-n", self.namespace, *self._as, *arguments]
        return kubectl.output(command, arguments, text)

    def apply(self, *manifests: Object) -> None:
        """`kubectl apply`."""
        self.run("apply", "-f", "-", text=json.dumps(_listed(manifests)))

    def get(self, kind: str, name: str) -> Object | None:
        """An object; None if it does not exist."""
        text = self.run("get", kind, name, "-o", "json", "--ignore-not-found")
        return typing.cast("Object", json.loads(text)) if text else None

    def list(self, kind: str, selector: str = "") -> "list[Object]":
        """The objects of a kind."""
        wanted = ["-l", selector] if selector else []
        items: list[Object] = json.loads(self.run("get", kind, *wanted, "-o", "json"))["items"]
        return items

    def patch(self, kind: str, name: str, change: Object, *, subresource: str = "") -> None:
        """A JSON merge patch."""
        extra = [f"--subresource={subresource}"] if subresource else []
        self.run("patch", kind, name, "--type=merge", *extra, "-p", json.dumps(change))

    def delete(self, kind: str, name: str) -> None:
        """Deletes an object and waits until it is gone."""
        self.run("delete", kind, name, "--wait=true", "--timeout=60s")

    def condition(self, name: str, kind: str = "Ready") -> Object:
        """A condition of an InferenceService; {} when it has none yet."""
        return condition_of(self.get("infsvc", name) or {}, kind)

    @contextlib.contextmanager
    def drained(self, node: str) -> Iterator[None]:
        """A node without the pods of services, for a context."""
        try:
            self.run("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=app.kubernetes.io/name", "--timeout=90s")  # fmt: skip
            yield
        finally:
            self.run("uncordon", node)

    def wait_ready(self, name: str, *, timeout: float = 90) -> None:
        """Waits until an InferenceService is Ready for its newest generation."""

        def ready() -> bool:
            service = self.get("infsvc", name) or {}
            generation = service.get("metadata", {}).get("generation")
            condition = self.condition(name)
            seen = condition.get("observedGeneration") == generation
            return seen and condition.get("status") == "True"

        self.wait(f"{name} Ready", ready, seen=lambda: self.condition(name), timeout=timeout)

    def wait_condition(
        self, name: str, kind: str, *, status: str, reason: str, timeout: float = 90
    ) -> str:
        """Waits until a condition has a status and a reason; its message."""

        def holds() -> bool:
            condition = self.condition(name, kind)
            return (condition.get("status"), condition.get("reason")) == (status, reason)

        subject = f"{name} {kind}={status}/{reason}"
        self.wait(subject, holds, seen=lambda: self.condition(name, kind), timeout=timeout)
        return str(self.condition(name, kind).get("message", ""))

    def wait(
        self,
        subject: str,
        condition: Callable[[], bool],
        *,
        seen: Callable[[], object] = lambda: "",
        timeout: float = 60,
    ) -> None:
        """Waits until a condition holds.

        Args:
            subject: what is waited for, for the message.
            condition: the condition; a `KubectlError` counts as "not yet".
            seen: what the message shows of the state.
            timeout: in seconds.

        Raises:
            NotInTimeError: it does not hold in time.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                if condition():
                    return
            except KubectlError:
                pass
            if time.monotonic() > deadline:
                raise NotInTimeError(f"{subject}: not in {timeout:g} s; last seen: {seen()}")
            time.sleep(0.1)


def condition_of(item: Object, kind: str) -> Object:
    """A condition in the status of an object; {} when it has none of this type."""
    conditions = item.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind), {})


def _listed(manifests: Sequence[Object]) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
