"""What a model may ask of the server that runs it: other models, their loading, metrics of its own (rows 15.20 to 15.26).

A seam. A thread host answers by calling the server's event loop, a worker process by sending frames over its socket; everything
that models see is written once, over this.
"""

import queue
from collections.abc import Callable
from typing import Any, Protocol

from naiad.backends.python.api.errors import TritonModelException
from naiad.backends.python.api.response import InferenceResponse


class Deliver(Protocol):
    """Takes responses."""

    def __call__(self, response: InferenceResponse, final: bool) -> None:  # noqa: FBT001 - a callback
        """Take one, and whether it is the last. In any thread; does not wait."""


class Asked:
    """What a model asks of another model.

    Attributes:
        id: the model's own name for it; "" for none.
        correlation_id: the sequence it belongs to; 0 or "" for none.
        flags: sequence flags.
        timeout_us: microseconds it may wait in the queue; 0 for no limit.
        parameters: by name.
        output_names: names, sorted; empty means all.
        inputs: pb_utils tensors.
        model_name: whom to ask.
        model_version: -1 for the newest.
        preferred_memory: where outputs shall be.
        trace: the trace it belongs to.
    """

    __slots__ = (
        "correlation_id", "flags", "id", "inputs", "model_name", "model_version", "output_names", "parameters",
        "preferred_memory", "timeout_us", "trace",
    )  # fmt: skip

    id: str
    correlation_id: "int | str"
    flags: int
    timeout_us: int
    parameters: "dict[str, Any]"
    output_names: "list[str]"
    inputs: "list[Any]"
    model_name: str
    model_version: int
    preferred_memory: Any
    trace: Any


class Server(Protocol):
    """The server. Every method may be called in any thread of a model; all but `infer` wait."""

    def infer(
        self, outgoing: Asked, *, caller: Any, decoupled: bool, deliver: Deliver
    ) -> "Callable[[], None]":
        """Ask another model; gives back what cancels the request.

        Args:
            outgoing: the request; its tensors may change once this returns, unless the caller's thread waits for the one response.
            caller: the `context.Running` whose code calls; None when it is not known.
            decoupled: any number of responses is fine.
            deliver: called with each response, failures included (row 15.21), and whether it is the last.

        Raises:
            TritonModelException: it cannot even be sent.
        """

    def infer_and_wait(self, outgoing: Asked, *, caller: Any) -> InferenceResponse:
        """Ask a model that has one response, and wait for it; otherwise as `infer`."""

    def load_model(self, name: str, config: str, files: "dict[str, bytes]", *, caller: Any) -> None:
        """Load a model. Raises TritonModelException with the server's own words."""

    def unload_model(self, name: str, *, unload_dependents: bool, caller: Any) -> None:
        """Unload a model. Raises TritonModelException with the server's own words."""

    def model_ready(self, name: str, version: int) -> bool:
        """Whether a model is ready; version -1 for the newest."""

    def open_family(self, name: str, description: str, kind: str) -> int:
        """A metric family; `kind` is counter, gauge or histogram. Raises TritonModelException: the name is another kind's."""

    def close_family(self, family: int) -> None:
        """Remove a family whose last reference is gone, with its metrics. Does not wait."""

    def open_metric(
        self, family: int, labels: "dict[str, str]", buckets: "list[float] | None"
    ) -> int:
        """A metric of a family. Raises TritonModelException."""

    def change_metric(self, metric: int, operation: str, value: float) -> None:
        """`operation` is increment, set or observe. Raises TritonModelException: the kind does not have it."""

    def metric_value(self, metric: int) -> float:
        """The metric's value. Raises TritonModelException: a histogram has none."""


def wait_for_response(server: Any, outgoing: Asked, *, caller: Any) -> InferenceResponse:
    """`Server.infer_and_wait` by `Server.infer`."""
    arrived: queue.SimpleQueue[InferenceResponse] = queue.SimpleQueue()

    def deliver(response: InferenceResponse, final: bool) -> None:  # noqa: FBT001 - a callback
        arrived.put(response)

    server.infer(outgoing, caller=caller, decoupled=False, deliver=deliver)
    return arrived.get()


class NoServer:
    """Where code runs for which no server is there: while a config is completed, in a test."""

    def __getattr__(self, name: str) -> Any:
        raise TritonModelException(
            f"there is no server to ask here ({name}): models can ask it from initialize, execute and finalize"
        )


NO_SERVER: Any = NoServer()
