"""Which model's code is running: the log name and `get_model_dir` of a thread that serves several models in turn.

A host sets it before it calls a model. Threads that a model starts itself do not inherit it; asyncio tasks do.
"""

import contextvars


class Running:
    """A model instance whose code runs.

    Args:
        model: the model's name.
        instance: the instance's name; "" while its config is completed.
        directory: the folder of its version.
    """

    __slots__ = ("directory", "instance", "model")

    def __init__(self, *, model: str, instance: str, directory: str) -> None:
        self.model = model
        self.instance = instance
        self.directory = directory


current: "contextvars.ContextVar[Running | None]" = contextvars.ContextVar(
    "naiad_running_model", default=None
)
