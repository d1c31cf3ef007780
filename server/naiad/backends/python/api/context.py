"""Which model's code is running: its server, the log name and `get_model_dir` of a thread that serves several models in turn.

A host sets it before it calls a model. asyncio tasks inherit it; threads that a model starts itself do not: their model is
found by the modules whose code is on their stack, which a host has registered in `of_module`.
"""

import contextvars
import sys
from typing import Any

from naiad.backends.python.api.server import NO_SERVER


class Running:
    """A model instance whose code runs.

    Args:
        instance: the instance's name; "" while its config is completed.
        directory: the folder of its version.

    Attributes:
        loads: until `initialize` is over: who loads it waits for what it asks.
        executes: between `initialize` and `finalize`, when other models may be asked (row 15.20).
        batch: what it executes now, as its host knows it; None for nothing, and for threads of a
            decoupled model, which go on when its batch has come back.
        thread: the id of the thread that executes its batches; 0 before the first one.
    """

    __slots__ = ("batch", "directory", "executes", "instance", "loads", "model", "server", "thread")

    def __init__(
        self, *, model: str, instance: str, directory: str, server: Any = NO_SERVER
    ) -> None:
        self.model = model
        self.instance = instance
        self.directory = directory
        self.server = server
        self.loads = True
        self.executes = False
        self.batch: Any = None
        self.thread = 0

    def at(self, batch: Any) -> "Running":
        """The same for code that goes on when its batch has come back."""
        other = Running(
            model=self.model,
            instance=self.instance,
            directory=self.directory,
            server=self.server,
        )
        other.loads = self.loads
        other.executes = self.executes
        other.batch = batch
        other.thread = self.thread
        return other


current: "contextvars.ContextVar[Running | None]" = contextvars.ContextVar(
    "naiad_running_model", default=None
)

only: "Running | None" = None
"""In a worker process, the one instance that it has."""

in_worker = False
"""Whether this is a worker process, where no word but the model's can end what it does."""

worker_server: Any = NO_SERVER
"""In a worker process, whom its model may ask."""

of_module: "dict[str, list[Running]]" = {}
"""By package of modules: the instances whose code it is, the newest last."""


def running() -> "Running | None":
    """The instance whose code calls; None when it is not known."""
    known = current.get() or only
    if known is not None or not of_module:
        return known
    frame: Any = sys._getframe(1)  # noqa: SLF001 - the only way to find the caller
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        for package, instances in tuple(of_module.items()):
            if instances and name.startswith(package + "."):
                return instances[-1]
        frame = frame.f_back
    return None
