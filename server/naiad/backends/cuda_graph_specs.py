"""CUDA graphs as a config asks for them (row 11.21): `optimization { cuda { graph_spec } }`, for every backend that captures some. Pure.

The messages are those of Triton's tensorrt backend.
"""

import collections.abc
from typing import Any

import msgspec

from naiad.errors import InferenceError, invalid

Shape = tuple[int, ...]

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
