"""Generate requests and responses: flat JSON on the wire, tensors inside (rows 6.2-6.7). Pure.

A key that is an input's name is a tensor, any other a parameter of the request; nothing else of the protocol is said in the body. Messages
and statuses are those of Triton's HTTP front end (ConvertGenerateRequest, ExactMappingInput).
"""

import collections.abc
import math
import typing

import numpy as np
import orjson

from naiad.core.datatypes import BYTES, DataType
from naiad.core.record import Record
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor
from naiad.engine.api import ModelTraits
from naiad.errors import InferenceError, internal, invalid
from naiad.protocol.http.codec import json_values
from naiad.protocol.http.codec.infer_json import Target, wrong_type
from naiad.protocol.http.codec.json_document import parse, require_utf8, visit_objects
from naiad.protocol.http.codec.reply_json import printable
from naiad.protocol.http.codec.request_parameters import scalar

Json = typing.Any
NESTED = "parameters"
"""The one key whose object is read by the same rule (row 6.2)."""

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS


class _Input(Record, frozen=True):
    """An input as a generate request can fill it.

    Attributes:
        dims: with the batch dimension, which is just one more of any size.
        fixed: the product of its fixed dimensions.
        innermost: the place of its last dimension of any size; -1 when there is none.
    """

    name: str
    datatype: DataType
    dims: tuple[int, ...]
    fixed: int
    innermost: int
    quoted: bytes


class GenerateReader:
    """Reads the requests to one model version; all tensors of one may have `max_input_size` bytes together (row 1.11)."""

    def __init__(self, traits: ModelTraits, target: Target) -> None:
        self.traits = traits
        self._inputs = {
            spec.name: _input(
                spec.name, spec.datatype, spec.shape, batched=traits.max_batch_size > 0
            )
            for spec in traits.inputs
        }
        self._target = target

    def read(self, body: bytes) -> InferRequest:
        """The request of a body.

        Raises:
            InferenceError: INTERNAL for JSON that cannot be read and values of a wrong type (rows 1.10, 6.3, 6.4), INVALID_ARG
                for the rest.
        """
        root = parse(body)
        if type(root) is not dict:
            raise internal(
                'attempt to get members for non-object: send an object of inputs and parameters, e.g. {"INPUT": [1, 2]}'
            )
        name = root.get("id", "")
        if type(name) is not str:
            raise wrong_type("id", "string", '"id": "<text>", or nothing')
        require_utf8(name, "id")
        request = InferRequest(self._target.model, self._target.version, name, [], [], {})
        if any(body.count(spec.quoted) > 1 for spec in self._inputs.values()):
            _look_for_repeats(body, self._inputs, request)
        _Members(self._inputs, self._target.max_input_size, request, body).take(root)
        return request


class _Members:
    """Takes the members of a request, in their order."""

    def __init__(
        self, inputs: dict[str, _Input], limit: int, request: InferRequest, document: bytes
    ) -> None:
        self._inputs = inputs
        self._limit = limit
        self._request = request
        self._document = document
        self._taken = 0  # bytes
        self._names = set[str]()

    def take(self, members: dict[str, Json], *, nested: bool = False) -> None:
        request = self._request
        for name, value in members.items():
            if name == NESTED and not nested:
                self._take_nested(value)
                continue
            spec = self._inputs.get(name)
            if spec is None:
                request.parameters[name] = _parameter(name, value)
                continue
            tensor = self._tensor(spec, value)
            if name in self._names:
                raise _twice(request, name)
            self._names.add(name)
            self._taken += tensor.array.nbytes
            request.inputs.append(tensor)

    def _tensor(self, spec: _Input, value: Json) -> Tensor:
        name, datatype = spec.name, spec.datatype
        values = value if type(value) is list else [value]
        count = len(values)
        size = _bytes_of(values) if datatype is BYTES else count * datatype.size
        if size > self._limit - self._taken:
            raise invalid(
                f"request size of {self._taken} bytes with input '{name}' of size {size} bytes exceeds the maximum allowed "
                f"input size of {self._limit}. Use --http-max-input-size to increase the limit."
            )
        shape = _shape_for(spec, count)
        array = json_values.read(
            values, datatype, name=name, shape=shape, count=count, document=self._document
        )
        return Tensor(name, datatype, shape, array)

    def _take_nested(self, value: Json) -> None:
        """Take the members of a nested object `parameters` (row 6.3)."""
        if NESTED in self._inputs:
            raise invalid(
                f"Keyword '{NESTED}' for nested schema also given as input tensor name: this model's input of that name cannot be sent "
                "to a generate endpoint; use /infer"
            )
        if type(value) is not dict:
            raise internal(
                f"Expected JSON object for keyword: '{NESTED}': attempt to access JSON non-object as object: send an object, or the "
                "parameters beside the inputs"
            )
        try:
            self.take(value, nested=True)
        except InferenceError as error:
            raise InferenceError(
                error.code, f"Converting keyword: '{NESTED}': {error.message}"
            ) from None


def _input(name: str, datatype: DataType, shape: tuple[int, ...], *, batched: bool) -> _Input:
    dims = (-1, *shape) if batched else shape
    free = [place for place, dim in enumerate(dims) if dim == -1]
    fixed = math.prod(dim for dim in dims if dim != -1)
    return _Input(name, datatype, dims, fixed, free[-1] if free else -1, orjson.dumps(name))


def _shape_for(spec: _Input, count: int) -> tuple[int, ...]:
    """The shape of so many elements: fixed dimensions take their share, the innermost of any size the rest, others are 1 (row 6.5)."""
    rest, left = divmod(count, spec.fixed)
    if left or (spec.innermost < 0 and rest != 1):
        raise invalid(
            f"The schema can not convert input '{spec.name}' to tensor with proper shape: {count} values came for shape "
            f"{list(spec.dims)}; send one value or a flat list of as many as the shape holds"
        )
    return tuple(
        dim if dim != -1 else rest if place == spec.innermost else 1
        for place, dim in enumerate(spec.dims)
    )


def _parameter(name: str, value: Json) -> bool | int | float | str:
    """A request parameter (row 6.4); any name is valid, also one that is reserved elsewhere."""
    require_utf8(name, "parameters")
    known = scalar(name, value)
    if known is not None:
        return known
    raise invalid(
        f"parameter '{name[:80]}' has invalid type. It should be either 'int', 'bool', or 'string'. It is no input of this model: "
        "perhaps the name is misspelled"
    )


def _bytes_of(values: list[Json]) -> int:
    """The size of strings, with four bytes of length each; other types are refused later."""
    return 4 * len(values) + sum(len(value) for value in values if type(value) is str)


def _look_for_repeats(
    body: bytes, inputs: collections.abc.Container[str], request: InferRequest
) -> None:
    """Handle a key that occurs twice (row 6.6): as in the fast parser the last one counts, but inputs are refused."""

    def members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        unique: dict[str, Json] = {}
        for name, value in pairs:
            if name in unique and name in inputs:
                raise _twice(request, name)
            unique[name] = value
        return unique

    visit_objects(body, members)


def _twice(request: InferRequest, name: str) -> InferenceError:
    return invalid(f"{request.label}input '{name}' already exists in request: send each input once")


def encode(response: InferResponse) -> bytes:
    """A successful response as JSON (rows 6.1, 6.7), keys in Triton's order.

    Where names clash the id, the model's name and version win over the model's parameters, and those over its outputs.

    Raises:
        InferenceError: an output that cannot be sent as JSON (row 3.16).
    """
    document: dict[str, Json] = {}
    for tensor in response.outputs:
        document[tensor.name] = _value(tensor.array.ravel(), tensor.datatype, tensor.name)
    if response.parameters:
        document.update(printable(response.parameters))
    if response.id:
        document["id"] = response.id
    document["model_name"] = response.model_name
    document["model_version"] = str(response.model_version)
    return orjson.dumps(document, None, _OPTIONS)


def _value(
    elements: "np.ndarray[typing.Any, np.dtype[typing.Any]]", datatype: DataType, name: str
) -> Json:
    """A single element is not written as a list (row 6.7)."""
    written = json_values.write(elements, datatype, name=name)
    if elements.size != 1:
        return written
    if type(written) is list:
        return written[0]
    return orjson.Fragment(orjson.dumps(written)[1:-1])  # a list of one that orjson cannot write
