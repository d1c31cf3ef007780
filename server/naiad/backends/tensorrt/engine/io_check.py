"""Whether a config fits an engine: names, datatypes, dims, shape tensors, layouts (row 16.19). Pure; the messages are those of Triton's tensorrt backend."""

import collections.abc

from naiad.backends.ragged import batch_input_specs
from naiad.backends.tensorrt.engine.description import (
    DATATYPES,
    LINEAR,
    EngineDescription,
    IoTensor,
    Shape,
    shown,
)
from naiad.config import sequence_tensors
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core import datatypes
from naiad.errors import internal, invalid, unsupported

_SHAPE_TYPES = (datatypes.INT32, datatypes.INT64)


def check(config: ModelConfig, engine: EngineDescription) -> None:
    """Hold a config against an engine.

    Raises:
        InferenceError: they do not fit, or the engine needs what is not supported.
    """
    added = batch_input_specs(config)
    inputs = (*sequence_tensors.model_inputs(config), *added)
    outputs = sequence_tensors.model_outputs(config)
    if len(engine.inputs) < len(inputs):
        raise invalid(
            f"unable to load model '{config.name}', configuration expects {len(inputs)} inputs, model provides at most {len(engine.inputs)}"
        )
    unbatched = {spec.name for spec in added} | {spec.name for spec in inputs if spec.ragged}
    scattered = {each.target for each in config.batch_outputs}
    for spec in inputs:
        tensor = _known(spec, "input", engine.inputs, config)
        _check_tensor(spec, tensor, "input", config)
        if tensor.is_shape:
            _check_shape_tensor(spec, tensor, "input", config)
        elif spec.name in unbatched:
            _check_flat(spec, tensor, config)
        else:
            _check_dims(spec, tensor, config)
    for tensor in engine.inputs:
        if tensor.name not in {spec.name for spec in inputs}:
            raise invalid(
                f"unable to load model '{config.name}', the plan needs the input '{tensor.name}', which the configuration does not list"
            )
    for spec in outputs:
        tensor = _known(spec, "output", engine.outputs, config)
        _check_tensor(spec, tensor, "output", config)
        if tensor.is_shape:
            _check_shape_tensor(spec, tensor, "output", config)
        elif spec.name not in scattered:
            _check_dims(spec, tensor, config)


def _known(
    spec: TensorSpec, side: str, tensors: collections.abc.Sequence[IoTensor], config: ModelConfig
) -> IoTensor:
    for tensor in tensors:
        if tensor.name == spec.name:
            return tensor
    names = ", ".join(tensor.name for tensor in tensors)
    raise invalid(
        f"unexpected inference {side} '{spec.name}', allowed {side}s are: {names} (model '{config.name}')"
    )


def _check_tensor(spec: TensorSpec, tensor: IoTensor, side: str, config: ModelConfig) -> None:
    name = config.name
    if spec.datatype not in DATATYPES.values():
        raise internal(
            f"unsupported datatype {spec.datatype.config_name} for {side} '{spec.name}' for model '{name}'"
        )
    if tensor.is_shape and not spec.is_shape_tensor and _is_listed(spec, config):
        raise internal(
            f"{side} '{spec.name}' for model '{name}' is a shape tensor but the model configuration doesn't mark it as a shape tensor."
        )
    if spec.is_shape_tensor and not tensor.is_shape:
        raise internal(
            f"{side} '{spec.name}' for model '{name}' is incorrectly marked as a shape tensor in the model configuration."
        )
    if tensor.layout != LINEAR:
        raise unsupported(
            f"{side} '{spec.name}' of model '{name}' has the layout {tensor.layout}, which is not supported yet: build the plan with linear inputs and "
            f"outputs (trtexec --inputIOFormats=fp32:chw --outputIOFormats=fp32:chw, each with its datatype): TensorRT reformats them itself"
        )
    if tensor.datatype is not spec.datatype:
        given = tensor.datatype.name if tensor.datatype else tensor.type_name
        raise invalid(
            f"unexpected datatype TYPE_{given} for inference {side} '{spec.name}', expecting {spec.datatype.config_name} for {name}"
        )


def _is_listed(spec: TensorSpec, config: ModelConfig) -> bool:
    """Whether the config itself lists it, and could mark it as a shape tensor."""
    return any(each.name == spec.name for each in (*config.inputs, *config.outputs))


def _check_shape_tensor(spec: TensorSpec, tensor: IoTensor, side: str, config: ModelConfig) -> None:
    allowed = _SHAPE_TYPES if side == "input" else (datatypes.INT64,)
    if spec.datatype not in allowed:
        expected = " or ".join(each.config_name for each in allowed)
        raise invalid(
            f"unexpected datatype '{spec.datatype.config_name}' in model configuration for shape {side} '{spec.name}', expecting {expected} "
            f"for {config.name}"
        )
    if len(tensor.shape) > 1:
        raise internal(
            f"unable to load model '{config.name}', shape binding '{spec.name}' can only be 0-d or 1-D tensor, got {shown(tensor.shape)}"
        )
    more = 1 if config.max_batch_size else 0
    dims = _own_dims(spec)
    if len(dims) != len(tensor.shape) or (dims and dims[0] + more != tensor.shape[0]):
        raise internal(
            f"unable to load model '{config.name}', binding '{spec.name}' shape expected by framework {shown(tensor.shape)} doesn't match model "
            f"configuration shape {shown(dims)}"
        )


def _check_flat(spec: TensorSpec, tensor: IoTensor, config: ModelConfig) -> None:
    """An input of all requests, one after the other, or one that `batch_input` adds."""
    if spec.ragged and len(tensor.shape) != 1:
        raise invalid(
            f"model '{config.name}', tensor '{spec.name}': for the model to support ragged input, the engine shape is: {shown(tensor.shape)} while the "
            f"model config shape is: {shown(_own_dims(spec))}"
        )


def _check_dims(spec: TensorSpec, tensor: IoTensor, config: ModelConfig) -> None:
    dims, shape, name = _own_dims(spec), tensor.shape, config.name
    if config.max_batch_size:
        if not shape:
            raise invalid(
                f"model '{name}', tensor '{spec.name}': for the model to support batching the shape should have at least 1 dimension; but shape "
                f"expected by the model is {shown(shape)}"
            )
        full = (-1, *dims)
        if not _fits(shape, full):
            raise invalid(
                f"model '{name}', tensor '{spec.name}': the model expects {len(shape)} dimensions (shape {shown(shape)}) but the model configuration "
                f"specifies {len(full)} dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
                f"complete shape {shown(full)})"
            )
    elif not _fits(shape, dims):
        raise invalid(
            f"model '{name}', tensor '{spec.name}': the model expects {len(shape)} dimensions (shape {shown(shape)}) but the model configuration "
            f"specifies {len(dims)} dimensions (shape {shown(dims)})"
        )


def _fits(shape: Shape, dims: Shape) -> bool:
    return len(shape) == len(dims) and all(
        -1 in (size, dim) or size == dim for size, dim in zip(shape, dims, strict=True)
    )


def _own_dims(spec: TensorSpec) -> Shape:
    return spec.dims if spec.reshape is None else spec.reshape
