"""Requests and responses as tests write and read them: dicts of numpy arrays. Pure."""

import collections.abc
import dataclasses
from typing import Any

import numpy as np

from naiad.config.model_config import TensorSpec
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.core.request import LATEST, InferRequest, ParameterValue, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError, invalid

Array = np.ndarray[Any, Any]
Values = Array | collections.abc.Sequence[Any]
"""An array, or nested lists of numbers, str or bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Attributes:
        inputs: by name, with the batch dimension where the model has one. An array is sent as what it is; lists, and arrays of text,
            become what the model's config says.
        parameters: of the request.
        id: the caller's own name for it.
        correlation_id: the sequence it belongs to.
        flags: sequence flags.
        timeout_us: microseconds; shown to the model, nothing else.
        requested_outputs: names; empty means all.
        cancelled: the client has gone: `is_cancelled()` returns true.
    """

    inputs: collections.abc.Mapping[str, Values]
    parameters: collections.abc.Mapping[str, ParameterValue] = dataclasses.field(
        default_factory=dict
    )
    _: dataclasses.KW_ONLY
    id: str = ""
    correlation_id: int | str = 0
    flags: int = 0
    timeout_us: int = 0
    requested_outputs: collections.abc.Sequence[str] = ()
    cancelled: bool = False

    def __getitem__(self, name: str) -> Array:
        """An input as an array, for fakes.

        Raises:
            KeyError: there is no such input; the message says which there are.
        """
        try:
            return np.asarray(self.inputs[name])
        except KeyError:
            raise KeyError(
                f"no input '{name}': there are {', '.join(self.inputs) or 'none'}"
            ) from None


@dataclasses.dataclass(frozen=True, slots=True)
class Response:
    """A response.

    Attributes:
        outputs: by name; BYTES as object arrays of bytes.
        parameters: of the response.
        error: why the request failed; there are no outputs then.
    """

    outputs: collections.abc.Mapping[str, Array]
    parameters: collections.abc.Mapping[str, ParameterValue] = dataclasses.field(
        default_factory=dict
    )
    error: InferenceError | None = None

    def __getitem__(self, name: str) -> Array:
        """An output.

        Raises:
            InferenceError: the request failed.
            KeyError: there is no such output; the message says which there are.
        """
        if self.error is not None:
            raise self.error
        try:
            return self.outputs[name]
        except KeyError:
            raise KeyError(
                f"no output '{name}': there are {', '.join(self.outputs) or 'none'}"
            ) from None


def to_request(
    request: Request, *, model: str, specs: collections.abc.Sequence[TensorSpec]
) -> InferRequest:
    """A request as the server has it.

    Raises:
        InferenceError: INVALID_ARG: values that no tensor can hold.
    """
    known = {spec.name: spec.datatype for spec in specs}
    return InferRequest(
        model_name=model,
        model_version=LATEST,
        id=request.id,
        inputs=[
            to_tensor(name, values, known.get(name)) for name, values in request.inputs.items()
        ],
        requested_outputs=[RequestedOutput(name) for name in request.requested_outputs],
        parameters=dict(request.parameters),
        timeout_us=request.timeout_us,
        correlation_id=request.correlation_id,
        flags=request.flags,
    )


def to_tensor(name: str, values: Values, wanted: DataType | None) -> Tensor:
    """A tensor.

    Args:
        name: its name.
        values: its values.
        wanted: its datatype where the values do not say it themselves; None when it is not known.

    Raises:
        InferenceError: INVALID_ARG: values that no tensor can hold.
    """
    is_array = isinstance(values, np.ndarray)
    array = values if isinstance(values, np.ndarray) else _listed(name, values, wanted)
    if array.dtype.kind in "OUS":
        return _text(name, array)
    if wanted is datatypes.BF16 and (not is_array or array.dtype == np.float32):
        array = array.astype(datatypes.BF16.dtype)
    datatype = datatypes.BY_DTYPE.get(array.dtype)
    if datatype is None:
        raise invalid(
            f"'{name}' is an array of {array.dtype}, for which there is no datatype: {_names()} have one"
        )
    # As from a client: the model may read it, and gets a copy when it writes.
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return Tensor(name, datatype, array.shape, array)


def from_response(response: InferResponse) -> Response:
    """A response as tests read it."""
    return Response(
        outputs={tensor.name: tensor.array for tensor in response.outputs},
        parameters=dict(response.parameters),
        error=response.error,
    )


def _listed(name: str, values: Any, wanted: DataType | None) -> Array:
    dtype = None if wanted is None or wanted is datatypes.BYTES else wanted.dtype
    try:
        return np.asarray(values, dtype=dtype)
    except (ValueError, TypeError, OverflowError) as error:
        kind = "" if wanted is None else f" of {wanted.name}"
        raise invalid(f"the values of '{name}' cannot become a tensor{kind}: {error}") from error


def _text(name: str, array: Array) -> Tensor:
    elements = np.empty(array.size, dtype=object)
    for place, each in enumerate(array.reshape(-1)):
        if not isinstance(each, (bytes, str)):
            raise invalid(
                f"'{name}' holds {each!r}, of type {type(each).__name__}: the elements of BYTES are bytes or str"
            )
        try:
            elements[place] = bytes(each) if isinstance(each, bytes) else each.encode()
        except UnicodeEncodeError:
            raise invalid(
                f"'{name}' holds {each!r}, half of a surrogate pair, which no client can send: give the bytes"
            ) from None
    elements = elements.reshape(array.shape)
    elements.flags.writeable = False
    return Tensor(name, datatypes.BYTES, elements.shape, elements)


def _names() -> str:
    return ", ".join(str(each.dtype) for each in datatypes.ALL if each.size)
