"""What is known of an OpenVINO model from its file, for a config: the signature as the config's rules see it. Pure but for reading the file.

OpenVINO converts between datatypes of numbers and gives a model any number of rows, so a config may say another datatype than the model, and a
model whose first dimension is fixed may be batched.
"""

import pathlib
from typing import Any

import msgspec

from naiad.backends.model_files.signature import GraphTensor, Signature
from naiad.backends.onnxruntime import onnx_graph
from naiad.backends.openvino import intermediate
from naiad.backends.openvino.settings import settings_of
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.messages import model_config_pb2
from naiad.errors import InferenceError

UNSUPPORTED = (datatypes.BYTES, datatypes.BF16)


def read_signature(message: Any, path: pathlib.Path) -> Signature | None:
    """The signature of a model file; None for a format that only OpenVINO reads (a SavedModel, a model of PaddlePaddle).

    Raises:
        ModelFileError: the file is missing or not whole.
    """
    names = {spec.name for side in (message.input, message.output) for spec in side}
    if path.suffix == ".xml":
        return intermediate.read(path, prefer=names)
    if path.suffix == ".onnx":
        return onnx_graph.read(path)
    return None


def as_config_sees(message: Any, signature: Signature) -> Signature:
    """The signature with what OpenVINO would adapt to the config: datatypes of numbers, the number of rows, and dims with RESHAPE_IO_LAYERS."""
    try:
        parameters = {key: value.string_value for key, value in message.parameters.items()}
        reshapes = settings_of(message.name, parameters).reshapes
    except InferenceError:
        reshapes = False
    specs = {spec.name: spec for side in (message.input, message.output) for spec in side}
    batched = message.max_batch_size > 0

    def adapted(tensor: GraphTensor) -> GraphTensor:
        shape = tensor.shape
        if shape and batched:
            shape = (-1, *shape[1:])
        if shape and reshapes:
            shape = tuple(-1 for _ in shape)
        datatype = _served_as(specs.get(tensor.name), tensor)
        return msgspec.structs.replace(
            tensor,
            shape=shape,
            datatype=datatype,
            type_name=datatype.config_name if datatype else tensor.type_name,
        )

    return Signature(
        inputs=tuple(map(adapted, signature.inputs)),
        overridable=tuple(map(adapted, signature.overridable)),
        outputs=tuple(map(adapted, signature.outputs)),
    )


def _served_as(spec: Any, tensor: GraphTensor) -> DataType | None:
    if spec is None or spec.data_type == model_config_pb2.TYPE_INVALID or tensor.datatype is None:
        return tensor.datatype
    wanted = datatypes.BY_CONFIG_NAME[model_config_pb2.DataType.Name(spec.data_type)]
    return tensor.datatype if wanted in UNSUPPORTED else wanted
