"""Requests, responses and configs in one line each."""

import collections.abc
import itertools

import numpy as np

from naiad.config.model_config import (
    DynamicBatching,
    InstanceGroup,
    InstanceKind,
    ModelConfig,
    Optimization,
    TensorSpec,
)
from naiad.config.sequence_batching import SequenceBatching
from naiad.core.datatypes import FP32
from naiad.core.inference import Inference, OnResponse
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError

MODEL = "m"
_ids = itertools.count(1)


def make_tensor(name: str, *shape: int) -> Tensor:
    """Zeros of FP32."""
    return Tensor(name, FP32, shape, np.zeros(shape, np.float32))


def make_request(
    *inputs: Tensor, request_id: str = "", priority: int = 0, timeout_us: int = 0
) -> InferRequest:
    """A request to model "m"."""
    return InferRequest(
        MODEL, LATEST, request_id, list(inputs), [], {}, priority=priority, timeout_us=timeout_us
    )


def ignore(_response: InferResponse) -> None:
    """A callback for tests that ignore the response."""


def make_inference(
    *inputs: Tensor,
    rows: int = 1,
    priority: int = 0,
    timeout_us: int = 0,
    received_ns: int = 0,
    on_response: OnResponse = ignore,
) -> Inference:
    """An inference whose request has an id of its own."""
    request = make_request(
        *inputs, request_id=f"r{next(_ids)}", priority=priority, timeout_us=timeout_us
    )
    return Inference(request, on_response, batch_size=rows, received_ns=received_ns)


def make_response(inference: Inference, *, error: InferenceError | None = None) -> InferResponse:
    """What version 1 of model "m" answers to it."""
    return InferResponse(MODEL, 1, inference.request.id, [], {}, error)


def make_spec(name: str = "x", *dims: int, optional: bool = False) -> TensorSpec:
    """An FP32 input or output."""
    return TensorSpec(name=name, datatype=FP32, dims=dims or (1,), optional=optional)


def make_config(
    *,
    max_batch_size: int = 8,
    inputs: collections.abc.Sequence[TensorSpec] = (make_spec(),),
    outputs: collections.abc.Sequence[TensorSpec] = (make_spec("y"),),
    batching: DynamicBatching | None = None,
    sequences: SequenceBatching | None = None,
    name: str = MODEL,
) -> ModelConfig:
    """The config of model "m"; without `batching` it has the default scheduler."""
    return ModelConfig(
        name=name,
        platform="",
        backend="scripted",
        default_model_filename="",
        max_batch_size=max_batch_size,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        instance_groups=(InstanceGroup(name=f"{name}_0", kind=InstanceKind.CPU, count=1),),
        dynamic_batching=batching,
        optimization=Optimization(),
        decoupled=False,
        parameters={},
        metric_tags={},
        op_library_filenames=(),
        message=None,
        sequence_batching=sequences,
    )
