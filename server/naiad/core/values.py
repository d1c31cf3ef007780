"""Values as programs have them, arrays and nested lists, and the tensors that they become. Pure."""

import collections.abc
import numbers
from typing import Any

import numpy as np

from naiad.core import datatypes
from naiad.core.datatypes import DataType, Kind
from naiad.core.tensor import Tensor
from naiad.errors import invalid

Array = np.ndarray[Any, Any]
Values = Array | collections.abc.Sequence[Any]
"""An array, or nested lists of numbers, str or bytes."""


def to_tensor(name: str, values: Values, wanted: DataType | None) -> Tensor:
    """A tensor.

    Args:
        name: its name.
        values: its values.
        wanted: its datatype where the values do not say it themselves; None when it is not known.

    Raises:
        InferenceError: INVALID_ARG: values that no tensor can hold.
    """
    is_array = isinstance(values, np.ndarray)
    array = values if isinstance(values, np.ndarray) else _listed(name, values, wanted)
    if array.dtype.kind in "OUS":
        return _text(name, array)
    if wanted is datatypes.BF16 and (not is_array or array.dtype == np.float32):
        array = array.astype(datatypes.BF16.dtype)
    datatype = datatypes.BY_DTYPE.get(array.dtype)
    if datatype is None:
        native = array.dtype.newbyteorder("=")
        if native in datatypes.BY_DTYPE:
            raise invalid(
                f"'{name}' is an array of {array.dtype.str}, in the byte order of other machines: give array.astype('{native}')"
            )
        raise invalid(
            f"'{name}' is an array of {array.dtype}, for which there is no datatype: {_names()} have one"
        )
    # As from a client: the model may read it, and gets a copy when it writes.
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return Tensor(name, datatype, array.shape, array)


def _listed(name: str, values: Any, wanted: DataType | None) -> Array:
    dtype = None if wanted is None or wanted is datatypes.BYTES else wanted.dtype
    try:
        with np.errstate(over="ignore"):
            array = np.asarray(values, dtype=dtype)
        if wanted is not None and dtype is not None and array.size:
            _check_converted(values, array, wanted)
    except (ValueError, TypeError, OverflowError) as error:
        kind = "" if wanted is None else f" of {wanted.name}"
        raise invalid(f"the values of '{name}' cannot become a tensor{kind}: {error}") from error
    return array


_CONVERTED = {
    Kind.BOOL: ("biu", numbers.Integral, "True or False"),
    Kind.UINT: ("biu", numbers.Integral, "an integer"),
    Kind.INT: ("biu", numbers.Integral, "an integer"),
    Kind.FLOAT: ("biufV", numbers.Number, "a number"),
}
"""By the kind of a datatype: the kinds of arrays whose values are the same in it, or rounded (V is BF16), the type of such a value, and the words for it."""


def _check_converted(values: Any, made: Array, wanted: DataType) -> None:
    """Refuse what numpy converts without a word: text and None to numbers, fractions to integers, numbers that are too big to infinities.

    Args:
        values: as they are.
        made: the same, converted.
        wanted: the datatype.

    Raises:
        TypeError, ValueError: values have become other ones.
    """
    kinds, kind, words = _CONVERTED[wanted.kind]
    if np.asarray(values).dtype.kind not in kinds:
        # Looked at one by one: integers of 64 bits and more are objects to numpy, or floats.
        for each in np.asarray(values, dtype=object).flat:
            if not isinstance(each, kind):
                raise TypeError(f"{each!r} is not {words}")
    if wanted.kind is Kind.FLOAT and np.isinf(made).any():
        exact = np.asarray(values, dtype=np.float64)
        too_big = np.isinf(made) & ~np.isinf(exact)
        if too_big.any():
            raise ValueError(f"{exact[too_big][0]:g} is too big")


def _text(name: str, array: Array) -> Tensor:
    elements = np.empty(array.size, dtype=object)
    for place, each in enumerate(array.reshape(-1)):
        if not isinstance(each, (bytes, str)):
            raise invalid(
                f"'{name}' holds {each!r}, of type {type(each).__name__}: the elements of BYTES are bytes or str"
            )
        try:
            elements[place] = bytes(each) if isinstance(each, bytes) else each.encode()
        except UnicodeEncodeError:
            raise invalid(
                f"'{name}' holds {each!r}, half of a surrogate pair, which no client can send: give the bytes"
            ) from None
    elements = elements.reshape(array.shape)
    elements.flags.writeable = False
    return Tensor(name, datatypes.BYTES, elements.shape, elements)


def _names() -> str:
    return ", ".join(str(each.dtype) for each in datatypes.ALL if each.size)
