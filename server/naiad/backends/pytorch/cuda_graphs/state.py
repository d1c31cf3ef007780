"""What a model keeps from run to run in its buffers: a run before a capture must not change it, and a graph would go on from what it was at the capture."""

import collections.abc
from typing import Any


class State:
    """The values of buffers before a run.

    Args:
        buffers: of the model.
    """

    def __init__(self, buffers: collections.abc.Sequence[Any]) -> None:
        self._before = [(each, _version(each), each.clone()) for each in buffers]

    def put_back(self, buffers: collections.abc.Sequence[Any]) -> bool:
        """Give the buffers the values that they had; whether the run has changed any."""
        changed = False
        for (before, version, values), now in zip(self._before, buffers, strict=True):
            if now.data_ptr() == before.data_ptr() and _version(now) == version:
                continue
            changed = True
            if now.shape == values.shape:
                now.copy_(values)
        return changed


def _version(tensor: Any) -> int:
    """How often a tensor was written to."""
    try:
        return int(tensor._version)  # noqa: SLF001 - torch's documentation has it
    except RuntimeError:  # one of inference mode, which the run has put there
        return -1
