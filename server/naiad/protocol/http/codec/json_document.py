"""A JSON text as Python values: orjson, and the standard library for the little that Triton takes and orjson does not. Pure.

What orjson refuses and Triton takes: NaN, Infinity and -Infinity (row 3.35), a byte order mark, and strings that are not
UTF-8, which come back as surrogate escapes so that BYTES elements keep their bytes. Nesting beyond what either parser
follows is refused with row 1.12's answer; neither uses the machine's stack without a bound.

Nothing else in the HTTP front end parses a client's JSON, but for `typed_json`, which leaves here what it refuses.
"""

import collections.abc
import json
import math
import typing

import orjson

from naiad.errors import InferenceError, internal
from naiad.protocol.http.codec.json_values import too_deep

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HINT = "send one JSON object, as UTF-8"

ObjectVisitor = collections.abc.Callable[[list[tuple[str, typing.Any]]], typing.Any]
"""Takes the members of an object; what it returns stands for the object."""


def parse(document: bytes) -> typing.Any:
    """The value of a JSON text.

    Integers beyond 64 bits become floats, as they do in Triton's parser.

    Raises:
        InferenceError: INTERNAL for invalid JSON (row 3.7), INVALID_ARG for one nested too deep (row 1.12).
    """
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError as error:
        failure = error
    if document.startswith(_BYTE_ORDER_MARK):
        document = document[len(_BYTE_ORDER_MARK) :]  # one; a second is not JSON
        try:
            return orjson.loads(document)
        except orjson.JSONDecodeError as error:
            failure = error
    if not document:
        raise _unreadable("The document is empty")
    if "depth" in failure.msg or "recursion" in failure.msg:
        raise too_deep()
    if b"NaN" in document or b"Inf" in document or "UTF-8" in failure.msg:
        return _parse_leniently(document)
    raise _unreadable(str(failure))


def visit_objects(document: bytes, visit: ObjectVisitor) -> None:
    """Call a visitor with the members of each object of a text that `parse` took, repeated names included; inner objects come first.

    Raises:
        InferenceError: INVALID_ARG for a text nested too deep for this, and what the visitor raises.
    """
    _parse_leniently(document.removeprefix(_BYTE_ORDER_MARK), visit)


def _parse_leniently(document: bytes, visit: ObjectVisitor | None = None) -> typing.Any:
    text = document.decode("utf-8", "surrogateescape")
    try:
        return json.loads(text, parse_int=_integer, parse_float=_finite, object_pairs_hook=visit)
    except RecursionError:
        raise too_deep() from None
    except ValueError as failure:
        raise _unreadable(str(failure)) from None


def _integer(text: str) -> int | float:
    if len(text) > _LONGEST_64_BITS:
        return _finite(text)
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(value)


def _finite(text: str) -> float:
    """A number beyond what a double holds is refused, as orjson and Triton's parser do: infinity has a name."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:_LONGEST_SHOWN]} is infinity when parsed as double")
    return value


_LONGEST_SHOWN = 40
_LONGEST_64_BITS = 20
"""Digits, sign included, of the longest integers of 64 bits."""


def require_utf8(text: str, member: str) -> None:
    """Refuse a string that only `data` may hold: what is not valid text cannot be handed to a model or written into a response.

    Raises:
        InferenceError: INTERNAL: it holds bytes that are not UTF-8, or half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _unreadable(f"'{member}' is not valid UTF-8") from None


def _unreadable(reason: str) -> InferenceError:
    return internal(f"failed to parse the request JSON buffer: {reason}; {_HINT}")
