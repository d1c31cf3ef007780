"""The text of BYTES tensors for frameworks whose strings are UTF-8: bytes of a client as `str`, and back.

A client may send any bytes; those that are not UTF-8 are refused before they reach a batch.
"""

import collections.abc
from typing import Any

from naiad.backends.batch import Array
from naiad.backends.instance import Call, Execution, InputTensor, Output, Response
from naiad.core import datatypes
from naiad.core.tensor import Tensor, object_array
from naiad.errors import FailureReason, InferenceError, invalid

_NO_OUTPUTS: list[Output] = []
_NO_PARAMETERS: dict[str, Any] = {}

Execute = collections.abc.Callable[
    [
        collections.abc.Sequence[Call],
        collections.abc.Sequence[collections.abc.Sequence[InputTensor]],
    ],
    Execution[Response],
]
"""Runs a batch of requests with these inputs, one sequence for each request."""


def execute_decoded(
    batch: collections.abc.Sequence[Call],
    execute: Execute,
    *,
    of: str,
    now_ns: collections.abc.Callable[[], int],
) -> Execution[Response]:
    """Run a batch whose text is decoded first (`of`: see `decoded`). A request whose text is not UTF-8 fails alone, before the run.

    Raises:
        InferenceError: what `execute` raises.
    """
    good: list[Call] = []
    inputs: list[list[InputTensor]] = []
    failed: dict[int, Response] = {}
    for index, call in enumerate(batch):
        request = call.request
        try:
            texts = [decoded(tensor, label=request.label, of=of) for tensor in request.inputs]
        except InferenceError as error:
            failed[index] = Response(_NO_OUTPUTS, _NO_PARAMETERS, error.bare())
        else:
            good.append(call)
            inputs.append(texts)
    if not good:
        now = now_ns()
        return Execution(list(failed.values()), now, now)
    execution = execute(good, inputs)
    if failed:
        rest = iter(execution.responses)
        execution.responses = [
            failed[index] if index in failed else next(rest) for index in range(len(batch))
        ]
    return execution


def decoded(tensor: InputTensor, *, label: str, of: str) -> InputTensor:
    """The tensor with text in place of bytes; a tensor of numbers as it is.

    Messages begin with `label`; `of` says in the plural what has to be UTF-8.

    Raises:
        InferenceError: INVALID_ARG: an element is not UTF-8; names the input and the element.
    """
    array = tensor.array  # once: it may be made when it is read
    if not array.dtype.hasobject:
        return tensor
    texts: list[str] = []
    for element in array.ravel().tolist():
        try:
            texts.append(element.decode())
        except UnicodeDecodeError as error:
            raise _not_utf8(tensor.name, len(texts), error, label=label, of=of) from error
    return Tensor(
        tensor.name, datatypes.BYTES, array.shape, object_array(texts).reshape(array.shape)
    )


def encoded(array: Array) -> Array:
    """The array with bytes in place of text."""
    return object_array([text.encode() for text in array.ravel().tolist()]).reshape(array.shape)


def _not_utf8(
    name: str, index: int, error: UnicodeDecodeError, *, label: str, of: str
) -> InferenceError:
    failed = invalid(
        f"{label}element {index} of input '{name}' is not UTF-8 ({error.reason} at byte {error.start}): {of} are UTF-8 "
        "text; encode the text as UTF-8, or send binary data as base64 text if the model expects that"
    )
    failed.reason = FailureReason.BACKEND
    return failed
