"""Which CUDA graphs a PyTorch model has, and why it cannot have one: decided from its config alone (row 11.21)."""

import math
import typing

from naiad.backends.cuda_graph_shapes import GraphShapes, graphs_of, rows_of
from naiad.backends.filled_sizes import fill_of
from naiad.backends.ragged import is_ragged
from naiad.config.model_config import ModelConfig
from naiad.config.sequence_tensors import model_inputs, model_outputs
from naiad.core import datatypes


class Planned(typing.NamedTuple):
    """The graphs of a model.

    Attributes:
        graphs: their shapes, the largest first: it has the memory that the others share with it.
        fills: batches are filled up to the next larger one.
        faults: why there are no others, each a sentence for the log.
    """

    graphs: tuple[GraphShapes, ...]
    fills: bool
    faults: tuple[str, ...]


def wants_graphs(config: ModelConfig) -> bool:
    """Whether the config asks for CUDA graphs."""
    return bool(config.message.optimization.cuda.graphs)


def impossible(config: ModelConfig) -> str:
    """Why no run of a model can be captured; "" if that is not known before it is tried."""
    if not model_inputs(config):
        return "it has no inputs"
    for spec in (*model_inputs(config), *model_outputs(config)):
        if spec.datatype is datatypes.BYTES:
            return f"'{spec.name}' is of TYPE_STRING, and text is in the host's memory only"
    return "inputs are ragged, so that each batch has other shapes" if is_ragged(config) else ""


def plan(config: ModelConfig) -> Planned:
    """The graphs that a config asks for.

    Raises:
        InferenceError: INVALID_ARG: a specification that no batch could have, or sizes of filled batches that are not valid.
    """
    fill = fill_of(config, {})
    found = graphs_of(config, fill)
    fills = bool(rows_of(found, config, fill))
    graphs = [
        GraphShapes(
            shapes,
            {name: (1, *shape[1:]) for name, shape in shapes.items()} if fills else shapes,
        )
        for shapes in found.shapes
    ]
    graphs.sort(key=_elements, reverse=True)
    return Planned(tuple(graphs), fills, found.faults)


def _elements(graph: GraphShapes) -> int:
    return sum(math.prod(shape) for shape in graph.shapes.values())
