"""What is behind the desks of all worker processes (`worker_desk.py`). There from the start; a desk only comes with the first worker."""

import asyncio
import typing

from naiad.engine.control import Control
from naiad.engine.model_calls import ModelCalls
from naiad.metrics.custom import CustomMetrics

if typing.TYPE_CHECKING:
    from naiad.engine.worker_desk import WorkerDesk


class WorkerDesks:
    """Makes desks.

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
        """Answer about whole models from now on."""
        self.control = control

    def close(self) -> None:
        """Answer no more about whole models; who waits gets an error."""
        self.control = None
        for task in tuple(self.tasks):
            task.cancel()

    def desk(self, model: str, instance: str) -> "WorkerDesk":
        """The desk of one instance."""
        from naiad.engine.worker_desk import WorkerDesk  # noqa: PLC0415 - with the first worker, see workers.py

        return WorkerDesk(self, model, instance)
