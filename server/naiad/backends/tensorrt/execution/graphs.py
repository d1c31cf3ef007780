"""CUDA graphs: the shapes of those that a config asks for, and which one runs a batch (row 11.21). Pure; the messages are those of Triton's tensorrt backend.

A graph has fixed shapes. A batch runs in the graph of just its shapes or, where the config gives lower bounds, in one of more rows whose bounds it reaches. It does
not run in one whose other dimensions are larger: its values would lie elsewhere than the graph reads them.
"""

import collections.abc
import itertools

import msgspec

from naiad.backends.cuda_graph_specs import GraphSpec
from naiad.backends.tensorrt.engine.description import EngineDescription, Shape
from naiad.backends.tensorrt.engine.profiles import UsedProfile
from naiad.errors import invalid


class GraphShapes(msgspec.Struct, frozen=True):
    """The shapes of a graph: of each input, rows included, and the smallest ones that run in it."""

    shapes: collections.abc.Mapping[str, Shape]
    least: collections.abc.Mapping[str, Shape]


def shapes_of(
    spec: GraphSpec,
    engine: EngineDescription,
    profile: UsedProfile,
    unbatched: collections.abc.Container[str] = (),
) -> GraphShapes:
    """The shapes of a graph in a profile.

    Args:
        spec: of the graph.
        engine: whose inputs these are.
        profile: whose best shapes count where the spec gives none.
        unbatched: the inputs whose first dimension is not the number of rows: ragged ones, and those that `batch_input` adds.

    Raises:
        InferenceError: INVALID_ARG: the spec leaves out an input, or names a shape that the profile does not allow.
    """
    shapes: dict[str, Shape] = {}
    least: dict[str, Shape] = {}
    for tensor in engine.inputs:
        name = tensor.name
        if not spec.shapes:
            best = profile.shapes[name].best
            shapes[name] = (spec.rows, *best[1:]) if spec.rows else best
            least[name] = shapes[name]
            continue
        if name not in spec.shapes:
            raise invalid(f"trt failed to set input shape for unknown input '{name}'")
        rows = (spec.rows,) if spec.rows and name not in unbatched else ()
        least_rows = (spec.least_rows,) if rows else ()
        shapes[name] = (*rows, *spec.shapes[name])
        least[name] = (*least_rows, *spec.least.get(name, spec.shapes[name]))
    return GraphShapes(shapes, least)


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


def _holds(graph: GraphShapes, batch: collections.abc.Mapping[str, Shape]) -> bool:
    return graph.shapes.keys() == batch.keys() and all(
        bool(shape)
        and shape[1:] == graph.shapes[name][1:]
        and graph.least[name][0] <= shape[0] <= graph.shapes[name][0]
        for name, shape in batch.items()
    )
