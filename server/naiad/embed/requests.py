"""A program's arrays -> a request, and a response -> arrays. Pure.

The arrays of a result are the caller's own: what refers to memory of the server, of a batch or of the caller's inputs is copied, and nothing else.
"""

import collections.abc
import typing

import numpy as np

from naiad.core.datatypes import DataType
from naiad.core.request import (
    LATEST,
    SEQUENCE_END,
    SEQUENCE_START,
    InferRequest,
    ParameterValue,
    RequestedOutput,
)
from naiad.core.response import InferResponse
from naiad.core.tensor import PackedStrings, Tensor
from naiad.core.values import Array, Values, to_tensor
from naiad.errors import InferenceError

Inputs = collections.abc.Mapping[str, Values]
"""Values by the name of the input, in the shape that the model's metadata says: with the batch dimension where the model has one. An array keeps its
dtype, which must be the input's; lists and text become what the model's config says."""

Datatypes = collections.abc.Mapping[str, DataType]
"""The datatypes of a model's inputs, by name."""


class RequestOptions(typing.TypedDict, total=False):
    """What a request may have beside its inputs; all of it is optional.

    Attributes:
        version: of the model; by default the newest that serves.
        outputs: names of the outputs to return; by default all.
        parameters: of the request, for the model: bool, int, float or str by name.
        request_id: the caller's own name for it, which the model and the log see.
        priority: 1 is the highest; 0: the model's default.
        queue_timeout_us: microseconds that it may wait in the model's queue, if the model's config allows it; 0: no limit.
        sequence_id: the sequence that it belongs to, for a model with a sequence batcher; 0 or "": none.
        sequence_start: whether it is the first of its sequence.
        sequence_end: whether it is the last one.
    """

    version: int
    outputs: collections.abc.Sequence[str]
    parameters: collections.abc.Mapping[str, ParameterValue]
    request_id: str
    priority: int
    queue_timeout_us: int
    sequence_id: int | str
    sequence_start: bool
    sequence_end: bool


class Result(dict[str, Array]):
    """The outputs of a response by name: arrays in the shapes of the model's metadata, which belong to the caller. BYTES are object arrays of `bytes`.

    Attributes:
        model_name: the model that responded.
        model_version: its version.
        id: that of the request.
        parameters: set by the model.
    """

    __slots__ = ("id", "model_name", "model_version", "parameters")

    def __init__(self, response: InferResponse) -> None:
        super().__init__((tensor.name, _owned(tensor)) for tensor in response.outputs)
        self.model_name = response.model_name
        self.model_version = response.model_version
        self.id = response.id
        self.parameters = dict(response.parameters)

    def __missing__(self, name: str) -> typing.Never:
        raise KeyError(f"no output '{name}': there are {', '.join(self) or 'none'}")


def result_of(response: InferResponse) -> Result:
    """The outputs of a response.

    Raises:
        InferenceError: the request failed.
    """
    error = response.error
    if error is not None:
        # Responses of one batch share an error, and callers in several threads would share what is raised.
        raise InferenceError(error.code, error.message, reason=error.reason)
    return Result(response)


def all_arrays(inputs: Inputs) -> bool:
    """Whether the inputs say their datatypes themselves."""
    for values in inputs.values():  # noqa: SIM110 - a generator costs as much as a request's options
        if type(values) is not np.ndarray:
            return False
    return True


def make_request(
    model: str, inputs: Inputs, options: RequestOptions, datatypes: Datatypes
) -> InferRequest:
    """The request; arrays are read where they lie, until its response has come.

    Args:
        model: its name.
        inputs: see `Inputs`.
        options: what else it has, as `arguments.checked` gives them.
        datatypes: those of the model's inputs; empty if `all_arrays`.

    Raises:
        InferenceError: INVALID_ARG: values that no tensor can hold.
    """
    tensors = [to_tensor(name, values, datatypes.get(name)) for name, values in inputs.items()]
    if not options:
        return InferRequest(model, LATEST, "", tensors, [], {})
    flags = SEQUENCE_START if options.get("sequence_start") else 0
    flags |= SEQUENCE_END if options.get("sequence_end") else 0
    return InferRequest(
        model_name=model,
        model_version=options.get("version", LATEST),
        id=options.get("request_id", ""),
        inputs=tensors,
        requested_outputs=[RequestedOutput(name) for name in options.get("outputs", ())],
        parameters=dict(options.get("parameters", ())),
        priority=options.get("priority", 0),
        timeout_us=options.get("queue_timeout_us", 0),
        correlation_id=options.get("sequence_id", 0),
        flags=flags,
    )


def _owned(tensor: Tensor) -> Array:
    array = tensor.array
    kind = type(tensor)
    if kind is PackedStrings or (kind is Tensor and array.base is None and array.flags.writeable):
        return array
    return array.copy()
