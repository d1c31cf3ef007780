"""The model.py of a bound function: makes its arguments of requests, and responses of what it returns. In the threads of its instances."""

import collections.abc
import logging
import threading
import traceback
import typing
from typing import Any

import numpy as np

from naiad.backends.python.api.datatypes import BF16 as BF16_CODE
from naiad.backends.python.api.errors import TritonError, TritonErrorCode
from naiad.backends.python.api.request import InferenceRequest
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.tensor import Tensor as ModelTensor, parts_of, wrap
from naiad.core import datatypes
from naiad.core.request import ParameterValue
from naiad.core.values import Array, to_tensor
from naiad.embed.functions import Function, FunctionModel, Tensor
from naiad.errors import InferenceError

_log = logging.getLogger("naiad.embed")

_BOUND: dict[str, FunctionModel] = {}
_ONE = threading.Lock()

_FINAL = 1
_AS_THEY_ARE = frozenset(datatypes.ALL) - {datatypes.BYTES, datatypes.BF16}
"""Arrays of these need nothing: the host copies those that the function still has."""

_OUR_FILE = __file__


class Request(dict[str, Array]):
    """The inputs of a request by name, for a function with takes="requests".

    Attributes:
        parameters: by name.
        request_id: the client's name for it.
        correlation_id: its sequence; 0 or "" for none.
        requested_outputs: names; empty for all.
    """

    __slots__ = ("_request", "correlation_id", "parameters", "request_id", "requested_outputs")

    def __init__(self, request: InferenceRequest) -> None:
        super().__init__(_inputs(request))
        self._request = request
        self.parameters: dict[str, ParameterValue] = _parameters(request)
        self.request_id: str = request.request_id()
        self.correlation_id: int | str = request.correlation_id()
        self.requested_outputs: list[str] = list(request.requested_output_names())

    def is_cancelled(self) -> bool:
        """Whether the client has gone."""
        return bool(self._request.is_cancelled())


def keep(key: str, model: FunctionModel) -> None:
    """Have model.py files find a function by this key, until `forget`."""
    with _ONE:
        _BOUND[key] = model


def forget(keys: collections.abc.Iterable[str]) -> None:
    """The server of these functions has stopped."""
    with _ONE:
        for key in keys:
            _BOUND.pop(key, None)


def bound_class(key: str) -> type:
    """The TritonPythonModel of the function with this key."""
    with _ONE:
        model = _BOUND[key]
    base = _AsyncModel if model.is_async else _DecoupledModel if model.decoupled else _Model
    return type("TritonPythonModel", (base,), {"bound": model})


class _WrongError(Exception):
    """What a function returned does not fit its declaration."""


class _Base:
    bound: typing.ClassVar[FunctionModel]

    def initialize(self, args: dict[str, str]) -> None:
        """Choose the function of this instance."""
        functions = self.bound.functions
        number = args["model_instance_name"].rpartition("_")[2]
        self._function: Function = functions[int(number) % len(functions)]
        self._names = [str(each.name) for each in self.bound.outputs]

    def _groups(
        self, requests: collections.abc.Sequence[InferenceRequest]
    ) -> list[tuple[list[int], dict[str, Array]]]:
        """The requests that a call has, by their places, and its arguments."""
        batched = self.bound.max_batch_size and not self.bound.decoupled
        groups: dict[tuple[object, ...], tuple[list[int], list[dict[str, Array]]]] = {}
        for place, request in enumerate(requests):
            inputs = _inputs(request)
            key: tuple[object, ...] = tuple(sorted(inputs)) if batched else (place,)
            places, each = groups.setdefault(key, ([], []))
            places.append(place)
            each.append(inputs)
        return [
            (places, each[0] if len(each) == 1 else _joined(each))
            for places, each in groups.values()
        ]

    def _split(
        self, returned: Any, requests: collections.abc.Sequence[InferenceRequest]
    ) -> list[InferenceResponse]:
        """The responses of the outputs of a call."""
        rows = [_rows(request) for request in requests] if self.bound.max_batch_size else []
        outputs = self._outputs(returned, sum(rows) if rows else None)
        if len(requests) == 1:
            return [
                InferenceResponse([_model_tensor(name, *each) for name, each in outputs.items()])
            ]
        responses, start = [], 0
        for count in rows:
            end = start + count
            responses.append(
                InferenceResponse(
                    [
                        _model_tensor(name, array[start:end], datatype)
                        for name, (array, datatype) in outputs.items()
                    ]
                )
            )
            start = end
        return responses

    def _each(
        self, returned: Any, requests: collections.abc.Sequence[InferenceRequest]
    ) -> list[InferenceResponse]:
        """The responses of what a function with takes="requests" returned."""
        bound = self.bound
        if not isinstance(returned, list | tuple) or len(returned) != len(requests):
            what = (
                f"{len(returned)}"
                if isinstance(returned, list | tuple)
                else repr(type(returned).__name__)
            )
            raise _WrongError(
                f"returned {what} for {len(requests)} requests; expected a list with the outputs of each (takes='requests')"
            )
        responses = []
        for outputs, request in zip(returned, requests, strict=True):
            try:
                if isinstance(outputs, BaseException):
                    responses.append(self._failure(outputs))
                    continue
                responses += self._split(outputs, [request])
            except _WrongError as error:
                responses.append(self._failure(error))
        assert bound.takes == "requests"
        return responses

    def _outputs(
        self, returned: Any, rows: int | None
    ) -> dict[str, tuple[Array, datatypes.DataType]]:
        specs = self.bound.outputs
        names = self._names
        if returned is None:
            raise _WrongError(f"returned None; expected the outputs {', '.join(names)}")
        if isinstance(returned, collections.abc.Mapping):
            by_name = dict(returned)
        elif len(specs) == 1 and not isinstance(returned, list | tuple):
            by_name = {names[0]: returned}
        elif isinstance(returned, list | tuple) and len(returned) == len(specs):
            by_name = dict(zip(names, returned, strict=True))
        else:
            raise _WrongError(
                f"returned {type(returned).__name__}; expected a dict of the outputs {', '.join(names)}, or a list of {len(specs)} arrays"
            )
        if by_name.keys() != set(names):
            raise _WrongError(
                f"returned the outputs {', '.join(map(str, by_name)) or 'none'}; expected {', '.join(names)}"
            )
        return {
            name: _checked(spec, by_name[name], rows)
            for name, spec in zip(names, specs, strict=True)
        }

    def _failure(self, error: BaseException) -> InferenceResponse:
        name = self.bound.name
        if isinstance(error, InferenceError):
            return InferenceResponse(
                error=TritonError(error.message, TritonErrorCode[error.code.name])
            )
        if isinstance(error, _WrongError):
            return InferenceResponse(error=TritonError(f"model '{name}': its function {error}"))
        frames = [
            each for each in traceback.extract_tb(error.__traceback__) if each.filename != _OUR_FILE
        ]
        where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        _log.error("model '%s': its function failed", name, exc_info=error)
        return InferenceResponse(
            error=TritonError(
                f"model '{name}': its function raised {type(error).__name__}: {error}{where}"
            )
        )


class _Model(_Base):
    """A function with one result per request."""

    def execute(self, requests: list[InferenceRequest]) -> list[InferenceResponse]:
        """Call the function once, or once per group of requests with the same inputs."""
        if self.bound.takes == "requests":
            try:
                return self._each(self._function([Request(each) for each in requests]), requests)
            except Exception as error:  # noqa: BLE001 - whatever it raises fails its requests
                return [self._failure(error)] * len(requests)
        if len(requests) == 1:
            try:
                return self._split(self._function(**_inputs(requests[0])), requests)
            except Exception as error:  # noqa: BLE001 - as above
                return [self._failure(error)]
        responses: list[Any] = [None] * len(requests)
        for places, arguments in self._groups(requests):
            some = [requests[place] for place in places]
            try:
                made = self._split(self._function(**arguments), some)
            except Exception as error:  # noqa: BLE001 - as above
                made = [self._failure(error)] * len(some)
            for place, response in zip(places, made, strict=True):
                responses[place] = response
        return responses


class _DecoupledModel(_Base):
    """A generator: what it yields is a response each."""

    def execute(self, requests: list[InferenceRequest]) -> None:
        """Run it for each request."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                for outputs in self._function(**_inputs(request)):
                    if sender.is_cancelled():
                        break
                    sender.send(self._split(outputs, [request])[0])
            except Exception as error:  # noqa: BLE001 - whatever it raises fails its request
                sender.send(self._failure(error), flags=_FINAL)
            else:
                sender.send(flags=_FINAL)


class _AsyncModel(_Base):
    """A coroutine function, or an asynchronous generator."""

    async def execute(self, requests: list[InferenceRequest]) -> list[InferenceResponse] | None:
        """Await it as `_Model` calls it. Batches follow each other, those of a generator run side by side."""
        if self.bound.decoupled:
            for request in requests:
                await self._generate(request)
            return None
        if self.bound.takes == "requests":
            try:
                returned = await self._function([Request(each) for each in requests])
                return self._each(returned, requests)
            except Exception as error:  # noqa: BLE001 - whatever it raises fails its requests
                return [self._failure(error)] * len(requests)
        responses: list[Any] = [None] * len(requests)
        for places, arguments in self._groups(requests):
            some = [requests[place] for place in places]
            try:
                made = self._split(await self._function(**arguments), some)
            except Exception as error:  # noqa: BLE001 - as above
                made = [self._failure(error)] * len(some)
            for place, response in zip(places, made, strict=True):
                responses[place] = response
        return responses

    async def _generate(self, request: InferenceRequest) -> None:
        sender = request.get_response_sender()
        try:
            async for outputs in self._function(**_inputs(request)):
                if sender.is_cancelled():
                    break
                sender.send(self._split(outputs, [request])[0])
        except Exception as error:  # noqa: BLE001 - whatever it raises fails its request
            sender.send(self._failure(error), flags=_FINAL)
        else:
            sender.send(flags=_FINAL)


def _inputs(request: InferenceRequest) -> dict[str, Array]:
    inputs = {}
    for tensor in request.inputs():
        name, array, code = parts_of(tensor)
        inputs[name] = array.view(datatypes.BF16.dtype) if code == BF16_CODE else tensor.as_numpy()
    return inputs


def _parameters(request: InferenceRequest) -> dict[str, ParameterValue]:
    import json  # noqa: PLC0415 - few functions read them

    text = request.parameters()
    parameters: dict[str, ParameterValue] = json.loads(text) if text else {}
    return parameters


def _rows(request: InferenceRequest) -> int:
    return int(request.inputs()[0].shape()[0])


def _joined(each: collections.abc.Sequence[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([inputs[name] for inputs in each]) for name in each[0]}


def _checked(spec: Tensor, values: Any, rows: int | None) -> tuple[Array, datatypes.DataType]:
    name, wanted = str(spec.name), spec.datatype
    if type(values) is np.ndarray and values.dtype == wanted.dtype and wanted in _AS_THEY_ARE:
        array: Array = values
    else:
        try:
            tensor = to_tensor(name, values, wanted)
        except InferenceError as error:
            raise _WrongError(f"returned values that make no tensor: {error.message}") from None
        if tensor.datatype is not wanted:
            raise _WrongError(
                f"returned output '{name}' as {tensor.datatype.name}; expected {wanted.name}: return {name}.astype(…), or declare it so"
            )
        array = tensor.array
    shape = array.shape if rows is None else array.shape[1:]
    fits = shape == spec.shape or (
        len(shape) == len(spec.shape)
        and all(size in (-1, found) for size, found in zip(spec.shape, shape, strict=False))
    )
    if not fits or (rows is not None and array.shape[:1] != (rows,)):
        expected = list(spec.shape) if rows is None else [rows, *spec.shape]
        raise _WrongError(
            f"returned output '{name}' of shape {list(array.shape)}; expected {expected}"
        )
    return array, wanted


def _model_tensor(name: str, array: Array, datatype: datatypes.DataType) -> ModelTensor:
    if datatype is datatypes.BF16:
        return wrap(name, array.view(np.uint16), BF16_CODE)
    return ModelTensor(name, array)
