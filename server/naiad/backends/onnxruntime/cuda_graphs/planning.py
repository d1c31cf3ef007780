"""Whether an ONNX model has CUDA graphs, and why it cannot have one: decided from its config alone (row 11.21). Of which shapes: `cuda_graph_shapes`.

onnxruntime captures a graph of a run whose inputs and outputs are at fixed addresses on the device (IO binding), and runs it again with whatever is there then. Each graph
has fixed shapes and a number of its own (`gpu_graph_id`) in the one session of an instance, so that all of them share the weights.
"""

import msgspec

from naiad.backends.onnxruntime.plan import CUDA, Provider, SessionPlan
from naiad.backends.ragged import is_ragged
from naiad.config.model_config import ModelConfig
from naiad.config.sequence_tensors import model_inputs, model_outputs
from naiad.core import datatypes

NUMBER = "gpu_graph_id"
"""onnxruntime's run option: the number of the graph that a run captures or launches."""

NO_GRAPH = "-1"
"""Its value for a run without one."""


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
