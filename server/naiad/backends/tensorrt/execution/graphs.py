"""The shapes of the CUDA graphs of a plan that a config asks for (row 11.21). Pure; the messages are those of Triton's tensorrt backend."""

import collections.abc

from naiad.backends.cuda_graph_shapes import GraphShapes
from naiad.backends.cuda_graph_specs import GraphSpec
from naiad.backends.tensorrt.engine.description import EngineDescription, Shape
from naiad.backends.tensorrt.engine.profiles import UsedProfile
from naiad.errors import invalid


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
