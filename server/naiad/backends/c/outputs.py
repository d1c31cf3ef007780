"""The outputs that a library gives while one batch runs: memory for each, held against the config before the library gets it.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Tuple  # noqa: UP035 - 3.8 cannot subscript the builtin one

import numpy as np

from naiad.backends.c import abi
from naiad.backends.instance import Call, Output, Response
from naiad.backends.python.api.datatypes import (
    BF16,
    BYTES,
    WIRE_NAMES,
    deserialize_bytes_tensor,
    triton_to_numpy_type,
)
from naiad.errors import ErrorCode, FailureReason, InferenceError

_DTYPES: "dict[int, np.dtype[Any]]" = {
    code: np.dtype("V2" if code == BF16 else triton_to_numpy_type(code)) for code in WIRE_NAMES
}
_INTERNAL, _CANCELLED = 2, 8
_LONGEST = 1 << 40
"""Bytes of an output beyond which no memory is asked for."""


class OutputSpec(NamedTuple):
    """An output of the config: its name, its datatype's wire name and the header's number, its dims as the backend sees them, with the batch's as -1."""

    name: str
    datatype: str
    code: int
    shape: Tuple[int, ...]  # noqa: UP006 - as above


class BatchOutputs:
    """What has come of a batch so far. Any thread of the library may ask for memory.

    Args:
        batch: its requests.
        specs: of the outputs, by name as the library gives it.
        batched: whether the first dimension is the batch.
        who: names the instance, for messages.

    Attributes:
        times: when computing began and ended, if the library says so.
    """

    def __init__(
        self,
        batch: "Sequence[Call]",
        specs: "dict[bytes, OutputSpec]",
        *,
        batched: bool,
        who: str,
    ) -> None:
        self._batch = batch
        self._specs = specs
        self._batched = batched
        self._who = who
        self._given: list[dict[str, Any]] = [{} for _ in batch]
        self._errors: dict[int, InferenceError] = {}
        self.times: tuple[int, int] | None = None

    def output(  # noqa: PLR0917 - as the header has it
        self, index: int, name: "bytes | None", datatype: int, shape: Any, rank: int, size: int
    ) -> int:
        """The address of memory for an output of a request; 0 if there is none. See `naiad_host.output`; `shape` is a pointer."""
        if index >= len(self._batch):
            self.fail_all(f"it gives an output of request {index} of a batch of {len(self._batch)}")
            return 0
        given = self._given[index]
        spec = None if name is None else self._specs.get(name)
        if spec is None or spec.name in given:
            twice = spec is not None and f"it gives output '{spec.name}' twice"
            self.fail(index, _INTERNAL, twice or self._unknown(name))
            return 0
        try:
            dims = _dims(spec, datatype, shape, rank)
            call = self._batch[index]
            _check_shape(spec, dims, call.batch_size if self._batched else None)
            array = _memory(spec, dims, size)
        except _WrongError as wrong:
            self.fail(index, _INTERNAL, str(wrong))
            return 0
        given[spec.name] = array, dims
        address: int = array.__array_interface__["data"][0]
        return address

    def fail(self, index: int, status: int, text: str) -> None:
        """A request fails. The first error of each counts."""
        if index >= len(self._batch):
            self.fail_all(f"it fails request {index} of a batch of {len(self._batch)}: {text}")
        elif index not in self._errors:
            self._errors[index] = self._error(status, text)

    def fail_all(self, text: str) -> None:
        """Every request fails that has not failed yet."""
        for index in range(len(self._batch)):
            self.fail(index, _INTERNAL, text)

    def cancelled(self, index: int) -> bool:
        """Whether the client of a request has gone."""
        return index < len(self._batch) and self._batch[index].cancelled

    def responses(self) -> "list[Response]":
        """One for each request."""
        answers: list[Response] = []
        for index, call in enumerate(self._batch):
            outputs: list[Output] = []
            error = self._errors.get(index)
            if error is None:
                outputs, error = self._of(index, call.request)
            answers.append(Response(outputs, {}) if error is None else Response([], {}, error))
        return answers

    def _of(self, index: int, request: Any) -> "tuple[list[Output], InferenceError | None]":
        given = self._given[index]
        wanted = request.output_names
        outputs: list[Output] = []
        for spec in self._specs.values():
            name = spec.name
            if wanted and name not in wanted:
                continue
            if name not in given:
                if self._batch[index].cancelled:
                    return [], self._error(_CANCELLED, "the request was cancelled")
                return [], self._error(
                    _INTERNAL, f"it gave no output '{name}', and did not fail the request"
                )
            array, dims = given[name]
            if spec.code == BYTES:
                try:
                    array = _elements(array, dims)
                except ValueError as error:
                    return [], self._error(
                        _INTERNAL, f"output '{name}' is not a valid BYTES tensor: {error}"
                    )
            outputs.append((name, spec.datatype, array))
        return outputs, None

    def _unknown(self, name: "bytes | None") -> str:
        listed = ", ".join(spec.name for spec in self._specs.values()) or "none"
        if name is None:
            return f"it gives an output without a name (NULL); the config lists {listed}"
        return f"it gives an output '{name.decode('utf-8', 'replace')[:200]}', and the config lists {listed}"

    def _error(self, status: int, text: str) -> InferenceError:
        return failure(self._who, status, text)


class _WrongError(Exception):
    """Something of an output is wrong; says what."""


def failure(who: str, status: int, text: str) -> InferenceError:
    """The error of a status and a text that a library gave; `who` names it."""
    code = abi.STATUS.get(status)
    if code is None:
        text = f"{text or 'no text'} (status {status}, which naiad_backend.h does not have)"
    return InferenceError(
        code or ErrorCode.INTERNAL,
        f"{who}: {text or 'it failed without a text'}",
        reason=FailureReason.BACKEND,
    )


def _dims(spec: OutputSpec, datatype: int, shape: Any, rank: int) -> "tuple[int, ...]":
    if datatype != spec.code:
        what = WIRE_NAMES.get(datatype, f"number {datatype}, which does not exist")
        raise _WrongError(
            f"it gives output '{spec.name}' with datatype {what}, and the config says {spec.datatype}"
        )
    scalar = not rank and spec.shape == (1,)
    if rank != len(spec.shape) and not scalar:
        raise _WrongError(
            f"it gives output '{spec.name}' with {rank} dimensions, and the config has {list(spec.shape)}"
        )
    if scalar:
        return (1,)
    if not shape:
        raise _WrongError(f"it gives output '{spec.name}' without a shape (NULL)")
    return tuple(shape[:rank])


def _check_shape(spec: OutputSpec, dims: "tuple[int, ...]", rows: "int | None") -> None:
    expected = spec.shape if rows is None else (rows, *spec.shape[1:])
    if dims == expected:
        return
    for size, dim in zip(dims, expected):  # noqa: B905 - 3.8 knows no strict; they are as long as each other
        if size < 0 or (dim != size and dim >= 0):
            raise _WrongError(
                f"it gives output '{spec.name}' the shape {list(dims)}, and it must be {list(expected)}"
            )


def _memory(spec: OutputSpec, dims: "tuple[int, ...]", size: int) -> Any:
    elements = math.prod(dims)
    if spec.code == BYTES:
        if size < 4 * elements or (size and not elements):
            raise _WrongError(
                f"it gives output '{spec.name}' {size} bytes for the {elements} elements of shape {list(dims)}: each has 4 bytes of its length first"
            )
    elif size != elements * _DTYPES[spec.code].itemsize:
        raise _WrongError(
            f"it gives output '{spec.name}' {size} bytes, and shape {list(dims)} of {spec.datatype} has "
            f"{elements * _DTYPES[spec.code].itemsize}"
        )
    none = f"there is no memory for the {size} bytes of output '{spec.name}'"
    if size > _LONGEST:
        raise _WrongError(none)
    try:
        if spec.code == BYTES:
            return np.zeros(max(1, size), np.uint8)[:size]
        array: np.ndarray[Any, Any] = np.empty(dims, _DTYPES[spec.code])
    except (MemoryError, ValueError):
        raise _WrongError(none) from None
    return array


def _elements(array: Any, dims: "tuple[int, ...]") -> Any:
    try:
        values = deserialize_bytes_tensor(array.tobytes())
    except struct.error:
        raise ValueError("the length of its last element is cut off") from None
    if len(values) != math.prod(dims):
        raise ValueError(
            f"it holds {len(values)} elements, and its shape {list(dims)} has {math.prod(dims)}"
        )
    return values.reshape(dims)
