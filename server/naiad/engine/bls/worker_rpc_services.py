"""What the RPC handlers of all worker processes share. It exists from the start; `worker_rpc.py` is imported with the first worker."""

import asyncio
import typing

from naiad.engine.bls.control import Control
from naiad.engine.bls.model_calls import ModelCalls
from naiad.metrics.custom import CustomMetrics

if typing.TYPE_CHECKING:
    from naiad.engine.bls.worker_rpc import ModelRpcHandler


class WorkerRpcServices:
    """Makes RPC handlers.

    Args:
        calls: makes the calls.
        metrics: keeps models' metrics.
    """

    def __init__(self, calls: ModelCalls, metrics: CustomMetrics) -> None:
        self.calls = calls
        self.metrics = metrics
        self.control: Control | None = None
        self.tasks = set[asyncio.Task[None]]()

    def open(self, control: Control) -> None:
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
