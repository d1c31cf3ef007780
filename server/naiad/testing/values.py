"""Requests and responses as tests write and read them: dicts of numpy arrays. Pure."""

import collections.abc
import dataclasses

import numpy as np

from naiad.config.model_config import TensorSpec
from naiad.core.request import LATEST, InferRequest, ParameterValue, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.values import Array, Values, to_tensor
from naiad.errors import InferenceError


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


def from_response(response: InferResponse) -> Response:
    """A response as tests read it."""
    return Response(
        outputs={tensor.name: tensor.array for tensor in response.outputs},
        parameters=dict(response.parameters),
        error=response.error,
    )
