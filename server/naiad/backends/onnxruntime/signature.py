"""The comparison of a loaded session with the config (rows 11.15, 16.2-16.4), before anything runs.

Pure. The offline check of `config` finds most of this with line and column; this one is for what only a session knows (output
shapes that onnxruntime infers) and for models that come without that check. It stops at the first difference.
"""

import collections.abc

import msgspec

from naiad.backends.onnxruntime.onnx_graph import GraphTensor
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.errors import InferenceError, invalid

_ELEMENTS: collections.abc.Mapping[str, DataType] = {
    "bool": datatypes.BOOL,
    "uint8": datatypes.UINT8,
    "uint16": datatypes.UINT16,
    "uint32": datatypes.UINT32,
    "uint64": datatypes.UINT64,
    "int8": datatypes.INT8,
    "int16": datatypes.INT16,
    "int32": datatypes.INT32,
    "int64": datatypes.INT64,
    "float16": datatypes.FP16,
    "float": datatypes.FP32,
    "double": datatypes.FP64,
    "bfloat16": datatypes.BF16,
    "string": datatypes.BYTES,
}
"""onnxruntime's element names (row 16.12)."""


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What a model takes and gives.

    Attributes:
        inputs: what a caller must give, by name.
        overridable: initialisers that a caller may give instead of the model's own values, by name.
        outputs: by name.
    """

    inputs: collections.abc.Mapping[str, GraphTensor]
    overridable: collections.abc.Mapping[str, GraphTensor]
    outputs: collections.abc.Mapping[str, GraphTensor]


def graph_tensor(
    name: str, type_text: str, shape: collections.abc.Sequence[int | str | None] | None
) -> GraphTensor:
    """A tensor as onnxruntime describes it.

    Args:
        name: its name.
        type_text: e.g. "tensor(float)" or "seq(tensor(int64))".
        shape: sizes; a name or None where any size is allowed; None when even the rank is unknown.
    """
    kind, _, rest = type_text.partition("(")
    element = rest.removesuffix(")")
    datatype = _ELEMENTS.get(element) if kind == "tensor" else None
    sizes = None if shape is None else [size if isinstance(size, int) else -1 for size in shape]
    return GraphTensor(
        name=name,
        kind=kind,
        datatype=datatype,
        type_name=datatype.config_name if datatype else type_text,
        shape=None if sizes is None else tuple(sizes),
        symbols=()
        if shape is None
        else tuple(size if isinstance(size, str) else "" for size in shape),
    )


def check(config: ModelConfig, signature: Signature) -> None:
    """Hold the config against the model.

    Raises:
        InferenceError: INVALID_ARG, the first difference.
    """
    _Check(config).run(signature)


class _Check:
    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._batched = config.max_batch_size > 0

    def run(self, signature: Signature) -> None:
        config = self._config
        required = [spec for spec in config.inputs if not spec.optional]
        if len(required) != len(signature.inputs):
            raise self._error(
                f"configuration expects {len(required)} inputs, model provides {len(signature.inputs)}: "
                f"the config lists {_names(spec.name for spec in required)}, "
                f"the model has {_names(signature.inputs)}"
            )
        givable = {**signature.inputs, **signature.overridable}
        for spec in config.inputs:
            self._input(spec, givable)
        for spec in config.outputs:
            self._output(spec, signature.outputs)

    def _input(self, spec: TensorSpec, givable: collections.abc.Mapping[str, GraphTensor]) -> None:
        if spec.optional and self._batched:
            raise self._error(
                f"optional input '{spec.name}' is not supported for models that support batching: "
                "set max_batch_size to 0, or make the input required"
            )
        tensor = givable.get(spec.name)
        if tensor is None:
            raise self._error(
                f"unexpected inference input '{spec.name}', allowed inputs are: {_names(givable)}"
            )
        self._datatype("input", spec, tensor)
        self._shape("input", spec, tensor)

    def _output(self, spec: TensorSpec, outputs: collections.abc.Mapping[str, GraphTensor]) -> None:
        tensor = outputs.get(spec.name)
        if tensor is None:
            raise self._error(
                f"unexpected inference output '{spec.name}', allowed outputs are: {_names(outputs)}"
            )
        self._datatype("output", spec, tensor)
        self._shape("output", spec, tensor)

    def _datatype(self, what: str, spec: TensorSpec, tensor: GraphTensor) -> None:
        if tensor.datatype is None:
            raise self._error(
                f"{what} '{spec.name}' is a {tensor.type_name} in the model: only tensors of the types of Triton "
                "can be served"
            )
        if tensor.datatype is not spec.datatype:
            raise self._error(
                f"configuration expects datatype {spec.datatype.config_name} for {what} '{spec.name}', "
                f"model provides {tensor.datatype.config_name}"
            )

    def _shape(self, what: str, spec: TensorSpec, tensor: GraphTensor) -> None:
        """Compare shapes. Inputs may be narrower in the config than in the model, outputs wider.

        The latter because a session knows sizes that the file, from which the config may have been completed, leaves free.
        """
        if tensor.shape is None:
            return  # the model does not say how many dimensions there are: found out when it runs
        dims = spec.dims if spec.reshape is None else spec.reshape
        if not tensor.shape:
            self._scalar(spec, dims)
            return
        if self._batched and tensor.shape[0] != -1:
            raise invalid(
                f"model '{self._config.name}', tensor '{spec.name}': for the model to support batching the shape should "
                "have at least 1 dimension and the first dimension must be -1; but shape expected by the model is "
                f"{list(tensor.shape)}: set max_batch_size to 0, or export the model with a free first dimension"
            )
        full = (-1, *dims) if self._batched else dims
        if len(full) == len(tensor.shape) and all(
            mine == own or (mine if what == "output" else own) == -1
            for mine, own in zip(full, tensor.shape, strict=True)
        ):
            return
        how = (
            "an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making "
            f"complete shape {list(full)}"
            if self._batched
            else f"shape {list(full)}"
        )
        raise invalid(
            f"model '{self._config.name}', tensor '{spec.name}': the model expects {len(tensor.shape)} dimensions "
            f"(shape {list(tensor.shape)}) but the model configuration specifies {len(full)} dimensions ({how})"
        )

    def _scalar(self, spec: TensorSpec, dims: tuple[int, ...]) -> None:
        if self._batched:
            raise invalid(
                f"model '{self._config.name}', tensor '{spec.name}': for the model to support batching the shape should "
                "have at least 1 dimension and the first dimension must be -1; but the model's is a scalar: "
                "set max_batch_size to 0"
            )
        if any(dim != 1 for dim in dims):
            raise self._error(
                f"scalar tensor '{spec.name}', should only provide 1 in the model configuration when the model doesn't "
                f"support batching. Model configuration provided: {list(dims)}; write dims: [ 1 ]"
            )

    def _error(self, text: str) -> InferenceError:
        return invalid(f"unable to load model '{self._config.name}', {text}")


def _names(names: collections.abc.Iterable[str]) -> str:
    return ", ".join(names) or "none"
