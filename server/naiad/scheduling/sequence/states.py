"""What a store of implicit states offers to the sequence batcher (rows 13.19 to 13.22)."""

import collections.abc
import typing

from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.scheduling.sequence.slot import Slot


class SequenceStates(typing.Protocol):
    """The states of the sequences of one model version, by slot. All methods are called on the event loop."""

    def begin(self, slot: Slot, *, starts: bool) -> collections.abc.Sequence[Tensor]:
        """The state inputs of a slot's request that is about to be executed; `starts`: its sequence starts, with the initial state."""
        ...

    def null(self, like: Slot) -> collections.abc.Sequence[Tensor]:
        """The state inputs of a null row in a batch with this slot's request, in shapes that fit."""
        ...

    def came_back(self, slot: Slot, response: InferResponse) -> InferResponse:
        """Keep the states that a response of the slot's request holds; returns the response as its client gets it."""
        ...
