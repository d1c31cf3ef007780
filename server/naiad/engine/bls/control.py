"""Model control for models: what a model may request about other models, in threads and in workers (row 15.24)."""

import typing

from naiad.engine.api import Overrides
from naiad.errors import InferenceError

STOPPING = "the server is stopping, or has not started yet"
"""The error message for a request outside of the time in which the server serves."""


class Control(typing.Protocol):
    """A part of `engine.api.Engine`."""

    async def load_model(
        self,
        name: str,
        overrides: Overrides,
        *,
        requested_by: str,
    ) -> None:
        """See `Engine`; `requested_by` is the model whose initialize waits for this, "" for none."""
        ...

    async def unload_model(self, name: str, *, unload_dependents: bool, requested_by: str) -> None:
        """See `Engine`; `requested_by` as above."""
        ...

    async def model_ready(self, name: str, version: int) -> bool:
        """See `Engine`."""
        ...


async def is_ready(control: Control, name: str, version: int) -> bool:
    """Whether a model is ready; an unknown one is not."""
    try:
        return await control.model_ready(name, version)
    except InferenceError:
        return False
