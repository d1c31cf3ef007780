"""CUDA graphs: which ones a config asks for, and which one runs a batch (row 11.21). Pure; the messages are those of Triton's tensorrt backend.

A graph has fixed shapes. A batch runs in the graph of just its shapes or, where the config gives lower bounds, in one of more rows whose bounds it reaches. It does
not run in one whose other dimensions are larger: its values would lie elsewhere than the graph reads them.
"""

import collections.abc
import itertools
from typing import Any

import msgspec

from naiad.backends.tensorrt.engine.description import EngineDescription, Shape
from naiad.backends.tensorrt.engine.profiles import UsedProfile
from naiad.errors import InferenceError, invalid

_SMALL = (1, 2, 3, 4, 6, 8, 12, 16)


class GraphSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A graph that a config asks for.

    Attributes:
        rows: 0 for a model without a batch dimension.
        least_rows: the fewest rows of a batch that runs in it.
        shapes: of the inputs, without rows; empty for the best ones of the profile.
        least: the smallest shapes.
    """

    rows: int
    least_rows: int
    shapes: collections.abc.Mapping[str, Shape] = {}
    least: collections.abc.Mapping[str, Shape] = {}


class GraphShapes(msgspec.Struct, frozen=True):
    """The shapes of a graph: of each input, rows included, and the smallest ones that run in it."""

    shapes: collections.abc.Mapping[str, Shape]
    least: collections.abc.Mapping[str, Shape]


class GraphPlan(msgspec.Struct, frozen=True):
    """The graphs of a model. `inexact`: a batch may run in a larger graph than its own."""

    specs: tuple[GraphSpec, ...]
    inexact: bool


def plan_graphs(message: Any) -> GraphPlan:
    """The graphs that a config asks for; without `graph_spec` those of small batches, of the preferred sizes, and of max_batch_size.

    Raises:
        InferenceError: INVALID_ARG: a specification that no batch could have.
    """
    written = message.optimization.cuda.graph_spec
    most = message.max_batch_size
    if written:
        specs = tuple(_spec(each) for each in written)
        for spec in specs:
            _check(spec, most)
        inexact = any(each.HasField("graph_lower_bound") for each in written)
        return GraphPlan(specs, inexact)
    sizes = _default_sizes(message)
    return GraphPlan(tuple(GraphSpec(rows=size, least_rows=size) for size in sizes), inexact=False)


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


def _default_sizes(message: Any) -> list[int]:
    """Graphs help small batches most."""
    most = message.max_batch_size
    sequences = message.sequence_batching
    if message.HasField("dynamic_batching"):
        sizes = {min(1, most), *message.dynamic_batching.preferred_batch_size}
    elif message.HasField("sequence_batching") and sequences.HasField("oldest"):
        sizes = {min(1, most), *sequences.oldest.preferred_batch_size}
    else:
        sizes = {*_SMALL, *(() if most else (0,))}
    return sorted(size for size in sizes | {most} if size <= most)


def _spec(written: Any) -> GraphSpec:
    shapes = _shapes(written.input)
    if not written.HasField("graph_lower_bound"):
        rows = written.batch_size
        return GraphSpec(rows=rows, least_rows=rows, shapes=shapes, least=shapes)
    bound = written.graph_lower_bound
    return GraphSpec(
        rows=written.batch_size,
        least_rows=bound.batch_size,
        shapes=shapes,
        least=_shapes(bound.input),
    )


def _shapes(written: Any) -> dict[str, Shape]:
    return {name: tuple(shape.dim) for name, shape in sorted(written.items())}


def _check(spec: GraphSpec, most: int) -> None:
    if not most:
        if spec.rows or spec.least_rows:
            raise _refused("graph spec expects 'batch_size' to be 0 if 'max_batch_size' is 0")
    elif not (1 <= spec.rows <= most and 1 <= spec.least_rows <= most):
        raise _refused(f"graph spec expects 'batch_size' to be >= 1 and <= {most}")
    if spec.least_rows > spec.rows:
        raise _refused(
            "graph lower bound spec expects 'batch_size' to be <= graph spec 'batch_size'"
        )
    for name, shape in spec.shapes.items():
        _check_bound(name, shape, spec.least.get(name))


def _check_bound(name: str, shape: Shape, least: Shape | None) -> None:
    if least is None:
        raise _refused(f"graph lower bound spec expects shape for input '{name}'")
    if len(least) != len(shape):
        raise _refused(
            f"graph lower bound spec expects to have '{len(shape)} dimensions, got {len(least)}"
        )
    for low, size in zip(least, shape, strict=True):
        if low < 0 or size < 0:
            raise _refused(f"graph spec expects input '{name}' to have dimension >= 0")
        if low > size:
            raise _refused(
                f"graph lower bound spec expects input '{name}' to have dimension <= {size}"
            )


def _refused(text: str) -> InferenceError:
    return invalid(f"{text} (optimization, cuda, graph_spec)")
