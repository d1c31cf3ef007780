"""The inputs of a batch as an engine takes them: their shapes and, apart, the values of shape tensors. Pure (row 16.19)."""

import collections.abc

from naiad.backends import batch as batches
from naiad.backends.batch import Array
from naiad.backends.instance import InputTensor
from naiad.backends.placed_inputs import shape_of
from naiad.backends.ragged import RaggedBatches
from naiad.backends.tensorrt.engine.description import EngineDescription, Shape
from naiad.backends.tensorrt.engine.profiles import Shapes

Requests = collections.abc.Sequence[collections.abc.Sequence[InputTensor]]


class BatchInputs:
    """Takes the batches of a model apart; one per instance."""

    def __init__(
        self, engine: EngineDescription, *, batched: bool, ragged: RaggedBatches | None
    ) -> None:
        self._shape_tensors = {each.name: each.shape for each in engine.inputs if each.is_shape}
        self._needed = [each.name for each in engine.inputs]
        self._batched = batched
        self._ragged = ragged

    def shapes(self, requests: Requests, rows: int) -> tuple[Requests, Shapes, dict[str, Array]]:
        """What a batch brings.

        Returns:
            The inputs of each request that are not shape tensors; the shapes of the batch; and the arrays of a ragged batch, which are merged
            already, else nothing.

        Raises:
            InferenceError: INTERNAL: a request lacks an input of the engine.
        """
        values: dict[str, Shape] = {}
        others = requests
        if self._shape_tensors:
            others = [
                [tensor for tensor in inputs if tensor.name not in self._shape_tensors]
                for inputs in requests
            ]
            for tensor in requests[0]:
                if tensor.name in self._shape_tensors:
                    values[tensor.name] = shape_values(
                        tuple(int(value) for value in tensor.array.reshape(-1)),
                        self._shape_tensors[tensor.name],
                        rows=rows if self._batched else None,
                    )
        merged = {} if self._ragged is None else self._ragged.merge(others)
        shapes: dict[str, Shape] = {name: array.shape for name, array in merged.items()}
        for tensor in () if merged else others[0]:
            shape = shape_of(tensor)
            shapes[tensor.name] = (rows, *shape[1:]) if self._batched else shape
        for name in self._needed:
            if name not in shapes and name not in values:
                raise batches.broken(f"failed to obtain the representative input '{name}'")
        in_order = {name: shapes[name] for name in self._needed if name in shapes}
        return others, Shapes(in_order, values), merged


def shape_values(sent: Shape, expected: Shape, *, rows: int | None) -> Shape:
    """The values of a shape tensor as the engine takes them: those of a request, which all requests of a batch have in common, behind the number of rows.

    Args:
        sent: the values of a request; with the number of its own rows at the front or, as a config's dims have it, without.
        expected: the shape of the engine's tensor: none or one dimension.
        rows: of the batch; None for a model without a batch dimension.
    """
    if rows is None:
        return sent
    wanted = expected[0] if expected else 1
    return (rows, *(sent[1:] if len(sent) == wanted else sent))
