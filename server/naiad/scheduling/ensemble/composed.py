"""The response of an ensemble, made of the values of its outputs (rows 4.12, 14.5). Pure."""

import collections.abc

from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core.request import SEQUENCE_END, SEQUENCE_START, Parameters
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.scheduling.ensemble.plan import Value, as_named, batch_shape

_NO_SEQUENCE: Parameters = {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
"""What a response says that belongs to no sequence: one object for all, as `NO_PARAMETERS`."""


def response_of(
    config: ModelConfig,
    version: int,
    request_id: str,
    outputs: collections.abc.Mapping[str, Value],
) -> InferResponse:
    """The response of these outputs.

    Args:
        config: of the ensemble.
        version: of the ensemble.
        request_id: of the request.
        outputs: those that were asked for, in any order; one whose value has no tensor is left out.
    """
    batched = config.max_batch_size > 0
    tensors: list[Tensor] = []
    parameters: Parameters = NO_PARAMETERS
    for spec in config.outputs:
        name = spec.name
        value = outputs.get(name)
        if value is None or value.tensor is None:
            continue
        shape = value.tensor.shape
        if spec.reshape is not None or batched != (value.batch_size > 0):
            shape = _output_shape(shape, value, spec, batched=batched)
        tensors.append(as_named(value.tensor, name, shape))
        if value.sequence is not None:
            parameters = parameters_of(value.sequence)
    return InferResponse(config.name, version, request_id, tensors, parameters)


def _output_shape(
    shape: tuple[int, ...], value: Value, spec: TensorSpec, *, batched: bool
) -> tuple[int, ...]:
    """The shape that the client sees, after `reshape` (row 4.12)."""
    dims = spec.reshape if spec.reshape is not None else spec.dims
    shape = batch_shape(shape, dims, batched=batched, batch_size=value.batch_size)
    if spec.reshape is None:
        return shape
    batch = shape[:1] if batched else ()
    free = iter(
        size for wanted, size in zip(spec.reshape, shape[len(batch) :], strict=True) if wanted == -1
    )
    return (*batch, *(next(free) if size == -1 else size for size in spec.dims))


def parameters_of(sequence: tuple[int | str, int]) -> Parameters:
    """What a response says of its sequence: id and flags."""
    identity, flags = sequence
    if identity == 0 and not flags:
        return _NO_SEQUENCE
    return {
        "sequence_id": identity,
        "sequence_start": bool(flags & SEQUENCE_START),
        "sequence_end": bool(flags & SEQUENCE_END),
    }


def sequence_of(parameters: Parameters, before: tuple[int | str, int]) -> tuple[int | str, int]:
    """The sequence that a model answers with."""
    identity = parameters.get("sequence_id", before[0])
    flags = 0
    if parameters.get("sequence_start"):
        flags |= SEQUENCE_START
    if parameters.get("sequence_end"):
        flags |= SEQUENCE_END
    return identity if isinstance(identity, str) else int(identity), flags
