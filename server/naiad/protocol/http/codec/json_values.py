"""The elements of a tensor between JSON and numpy: reading a `data` member, writing one (rows 3.14-3.17, 3.34-3.36). Pure.

Reading is strict about types without a Python loop over elements: `array.array` refuses strings, nulls and (for integers)
floats in C, and only booleans, which Python takes for integers, need a look of their own. Whatever it refuses goes to the slow
path, which flattens, finds the culprit and says where it is.
"""

import array
import itertools
import json
import math
import typing

import numpy as np
import orjson

from naiad.core.datatypes import BF16, FP16, DataType, Kind
from naiad.core.tensor import object_array
from naiad.errors import InferenceError, internal, invalid

Values = list[typing.Any]
Elements = np.ndarray[typing.Any, np.dtype[typing.Any]]

# Looking up a member of an enum takes longer than these names.
_BYTES_KIND, _FLOAT_KIND = Kind.BYTES, Kind.FLOAT

MAX_DEPTH = 100
"""Lists nested this deep are refused (row 1.12)."""

TYPECODES = {
    "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
    "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q",
    "FP32": "f", "FP64": "d",
}  # fmt: skip
"""The type codes of `array.array`, by datatype."""

_BOOLEANS = frozenset((bool,))
_INTEGERS = frozenset((int,))
_NUMBERS = frozenset((int, float))
_ONLY_LISTS = {list}
_FEW = 256
"""Up to here a look at every element's type is cheaper than a search through the document."""
_MANY_SUSPECTS = 64


def read(
    data: Values,
    datatype: DataType,
    *,
    name: str,
    shape: tuple[int, ...],
    count: int,
    document: bytes,
) -> Elements:
    """The elements of a `data` member in row-major order, nesting ignored (row 3.14).

    The shape has at most 32 dimensions and holds `count` elements. `document` is the JSON text, to tell quickly that no boolean is in it.

    Returns:
        A writable array of that shape and datatype; `bytes` objects for BYTES.

    Raises:
        InferenceError: 500 for a wrong count or a wrong type (rows 3.15, 3.17), 400 for FP16 and BF16 (row 3.16) and for
            lists nested too deep (row 1.12).
    """
    typecode = TYPECODES.get(datatype.name)
    if typecode is None:
        refuse(datatype, name)
    else:
        leaves = _peel(data) if data and type(data[0]) is list else data
        if not _may_hold_booleans(leaves, document):
            try:
                values = array.array(typecode, leaves)
            except (TypeError, OverflowError):
                pass  # irregular, of a wrong type, or out of range: the slow path tells which
            else:
                if len(values) != count:
                    raise wrong_count(name, count, len(values))
                return np.ndarray(shape, datatype.dtype, values)
    leaves = flatten(data, limit=count)
    if len(leaves) != count:
        raise wrong_count(name, count, len(leaves))
    return _read_checked(leaves, datatype, name).reshape(shape)


def _peel(data: Values) -> Values:
    """The leaves of lists that look regular, classified by the first of each level; a wrong guess fails in `array`."""
    level = data
    for _ in range(MAX_DEPTH - 1):
        if not level or type(level[0]) is not list:
            return level
        if set(map(type, level)) != _ONLY_LISTS:
            return data
        level = list(itertools.chain.from_iterable(level))
    return data


def _may_hold_booleans(data: Values, document: bytes) -> bool:
    """Whether a boolean may be among the elements; a wrong yes only costs time."""
    if len(data) <= _FEW:
        return bool in map(type, data)
    return mentions(document, b"u", b"true", 2) or mentions(document, b"f", b"false", 0)


def mentions(document: bytes, rare: bytes, word: bytes, offset: int) -> bool:
    """Whether `word` stands in a document of mostly digits, found by its rare letter: forty times faster than `in`.

    `rare` is a letter of `word`, at `offset` in it, that numbers do not hold.
    """
    at = document.find(rare)
    for _ in range(_MANY_SUSPECTS):
        if at < 0:
            return False
        if document.startswith(word, max(at - offset, 0)):
            return True
        at = document.find(rare, at + 1)
    return True  # so much text is in it that searching on costs more than looking at the elements


def flatten(data: Values, *, limit: int) -> Values:
    """The leaves of nested lists, row-major.

    Regular nesting goes level by level in C; irregular nesting (row 3.14 allows it) element by element, and stops soon after
    `limit` leaves, because more than the shape asks for are refused anyway. Lists count as well, or millions of empty ones
    would cost nothing: there are at most MAX_DEPTH around each leaf.

    Raises:
        InferenceError: lists nested MAX_DEPTH deep or deeper (row 1.12), or many more lists than leaves.
    """
    level = data
    for _ in range(MAX_DEPTH - 1):
        types = set(map(type, level))
        if list not in types:
            return level
        if len(types) > 1:
            return _flatten_irregular(data, limit=limit)
        level = list(itertools.chain.from_iterable(level))
    if not level:
        return level
    raise too_deep()


def _flatten_irregular(data: Values, *, limit: int) -> Values:
    leaves: Values = []
    stack = [iter(data)]
    lists, most_lists = 0, MAX_DEPTH * (limit + 1)
    while stack and len(leaves) <= limit:
        for item in stack[-1]:
            if type(item) is list:
                if item and len(stack) >= MAX_DEPTH - 1:
                    raise too_deep()
                lists += 1
                if lists > most_lists:
                    raise _too_many_lists(limit)
                stack.append(iter(item))
                break
            leaves.append(item)
            if len(leaves) > limit:
                break
        else:
            stack.pop()
    return leaves


def _read_checked(leaves: Values, datatype: DataType, name: str) -> Elements:
    """`read` for everything that is not a list of numbers in range: each element's type is looked at."""
    match datatype.kind:
        case Kind.BYTES:
            return _strings(leaves, name)
        case Kind.BOOL:
            _check_types(leaves, _BOOLEANS, datatype, name, "non-boolean as boolean")
            return np.array(leaves, dtype=datatype.dtype)
        case Kind.FLOAT:
            _check_types(leaves, _NUMBERS, datatype, name, "non-number as double")
            return _floats(leaves, datatype, name)
        case Kind.UINT:
            failure = "non-unsigned-integer as unsigned-integer"
            _check_types(leaves, _INTEGERS, datatype, name, failure)
            return _integers(leaves, datatype, name, failure, (np.dtype(np.uint64), 0, 2**64 - 1))
        case Kind.INT:
            failure = "non-signed-integer as signed-integer"
            _check_types(leaves, _INTEGERS, datatype, name, failure)
            return _integers(
                leaves, datatype, name, failure, (np.dtype(np.int64), -(2**63), 2**63 - 1)
            )


def _floats(leaves: Values, datatype: DataType, name: str) -> Elements:
    try:
        values = array.array(TYPECODES[datatype.name], leaves)
    except OverflowError:
        raise internal(
            f"Unable to parse 'data': input '{name}' holds a number too big for {datatype.name}; send Infinity if you mean it"
        ) from None
    return np.ndarray((len(leaves),), datatype.dtype, values)


def _integers(
    leaves: Values,
    datatype: DataType,
    name: str,
    failure: str,
    widest: tuple[np.dtype[typing.Any], int, int],
) -> Elements:
    """Truncate values that fit 64 bits to the datatype's width without an error, as C does (row 3.17)."""
    dtype, low, high = widest
    try:
        return np.array(leaves, dtype=dtype).astype(datatype.dtype)
    except OverflowError:
        at = next(i for i, value in enumerate(leaves) if not low <= value <= high)
        raise wrong_type(name, datatype, at, leaves[at], failure) from None


def _check_types(
    leaves: Values, allowed: frozenset[type], datatype: DataType, name: str, failure: str
) -> None:
    if not allowed.issuperset(map(type, leaves)):
        at = next(i for i, value in enumerate(leaves) if type(value) not in allowed)
        raise wrong_type(name, datatype, at, leaves[at], failure)


def _strings(leaves: Values, name: str) -> Elements:
    try:
        encoded = [*map(str.encode, leaves)]
    except TypeError:
        at = next(i for i, value in enumerate(leaves) if type(value) is not str)
        raise internal(
            f"Unable to parse JSON bytes array: attempt to access JSON non-string as string: element {at} of BYTES input '{name}' is "
            f"{shown(leaves[at])}; send strings, or bytes that are not text as binary data"
        ) from None
    except UnicodeEncodeError:
        encoded = [_raw(value, name) for value in leaves]
    return object_array(encoded)


def _raw(value: str, name: str) -> bytes:
    """The bytes of a string that was not valid UTF-8 on the wire; Triton lets them through, and so do we."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise internal(
            f"failed to parse the request JSON buffer: a string of input '{name}' holds half of a surrogate pair, which is "
            "not a character; send bytes that are not text as binary data"
        ) from None


def write(elements: Elements, datatype: DataType, *, name: str) -> typing.Any:
    """A list of the elements of a flat array (row 3.33), as something that orjson writes with OPT_SERIALIZE_NUMPY.

    FP32 is widened to double first, so that 0.1 prints as 0.10000000149011612 (row 3.34); NaN and infinities become the
    literals NaN, Infinity and -Infinity (row 3.35), which are not valid JSON, but are what Triton writes.

    Raises:
        InferenceError: FP16 and BF16 cannot be sent as JSON (row 3.16).
    """
    kind = datatype.kind
    if kind is _BYTES_KIND:
        return _write_strings(elements)
    if kind is not _FLOAT_KIND:
        return elements.tolist() if elements.size <= _SHORT else elements
    if datatype is FP16 or datatype is BF16:
        raise invalid(
            f"sending {datatype.name} data via JSON is not supported. Please use the binary data format for output '{name}': "
            'ask for it with "parameters": {"binary_data": true}'
        )
    if elements.size <= _SHORT:
        values = elements.tolist()
        # A NaN or an infinity spoils the sum; a sum that overflows only sends us the long way.
        return values if math.isfinite(sum(values)) else _literals(values)
    if np.isfinite(elements).all():
        return elements.astype(np.float64, copy=False)
    return _literals(elements.tolist())


_SHORT = 48
"""Up to here a Python list of the elements is written faster than a numpy array."""


def _literals(values: typing.Any) -> orjson.Fragment:
    return orjson.Fragment(json.dumps(values, separators=(",", ":")))


def _write_strings(elements: Elements) -> typing.Any:
    values = elements.tolist()
    try:
        return [*map(bytes.decode, values)]
    except UnicodeDecodeError:
        # As in Triton: bytes that are not UTF-8 are sent unchanged, so that nothing is lost for a client that accepts them.
        text = [value.decode("utf-8", "surrogateescape") for value in values]
        written = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
        return orjson.Fragment(written.encode("utf-8", "surrogateescape"))


def too_deep() -> InferenceError:
    """The error of JSON that is nested too deep (row 1.12)."""
    return invalid(
        f"JSON nesting depth exceeds maximum allowed limit ({MAX_DEPTH}): nesting need not follow the shape, send 'data' "
        "as a flat list"
    )


def _too_many_lists(expected: int) -> InferenceError:
    return invalid(
        f"Unable to parse 'data': more than {MAX_DEPTH * (expected + 1)} lists for {expected} elements, most of them empty: nesting "
        "need not follow the shape, send 'data' as a flat list"
    )


def wrong_count(name: str, expected: int, got: int) -> InferenceError:
    """The error of a number of values that does not fit the shape (row 3.15)."""
    if got > expected:
        return internal(
            f"Unable to parse 'data': Shape does not match true shape of 'data' field: the shape of input '{name}' holds "
            f"{expected} elements, 'data' has more; send as many values as the shape's product"
        )
    return internal(
        f"Failed to parse 'data' field: shape does not match true shape: the shape of input '{name}' holds {expected} "
        f"elements, 'data' has {got}; send as many values as the shape's product"
    )


_EXPECTED = {
    Kind.BOOL: "true or false",
    Kind.UINT: "integers from 0 to 2^64-1 without a decimal point",
    Kind.INT: "integers from -2^63 to 2^63-1 without a decimal point",
    Kind.FLOAT: "numbers",
    Kind.BYTES: "strings",
}


def wrong_type(
    name: str, datatype: DataType, at: int, value: object, failure: str
) -> InferenceError:
    """The error of a value of another type than the datatype (row 3.17)."""
    return internal(
        f"Unable to parse 'data': attempt to access JSON {failure}: element {at} of {datatype.name} input '{name}' is "
        f"{shown(value)}; send {_EXPECTED[datatype.kind]}"
    )


def refuse(datatype: DataType, name: str) -> None:
    """Raise for a datatype that cannot come as JSON (row 3.16)."""
    if datatype is FP16 or datatype is BF16:
        raise invalid(
            f"receiving {datatype.name} data via JSON is not supported. Please use the binary data format for input {name}: "
            'send its bytes behind the JSON, with "parameters": {"binary_data_size": <bytes>} in its place'
        )


def shown(value: object) -> str:
    """A value as an error message shows it: JSON, cut where it is long."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str) and len(value) > _LONGEST_SHOWN:
        return json.dumps(value[:_LONGEST_SHOWN] + "…")
    return json.dumps(value)


_LONGEST_SHOWN = 60


def scalar(value: typing.Any) -> typing.Any:
    """A response parameter as something that orjson writes: NaN and infinities as literals (row 3.35)."""
    if isinstance(value, float) and not math.isfinite(value):
        return _literals(value)
    return value
