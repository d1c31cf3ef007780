"""The control inputs that the batcher adds to each request, and null rows (rows 13.7, 13.9). Pure.

The tensors of START, END and READY are made once per model, that of a correlation ID once per sequence.
"""

import collections.abc
from typing import Any

import msgspec
import numpy as np

from naiad.config.sequence_batching import ControlKind, SequenceBatching, SequenceControl
from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.core.request import SEQUENCE_END, SEQUENCE_START, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.scheduling.sequence.slot import Sequence

_FLAGS = SEQUENCE_START | SEQUENCE_END
_NULL = -1
_KNOWN_SHAPES = 64


class ControlInputs:
    """Makes the control inputs of a model.

    Args:
        batching: the model's.
        batched: whether the model has a batch dimension.

    Attributes:
        names: of the control inputs; an input of that name in a request is replaced.
    """

    def __init__(self, batching: SequenceBatching, *, batched: bool) -> None:
        self._shape = (1, 1) if batched else (1,)
        self._correlation = batching.control(ControlKind.CORRID)
        self.names = frozenset(control.name for control in batching.controls)
        flags = [each for each in batching.controls if each.kind is not ControlKind.CORRID]
        self._of_flags = {
            value: [self._flag(control, value) for control in flags]
            for value in (0, SEQUENCE_START, SEQUENCE_END, _FLAGS, _NULL)
        }
        self._null = self._of_flags[_NULL]
        if self._correlation is not None:
            empty = b"" if self._correlation.datatype is datatypes.BYTES else 0
            self._null = [*self._null, self._tensor(self._correlation, empty)]
        self._zeros: dict[tuple[Any, ...], Tensor] = {}

    def of(self, sequence: Sequence, flags: int) -> list[Tensor]:
        """Those of a request of a sequence, with these flags."""
        controls = self._of_flags[flags & _FLAGS]
        if self._correlation is None:
            return controls
        if sequence.cached is None:
            sequence.cached = self._correlation_id(self._correlation, sequence.key)
        return [*controls, sequence.cached]

    def null_row(self, like: InferRequest) -> Inference:
        """A request that fills a row: zeros in the shapes of another request, READY false. It is completed: its response is dropped.

        Args:
            like: a request of the batch, without controls and with its states.
        """
        inputs = [self._zero(tensor) for tensor in like.inputs]
        request = InferRequest(
            like.model_name, like.model_version, "", [*inputs, *self._null], [], {}
        )
        return Inference(request, _ignore, batch_size=1, received_ns=0, completed=True)

    def _flag(self, control: SequenceControl, flags: int) -> Tensor:
        on = {
            ControlKind.START: flags >= 0 and bool(flags & SEQUENCE_START),
            ControlKind.END: flags >= 0 and bool(flags & SEQUENCE_END),
            ControlKind.READY: flags >= 0,
        }[control.kind]
        return self._tensor(control, control.true if on else control.false)

    def _correlation_id(self, control: SequenceControl, key: int | str) -> Tensor:
        """Its datatype holds as many of the lowest bits as it can (row 13.7)."""
        if control.datatype is datatypes.BYTES:
            return self._tensor(control, str(key).encode("utf-8", "surrogatepass"))
        low = np.array([key], np.uint64).view(control.datatype.dtype)[:1]
        return Tensor(control.name, control.datatype, self._shape, low.reshape(self._shape))

    def _tensor(self, control: SequenceControl, value: float | bytes) -> Tensor:
        array: np.ndarray[Any, Any] = np.empty(self._shape, control.datatype.dtype)
        array.fill(value)
        return Tensor(control.name, control.datatype, self._shape, array)

    def _zero(self, tensor: Tensor) -> Tensor:
        """A tensor of the same shape with zeros, or empty texts."""
        key = tensor.name, tensor.shape
        known = self._zeros.get(key)
        if known is None:
            array: np.ndarray[Any, Any] = np.zeros(tensor.shape, tensor.datatype.dtype)
            if tensor.datatype is datatypes.BYTES:
                array.fill(b"")
            known = Tensor(tensor.name, tensor.datatype, tensor.shape, array)
            if len(self._zeros) >= _KNOWN_SHAPES:
                self._zeros.clear()
            self._zeros[key] = known
        return known


def with_inputs(request: InferRequest, added: collections.abc.Sequence[Tensor]) -> InferRequest:
    """A request with further inputs behind its own."""
    return msgspec.structs.replace(request, inputs=[*request.inputs, *added])


def _ignore(_: InferResponse) -> None:
    """The response of a null row."""
