"""The values of KServe's v1 between JSON and numpy: nested lists of numbers, booleans, strings and `{"b64": …}` objects. Pure.

Every error says where in the body the wrong value is, as a path such as `instances[1]["x"][0]`. Numbers are read strictly: what does not fit the datatype is
refused, not cut. FP16 and BF16 are read and written as numbers; NaN and infinities are read as JSON's common extensions and written as null, as KServe's server
does.
"""

import array
import base64
import binascii
import collections.abc
import itertools
import math
import typing

import numpy as np

from naiad.core.datatypes import DataType, Kind
from naiad.core.record import Record
from naiad.core.tensor import Tensor, object_array
from naiad.errors import InferenceError, invalid
from naiad.protocol.http.codec.json_values import TYPECODES, Elements, shown

Json = typing.Any
Level = list[Json]

B64 = "b64"
"""The only member of an object that holds bytes."""

_SHORT = 48
"""Up to here a Python list of the elements is written faster than a numpy array."""

_EXPECTED = {
    Kind.BOOL: "true or false",
    Kind.UINT: "an integer without a decimal point",
    Kind.INT: "an integer without a decimal point",
    Kind.FLOAT: "a number",
    Kind.BYTES: 'a string, or bytes as {"b64": "<base64>"}',
}
_TYPES = {
    Kind.BOOL: frozenset((bool,)),
    Kind.UINT: frozenset((int,)),
    Kind.INT: frozenset((int,)),
    Kind.FLOAT: frozenset((int, float)),
}


class Source(Record, frozen=True):
    """Where in a body the values of a tensor are.

    Attributes:
        input: the name of the input.
        datatype: of the input.
        dims: what the model takes, -1 for any size; without the batch dimension if `rows`.
        rows: whether the values are in the rows of `instances`; if not they are under `inputs`.
        named: whether the body names the input.
        limit: bytes that the tensor may have.
    """

    input: str
    datatype: DataType
    dims: tuple[int, ...]
    rows: bool
    named: bool
    limit: int

    def at(self, place: collections.abc.Sequence[int]) -> str:
        """A place in words: the indexes of the first dimensions, the row first."""
        name = f'["{self.input}"]' if self.named else ""
        if not self.rows:
            indexes = "".join(f"[{index}]" for index in place)
            return f"input '{self.input}' (inputs{name}{indexes})"
        row, *inner = place
        indexes = "".join(f"[{index}]" for index in inner)
        return f"row {row} of input '{self.input}' (instances[{row}]{name}{indexes})"


def read(values: Level, source: Source) -> Tensor:
    """The tensor of a list of values: the rows, or the whole of a column in a list of its own.

    Raises:
        InferenceError: INVALID_ARG: a list is too short, too long or missing, a value is of another type or does not fit, or there are too many.
    """
    level, lengths = values, [len(values)]
    dims = source.dims
    for depth, dim in enumerate(dims):
        types = set(map(type, level))
        if list not in types and all(each in (1, -1) for each in dims[depth:]):
            # One element may stand without its brackets.
            lengths += [1] * (len(dims) - depth)
            break
        if types - {list}:
            at = next(i for i, value in enumerate(level) if type(value) is not list)
            raise _not_nested(source, _place(at, lengths), level[at], depth)
        sizes = set(map(len, level))
        expected = dim if dim >= 0 else len(level[0]) if level else 0
        if sizes - {expected}:
            at = next(i for i, value in enumerate(level) if len(value) != expected)
            raise _wrong_length(source, _place(at, lengths), len(level[at]), expected, depth)
        level = list(itertools.chain.from_iterable(level))
        lengths.append(expected)
    shape = tuple(lengths if source.rows else lengths[1:])
    size = len(level) * source.datatype.size
    if size > source.limit:
        raise _too_large(source, size)

    def where(at: int) -> str:
        return source.at(_in_tensor(source, _place(at, lengths)))

    elements = _read(level, source.datatype, where)
    if source.datatype.kind is Kind.BYTES:
        size = 4 * len(level) + sum(map(len, elements))
        if size > source.limit:
            raise _too_large(source, size)
    return Tensor(source.input, source.datatype, shape, elements.reshape(shape))


def depth_of(value: Json, most: int) -> int:
    """How deep lists are nested in a value, by the first of each; at most `most`."""
    depth = 0
    while type(value) is list and depth < most:
        depth += 1
        value = value[0] if value else None
    return depth


def is_bytes(value: Json) -> bool:
    """Whether a value is an object that holds bytes."""
    return type(value) is dict and list(value) == [B64]


def _place(at: int, lengths: list[int]) -> list[int]:
    """The indexes of an element of a level, of which `lengths` are the dimensions."""
    place: list[int] = []
    for length in reversed(lengths[1:]):
        at, index = divmod(at, length or 1)
        place.append(index)
    return [at, *reversed(place)]


def _in_tensor(source: Source, place: list[int]) -> list[int]:
    """The place without the list of its own that a column is in."""
    return place if source.rows else place[1:]


def _not_nested(source: Source, place: list[int], value: Json, depth: int) -> InferenceError:
    left = list(source.dims[depth:])
    return invalid(
        f"{source.at(_in_tensor(source, place))} is {shown(value)}, not a list: the shape of {_what(source)} is {list(source.dims)}; "
        f"send lists of shape {left} there"
    )


def _wrong_length(
    source: Source, place: list[int], got: int, expected: int, depth: int
) -> InferenceError:
    why = (
        f"the shape of {_what(source)} is {list(source.dims)}"
        if source.dims[depth] >= 0
        else "all lists of a dimension must be of one length, that of the first"
    )
    return invalid(
        f"{source.at(_in_tensor(source, place))} has {got} values, expected {expected}: {why}"
    )


def _what(source: Source) -> str:
    return "a row" if source.rows else "the input"


def _too_large(source: Source, size: int) -> InferenceError:
    return invalid(
        f"input '{source.input}' has {size} bytes, which exceeds the maximum allowed value of {source.limit} bytes. "
        "Use --http-max-input-size to increase the limit."
    )


def _read(
    leaves: Level, datatype: DataType, where: collections.abc.Callable[[int], str]
) -> Elements:
    kind = datatype.kind
    if kind is Kind.BYTES:
        try:
            return object_array([*map(str.encode, leaves)])
        except (TypeError, UnicodeEncodeError):
            return object_array([_bytes(value, at, where) for at, value in enumerate(leaves)])
    allowed = _TYPES[kind]
    if not allowed.issuperset(map(type, leaves)):
        at = next(i for i, value in enumerate(leaves) if type(value) not in allowed)
        raise _wrong_value(where(at), leaves[at], datatype)
    if kind is Kind.BOOL:
        return np.array(leaves, dtype=datatype.dtype)
    if kind is Kind.FLOAT:
        return _floats(leaves, datatype, where)
    try:
        values = array.array(TYPECODES[datatype.name], leaves)
    except OverflowError:
        limits = np.iinfo(typing.cast("np.dtype[np.integer[typing.Any]]", datatype.dtype))
        at = next(i for i, value in enumerate(leaves) if not limits.min <= value <= limits.max)
        raise invalid(
            f"{where(at)} is {shown(leaves[at])}, which is not in the range of {datatype.name}: send an integer from {limits.min} to {limits.max}"
        ) from None
    return np.ndarray((len(leaves),), datatype.dtype, values)


def _floats(
    leaves: Level, datatype: DataType, where: collections.abc.Callable[[int], str]
) -> Elements:
    typecode = TYPECODES.get(datatype.name)
    if typecode is not None:
        numbers = array.array(typecode, leaves)
        # A NaN or an infinity spoils the sum; a sum that overflows only sends us the long way.
        if math.isfinite(sum(numbers)):
            return np.ndarray((len(leaves),), datatype.dtype, numbers)
    exact = np.array(leaves, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        values = exact.astype(datatype.dtype)
    too_big = np.isinf(values.astype(np.float64)) & ~np.isinf(exact)
    if too_big.any():
        at = int(too_big.argmax())
        raise invalid(
            f"{where(at)} is {shown(leaves[at])}, a number too big for {datatype.name}: send Infinity if you mean it"
        )
    return values


def _bytes(value: Json, at: int, where: collections.abc.Callable[[int], str]) -> bytes:
    if type(value) is str:
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise invalid(
                f'{where(at)} holds half of a surrogate pair, which is not a character: send bytes that are not text as {{"b64": "<base64>"}}'
            ) from None
    if not is_bytes(value) or type(value[B64]) is not str:
        what = "a list" if type(value) is list else shown(value)
        raise invalid(f"{where(at)} is {what}: send {_EXPECTED[Kind.BYTES]}")
    try:
        return base64.b64decode(value[B64], validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(
            f"{where(at)} is not valid base64 ({error}): send the standard alphabet with its padding, as base64.b64encode writes it"
        ) from None


def _wrong_value(where: str, value: Json, datatype: DataType) -> InferenceError:
    if is_bytes(value):
        return invalid(
            f"{where} is an object with base64, which only BYTES inputs take: send {_EXPECTED[datatype.kind]} for {datatype.name}"
        )
    what = "a list, nested deeper than the shape" if type(value) is list else shown(value)
    return invalid(f"{where} is {what}: send {_EXPECTED[datatype.kind]} for {datatype.name}")


def write(tensor: Tensor) -> Json:
    """The values of an output as nested lists, or as an array that orjson writes so."""
    values, kind = tensor.array, tensor.datatype.kind
    if kind is Kind.BYTES:
        texts = object_array([*map(_text, values.ravel().tolist())])
        return texts.reshape(values.shape).tolist()
    if kind is Kind.FLOAT:
        # FP32 as double, so that 0.1 prints as in v2 (row 3.34).
        values = values.astype(np.float64, copy=False)
        finite = np.isfinite(values)
        if not finite.all():
            numbers = values.astype(object)
            numbers[~finite] = None
            return numbers.tolist()
    return values.tolist() if values.size <= _SHORT else np.ascontiguousarray(values)


def _text(value: bytes) -> Json:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {B64: base64.b64encode(value).decode()}
