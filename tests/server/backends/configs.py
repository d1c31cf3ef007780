"""Model configs and requests for backend tests, in a few words each."""

import collections.abc
from typing import Any

import msgspec
import numpy as np
from google.protobuf import text_format

from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.config.model_config import (
    ModelConfig,
    TensorSpec,
)
from naiad.config.sequence_batching import sequence_batching_of
from naiad.config.sequence_states import sequence_states
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.inference import Inference
from naiad.core.messages import model_config_pb2
from naiad.core.request import InferRequest, Parameters, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.hosts.local_instance import LocalInstance
from tests.support.inferences import make_config


def spec(name: str, datatype: DataType, dims: tuple[int, ...], **more: Any) -> TensorSpec:
    return TensorSpec(name=name, datatype=datatype, dims=dims, **more)


def model_config(
    *,
    inputs: collections.abc.Sequence[TensorSpec],
    outputs: collections.abc.Sequence[TensorSpec],
    backend: str = "onnxruntime",
    max_batch_size: int = 8,
    name: str = "m",
    **more: Any,
) -> ModelConfig:
    """A config with one CPU instance; `message` holds the name, the batch size, the tensors, the parameters and the file's name."""
    message = model_config_pb2.ModelConfig(
        name=name, backend=backend, max_batch_size=max_batch_size
    )
    for kind, specs in ((message.input, inputs), (message.output, outputs)):
        for each in specs:
            added = kind.add(
                name=each.name,
                dims=each.dims,
                data_type=model_config_pb2.DataType.Value(each.datatype.config_name),
            )
            if each.reshape is not None:
                added.reshape.shape.extend(each.reshape)
            if each.optional:
                added.optional = True
    for key, value in more.get("parameters", {}).items():
        message.parameters[key].string_value = value
    settings: dict[str, Any] = {
        "backend": backend,
        "default_model_filename": "model.py" if backend == "python" else "model.onnx",
        "message": message,
        **more,
    }
    message.default_model_filename = settings["default_model_filename"]
    config = make_config(name=name, max_batch_size=max_batch_size, inputs=inputs, outputs=outputs)
    return msgspec.structs.replace(config, **settings)


def with_sequences(config: ModelConfig, text: str) -> ModelConfig:
    """The config with a `sequence_batching` as config.pbtxt has it."""
    text_format.Merge(text, config.message)
    return msgspec.structs.replace(
        config,
        sequence_batching=sequence_batching_of(config.message.sequence_batching),
        states=sequence_states(config.message, {}),
    )


def tensor(name: str, values: Any, datatype: DataType | None = None) -> Tensor:
    array = np.asarray(values) if datatype is None else np.array(values, datatype.dtype)
    found = datatype or datatypes.BY_DTYPE[array.dtype]
    return Tensor(name, found, array.shape, array)


def inference(
    *inputs: Tensor,
    outputs: collections.abc.Sequence[str] = (),
    rows: int | None = None,
    request_id: str = "",
    parameters: Parameters | None = None,
    **more: Any,
) -> Inference:
    """A request whose batch size is the first dimension of its first input, or `rows`."""
    request = InferRequest(
        "m",
        1,
        request_id,
        list(inputs),
        [RequestedOutput(name) for name in outputs],
        parameters or {},
        **more,
    )
    size = rows if rows is not None else inputs[0].shape[0]
    return Inference(request, ignore, batch_size=size, received_ns=0)


def ignore(response: InferResponse) -> None:
    """A callback of a test that looks at what `execute` returns instead."""


def values(response: InferResponse) -> dict[str, Any]:
    """What a response holds, as lists; fails when it holds an error."""
    assert response.error is None, response.error
    return {output.name: output.array.tolist() for output in response.outputs}


class Instance(LocalInstance):
    """An instance with the server's types around it; whatever else it has is its own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.instance, name)


class Loaded:
    """A model version whose instances are such."""

    def __init__(self, model: LoadedModel, config: ModelConfig, version: int = 1) -> None:
        self.model = model
        self.leaves_cycles = model.leaves_cycles
        self._config = config
        self._version = version

    def make_instance(self, spec: InstanceSpec) -> Instance:
        return Instance(self.model.make_instance(spec), self._config, self._version)

    def close(self) -> None:
        self.model.close()


def run(instance: Instance, *batch: Inference) -> list[InferResponse]:
    """The answers that `execute` returns to a batch."""
    return [response for response in instance.execute(batch).responses if response is not None]
