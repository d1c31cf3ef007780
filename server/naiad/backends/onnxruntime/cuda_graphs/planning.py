"""Which CUDA graphs an ONNX model has, and why it cannot have one: decided from its config alone (row 11.21).

onnxruntime captures a graph of a run whose inputs and outputs are at fixed addresses on the device (IO binding), and runs it again with whatever is there then. Each graph
has fixed shapes and a number of its own (`gpu_graph_id`) in the one session of an instance, so that all of them share the weights.
"""

import collections.abc
import typing

import msgspec

from naiad.backends.cuda_graph_specs import GraphSpec, plan_graphs
from naiad.backends.onnxruntime.batch_sizes import Fill, sizes_of
from naiad.backends.onnxruntime.plan import CUDA, Provider, SessionPlan
from naiad.backends.ragged import is_ragged
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.config.sequence_tensors import model_inputs, model_outputs
from naiad.core import datatypes

Shape = tuple[int, ...]
Shapes = collections.abc.Mapping[str, Shape]

NUMBER = "gpu_graph_id"
"""onnxruntime's run option: the number of the graph that a run captures or launches."""

NO_GRAPH = "-1"
"""Its value for a run without one."""


class PlannedGraphs(typing.NamedTuple):
    """The graphs of a model.

    Attributes:
        shapes: of the inputs of each graph, rows included; no two are the same.
        faults: why others cannot be captured, each a sentence for the log.
    """

    shapes: tuple[Shapes, ...]
    faults: tuple[str, ...]


def wants_graphs(config: ModelConfig, plan: SessionPlan) -> bool:
    """Whether the config asks for CUDA graphs, and the session's first provider is the one that captures them."""
    return bool(config.message.optimization.cuda.graphs) and plan.providers[0].name == CUDA


def with_graphs(plan: SessionPlan) -> SessionPlan:
    """The plan of a session that captures graphs, and runs without one unless a run asks for it."""
    first, *others = plan.providers
    capturing = Provider(name=first.name, options={**first.options, "enable_cuda_graph": "1"})
    return msgspec.structs.replace(
        plan,
        providers=(capturing, *others),
        run_entries=(*plan.run_entries, (NUMBER, NO_GRAPH)),
    )


def impossible(config: ModelConfig) -> str:
    """Why no run of a model can be captured; "" if that is not known before it is tried."""
    for spec in (*model_inputs(config), *model_outputs(config)):
        if spec.datatype is datatypes.BYTES:
            return f"'{spec.name}' is of TYPE_STRING, and onnxruntime has strings in the host's memory only"
        if spec.datatype is datatypes.BF16:
            return f"'{spec.name}' is of TYPE_BF16, which onnxruntime for Python cannot copy to a device"
    return "inputs are ragged, so that each batch has other shapes" if is_ragged(config) else ""


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
