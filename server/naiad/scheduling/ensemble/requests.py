"""The requests of an ensemble's steps, made of the tensors that they need and of the request to the ensemble (rows 14.5, 14.7). Pure."""

import collections.abc

from naiad.core.request import InferRequest
from naiad.core.tensor import Tensor
from naiad.scheduling.ensemble.plan import (
    Following,
    PlannedStep,
    Selection,
    Value,
    as_named,
    batch_shape,
)


def inputs_of(
    step: PlannedStep, values: collections.abc.Mapping[str, Value]
) -> tuple[list[Tensor], int, tuple[int | str, int] | None]:
    """The inputs of a step, its batch size, and the sequence that its values belong to; None if they say nothing of it."""
    inputs: list[Tensor] = []
    sequence: tuple[int | str, int] | None = None
    batched = step.batched
    batch_size = 1 if batched else 0
    for name, source, dims in step.inputs:
        value = values[source]
        sequence = sequence or value.sequence
        tensor = value.tensor
        if tensor is None:
            continue
        shape = tensor.shape
        if batched != (value.batch_size > 0):
            shape = batch_shape(shape, dims, batched=batched, batch_size=value.batch_size)
        if batched and not inputs and shape:
            batch_size = shape[0]
        inputs.append(as_named(tensor, name, shape))
    return inputs, batch_size, sequence


def first_request(
    request: InferRequest,
    step: PlannedStep,
    inputs: list[Tensor],
    selection: Selection,
    sequence: tuple[int | str, int],
) -> InferRequest:
    """The request of a step that is not made of the one before it; `request` is that to the ensemble."""
    return InferRequest(
        step.model,
        step.version,
        request.id,
        inputs,
        selection.requested[step.index],
        request.parameters.copy() if request.parameters else request.parameters,
        request.priority,
        request.timeout_us,
        *sequence,
        on_device=selection.on_device.get(step.index),
    )


def next_request(before: InferRequest, following: Following, tensor: Tensor) -> InferRequest:
    """The request of the next step of a chain, behind that of the step which made the tensor."""
    step, name = following.step, following.input
    if type(tensor) is Tensor and not (array := tensor.array).flags.writeable:
        # What `as_named` gives, without the call.
        if tensor.name != name:
            tensor = Tensor(name, tensor.datatype, tensor.shape, array)
    else:
        tensor = as_named(tensor, name, tensor.shape)
    return InferRequest(
        step.model,
        step.version,
        before.id,
        [tensor],
        following.requested,
        before.parameters.copy() if before.parameters else before.parameters,
        before.priority,
        before.timeout_us,
        before.correlation_id,
        before.flags,
        on_device=following.on_device,
    )
