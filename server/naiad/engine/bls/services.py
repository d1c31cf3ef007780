"""What the models' own API shares between threads and worker processes: model control (row 15.24), and the RPC handlers' services.

It exists from the start; `worker_rpc.py` is imported with the first worker.
"""

import asyncio
import typing

from naiad.engine.api import Overrides
from naiad.engine.bls.model_calls import ModelCalls
from naiad.errors import InferenceError
from naiad.metrics.custom import CustomMetrics

if typing.TYPE_CHECKING:
    from naiad.engine.bls.worker_rpc import ModelRpcHandler

STOPPING = "the server is stopping, or has not started yet"
"""The error message for a request outside of the time in which the server serves."""


class ModelControl(typing.Protocol):
    """What models may request about other models: a part of `engine.api.Engine`."""

    async def load_model(self, name: str, overrides: Overrides, *, requested_by: str) -> None:
        """See `Engine`; `requested_by` is the model whose initialize waits for this, "" for none."""
        ...

    async def unload_model(self, name: str, *, unload_dependents: bool, requested_by: str) -> None:
        """See `Engine`; `requested_by` as above."""
        ...

    async def model_ready(self, name: str, version: int) -> bool:
        """See `Engine`."""
        ...


async def is_ready(control: ModelControl, name: str, version: int) -> bool:
    """Whether a model is ready; an unknown one is not."""
    try:
        return await control.model_ready(name, version)
    except InferenceError:
        return False


class WorkerRpcServices:
    """What the RPC handlers of all worker processes share; makes the handlers.

    Args:
        calls: makes the calls to other models.
        metrics: holds models' metrics.

    Attributes:
        control: loads and unloads models; None before the server serves, and once it stops.
        tasks: the model control requests in progress.
    """

    def __init__(self, calls: ModelCalls, metrics: CustomMetrics) -> None:
        self.calls = calls
        self.metrics = metrics
        self.control: ModelControl | None = None
        self.tasks = set[asyncio.Task[None]]()

    def open(self, control: ModelControl) -> None:
        """Accept model control requests."""
        self.control = control

    def close(self) -> None:
        """Accept no more model control requests; those in progress fail."""
        self.control = None
        for task in tuple(self.tasks):
            task.cancel()

    def handler(self, model: str, instance: str) -> "ModelRpcHandler":
        """The RPC handler of one instance."""
        from naiad.engine.bls.worker_rpc import ModelRpcHandler  # noqa: PLC0415 - with the first worker, see workers.py

        return ModelRpcHandler(self, model, instance)
