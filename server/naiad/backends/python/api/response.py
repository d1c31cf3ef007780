"""What a model answers one request with (rows 15.13, 15.14)."""

import json
import operator
from collections.abc import Sequence
from typing import Any

from naiad.backends.python.api.errors import TritonError, TritonModelException
from naiad.backends.python.api.tensor import Tensor

_NONE: "dict[str, Any]" = {}


class InferenceResponse:
    """A response.

    Args:
        output_tensors: in any order; those that the request did not ask for are dropped.
        error: the request failed; outputs are ignored.
        parameters: by name; bool, int or str.

    Raises:
        TritonModelException: an output that is None, or a parameter of another type.
        TypeError: an output that is not a tensor, or an error that is not a TritonError.
    """

    __slots__ = ("_error", "_outputs", "_parameters")

    def __init__(
        self,
        output_tensors: "Sequence[Tensor]" = (),
        error: "TritonError | None" = None,
        parameters: "dict[str, Any] | None" = None,
    ) -> None:
        # A list of its own: the model may fill the one that it gave for the next response.
        outputs = list(output_tensors)
        for tensor in outputs:
            if not isinstance(tensor, Tensor):
                raise _not_a_tensor(tensor)
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(
                f"InferenceResponse(error=…) takes a TritonError, not a {type(error).__name__}; write "
                "pb_utils.TritonError(str(error))"
            )
        self._outputs = outputs
        self._error = error
        self._parameters = _NONE if parameters is None else checked_parameters(parameters)

    def output_tensors(self) -> "list[Tensor]":
        """Its outputs."""
        return list(self._outputs)

    def has_error(self) -> bool:
        """Whether the request failed."""
        return self._error is not None

    def error(self) -> "TritonError | None":
        """Why it failed."""
        return self._error

    def parameters(self) -> str:
        """Its parameters as JSON."""
        return json.dumps(self._parameters)


contents_of = operator.attrgetter("_outputs", "_error", "_parameters")
"""A response's tensors, error and parameters (a dict), for hosts."""


def _not_a_tensor(value: Any) -> Exception:
    if value is None:
        return TritonModelException("Output tensor for inference response should not be empty.")
    return TypeError(
        f"InferenceResponse(output_tensors=[…]) takes pb_utils.Tensor objects, not {type(value).__name__}"
    )


def checked_parameters(parameters: "dict[str, Any]") -> "dict[str, Any]":
    """Parameters that a request or a response may have, as they are now: the dict is the model's to go on with.

    Raises:
        TritonModelException: not a dict, a name or a value of another type, an int that takes more than 64 bits, or text that is not valid Unicode.
    """
    if not isinstance(parameters, dict):
        raise TritonModelException(f"Expect parameters to be a dict, got {type(parameters)}")
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(
                f"Expect parameters keys to have type str, found type {type(key)}"
            )
        require_text("parameters", key)
        if isinstance(value, str):
            require_text(f"parameters['{key}']", value)
        elif not isinstance(value, int):  # as bool is
            raise TritonModelException(
                f"Expect parameters values to have type bool/int/str, found type {type(value)} ('{key}')"
            )
        elif not -_INT64 <= value < _INT64:
            raise TritonModelException(
                f"parameters['{key}'] is {value}, which takes more than 64 bits: give it as a str"
            )
    return dict(parameters)


_INT64 = 1 << 63


def require_text(what: str, text: str) -> None:
    """Check that a str can be sent as UTF-8: half a surrogate pair (from a file name that is not UTF-8) cannot.

    Raises:
        TritonModelException: it cannot.
    """
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TritonModelException(
            f"{what}: {text!r} is not valid text (it holds half a surrogate pair): text.encode('utf-8', 'replace').decode() is"
        ) from None
