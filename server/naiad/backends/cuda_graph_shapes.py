"""The shapes of a model's CUDA graphs, and which graph runs a batch (row 11.21): decided from its config alone, for every backend that captures some. Pure.

A graph has fixed shapes. A batch runs in the graph of just its shapes or, where batches may be filled up, in one of more rows whose bounds it reaches. It does
not run in one whose other dimensions are larger: its values would lie elsewhere than the graph reads them.
"""

import collections.abc
import itertools
import typing

import msgspec

from naiad.backends.cuda_graph_specs import GraphSpec, plan_graphs
from naiad.backends.filled_sizes import Fill, sizes_of
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.config.sequence_tensors import model_inputs

Shape = tuple[int, ...]
Shapes = collections.abc.Mapping[str, Shape]


class PlannedGraphs(typing.NamedTuple):
    """The graphs of a model.

    Attributes:
        shapes: of the inputs of each graph, rows included; no two are the same.
        faults: why others cannot be captured, each a sentence for the log.
    """

    shapes: tuple[Shapes, ...]
    faults: tuple[str, ...]


class GraphShapes(msgspec.Struct, frozen=True):
    """The shapes of a graph: of each input, rows included, and the smallest ones that run in it."""

    shapes: collections.abc.Mapping[str, Shape]
    least: collections.abc.Mapping[str, Shape]


def graphs_of(config: ModelConfig, fill: Fill) -> PlannedGraphs:
    """The graphs that a config asks for: those of `graph_spec`; else those of the sizes that batches are filled up to, or of small batches.

    Raises:
        InferenceError: INVALID_ARG: a specification that no batch could have.
    """
    specs = plan_graphs(config.message).specs
    if not config.message.optimization.cuda.graph_spec:
        sizes = sizes_of(config, fill, pays=True)
        specs = tuple(GraphSpec(rows=size, least_rows=size) for size in sizes) or specs
    found: list[Shapes] = []
    faults: list[str] = []
    for spec in specs:
        shapes = _shapes(config, spec, faults)
        if shapes is not None and shapes not in found:
            found.append(shapes)
    return PlannedGraphs(tuple(found), tuple(dict.fromkeys(faults)))


def rows_of(planned: PlannedGraphs, config: ModelConfig, fill: Fill) -> tuple[int, ...]:
    """The sizes that batches are filled up to, which are those of the graphs; empty for no filling, so that only batches of just these sizes run in them."""
    if not sizes_of(config, fill, pays=True):
        return ()
    return tuple(sorted({next(iter(shapes.values()))[0] for shapes in planned.shapes}))


def find(
    graphs: collections.abc.Sequence[GraphShapes],
    batch: collections.abc.Mapping[str, Shape],
    *,
    inexact: bool,
) -> int:
    """The graph that runs a batch: of just its shapes, or the one of the fewest more rows whose bounds it reaches; -1 for none."""
    larger: list[tuple[Shape, int]] = []
    for index, graph in enumerate(graphs):
        if graph.shapes == batch:
            return index
        if inexact and _holds(graph, batch):
            larger.append((tuple(itertools.chain.from_iterable(graph.shapes.values())), index))
    return min(larger)[1] if larger else -1


def _shapes(config: ModelConfig, spec: GraphSpec, faults: list[str]) -> Shapes | None:
    """The shapes of a graph; None, and a sentence in `faults`, if the config leaves one open."""
    shapes: dict[str, Shape] = {}
    for tensor in model_inputs(config):
        dims = tensor.dims if tensor.reshape is None else tensor.reshape
        own = spec.shapes.get(tensor.name, dims)
        fault = _fault(tensor, dims, own)
        if fault:
            faults.append(fault)
            return None
        shapes[tensor.name] = (spec.rows, *own) if spec.rows else tuple(own)
    return shapes


def _fault(tensor: TensorSpec, dims: Shape, own: Shape) -> str:
    name = tensor.name
    if min(own, default=0) < 0:
        return f"input '{name}' has free dimensions: write its shape into optimization, cuda, graph_spec"
    if len(own) != len(dims) or any(
        dim not in (-1, size) for dim, size in zip(dims, own, strict=True)
    ):
        return f"graph_spec says {list(own)} for input '{name}', and its dims are {list(dims)}"
    return ""


def _holds(graph: GraphShapes, batch: collections.abc.Mapping[str, Shape]) -> bool:
    return graph.shapes.keys() == batch.keys() and all(
        bool(shape)
        and shape[1:] == graph.shapes[name][1:]
        and graph.least[name][0] <= shape[0] <= graph.shapes[name][0]
        for name, shape in batch.items()
    )
