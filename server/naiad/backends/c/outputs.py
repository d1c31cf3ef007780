"""The outputs that a library gives while one batch runs, and the responses that come of them.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from naiad.backends.c import abi
from naiad.backends.c.memory import FreshMemory, OutputMemory, Place
from naiad.backends.c.rules import Given, OutputRules, WrongError
from naiad.backends.instance import Call, Output, Response
from naiad.backends.python.api.datatypes import deserialize_bytes_tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError

_INTERNAL, _CANCELLED = 2, 8


class BatchOutputs:
    """What has come of a batch so far. Any thread of the library may ask for memory.

    Args:
        batch: its requests.
        rules: what outputs may be.
        memory: where they are written to.
        who: names the instance, for messages.
        decoupled: whether outputs may be left out, and have another number of rows than the request.

    Attributes:
        times: when computing began and ended, if the library says so.
        deferred: the positions of requests whose responses are sent by themselves; see `deferred.py`.
    """

    def __init__(
        self,
        batch: "Sequence[Call]",
        rules: OutputRules,
        memory: "OutputMemory | FreshMemory",
        *,
        who: str,
        decoupled: bool = False,
    ) -> None:
        self._batch = batch
        self._rules = rules
        self._memory = memory
        self._who = who
        self._given: list[dict[str, tuple[Given, Place, int]]] = [{} for _ in batch]
        self._parameters: dict[int, dict[str, Any]] = {}
        self._errors: dict[int, InferenceError] = {}
        self._decoupled = decoupled
        self.times: tuple[int, int] | None = None
        self.deferred: set[int] = set()

    def defer(self, index: int) -> "Call | None":
        """Take a request out of the batch; None if there is no such request, or it is out, or has an output or an error."""
        if (
            index >= len(self._batch)
            or index in self.deferred
            or index in self._errors
            or self._given[index]
        ):
            return None
        self.deferred.add(index)
        return self._batch[index]

    def output(  # noqa: PLR0917 - as the header has it
        self,
        index: int,
        name: "bytes | None",
        datatype: int,
        shape: "int | None",
        rank: int,
        size: int,
    ) -> int:
        """The address of memory for an output of a request; 0 if there is none. See `naiad_host.output`; `shape` is an address."""
        if index >= len(self._batch):
            self.fail_all(f"it gives an output of request {index} of a batch of {len(self._batch)}")
            return 0
        if index in self.deferred:
            self.fail_all(f"it gives an output of request {index} of a batch that it has deferred")
            return 0
        rows = None if self._decoupled else self._batch[index].batch_size
        try:
            given = self._rules.given(name, datatype, shape, rank, size, rows)
            place = self._memory.take(size)
        except WrongError as wrong:
            self.fail(index, _INTERNAL, str(wrong))
            return 0
        except MemoryError:
            self.fail(index, _INTERNAL, f"there is no memory for the {size} bytes of an output")
            return 0
        output = given.spec.name
        of_request = self._given[index]
        if output in of_request:
            self.fail(index, _INTERNAL, f"it gives output '{output}' twice")
            return 0
        of_request[output] = given, place, size
        return place[2]

    def parameter(self, index: int, name: bytes, value: bytes) -> None:
        """A parameter of the response to a request; see `naiad_host.parameter`."""
        key = name.decode("utf-8", "replace")
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if index >= len(self._batch) or not key or not _may_be_sent(parsed):
            shown = value.decode("utf-8", "replace")[:200]
            self.fail(index, _INTERNAL, f"it gives parameter '{key}' the value {shown}: it must be a finite number, of 64 bits if it is whole, true, false or a text as JSON")  # fmt: skip
            return
        self._parameters.setdefault(index, {})[key] = parsed

    def fail(self, index: int, status: int, text: str) -> None:
        """A request fails. The first error of each counts."""
        if index >= len(self._batch):
            self.fail_all(f"it fails request {index} of a batch of {len(self._batch)}: {text}")
        elif index not in self._errors:
            self._errors[index] = failure(self._who, status, text)

    def fail_all(self, text: str) -> None:
        """Every request fails that has not failed yet."""
        for index in range(len(self._batch)):
            self.fail(index, _INTERNAL, text)

    def cancelled(self, index: int) -> bool:
        """Whether the client of a request has gone."""
        return index < len(self._batch) and self._batch[index].cancelled

    def responses(self) -> "list[Response | None]":
        """One for each request; None for one that is deferred."""
        if not self.deferred:
            return self._plain() or [self.response(index) for index in range(len(self._batch))]
        return [
            None if index in self.deferred else self.response(index)
            for index in range(len(self._batch))
        ]

    def _plain(self) -> "list[Response | None] | None":
        """The same for a batch of a model with one output, of numbers, that every request has got and nothing else, as most have; None for others."""
        if len(self._rules.outputs) != 1 or self._errors or self._parameters:
            return None
        ((name, datatype),) = self._rules.outputs
        found: list[Response | None] = []
        for given in self._given:
            if not given:
                return None
            (_, dims, dtype, _), (memory, at, _), _ = given[name]
            if dtype is None:
                return None
            found.append(Response([(name, datatype, np.ndarray(dims, dtype, memory, at))], {}))
        return found

    def response(self, index: int) -> Response:
        """That to one request."""
        call = self._batch[index]
        outputs: list[Output] = []
        error = self._errors.get(index)
        if error is None:
            of_request, wanted = self._given[index], call.request.output_names
            for name, datatype in self._rules.outputs:
                if wanted and name not in wanted:
                    continue
                found = of_request.get(name)
                if found is None:
                    if self._decoupled:
                        continue
                    error = self._missing(name, call)
                    break
                given, (memory, at, _), size = found
                if given.dtype is None:
                    try:
                        values = _elements(memory[at : at + size], given.dims)
                    except ValueError as wrong:
                        error = failure(self._who, _INTERNAL, f"output '{name}' is not a valid BYTES tensor: {wrong}")  # fmt: skip
                        break
                else:
                    values = np.ndarray(given.dims, given.dtype, memory, at)
                outputs.append((name, datatype, values))
        if error is not None:
            return Response([], {}, error)
        return Response(outputs, self._parameters.get(index, {}))

    def _missing(self, name: str, call: Call) -> InferenceError:
        if call.cancelled:
            return failure(self._who, _CANCELLED, "the request was cancelled")
        text = f"it gave no output '{name}', and did not fail the request"
        return failure(self._who, _INTERNAL, text)


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


def _may_be_sent(value: Any) -> bool:
    """Whether every protocol has a parameter of this value."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -(1 << 63) <= value < 1 << 64  # a truth value as well


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
