"""Reads inputs whose values come as protobuf numbers and not as raw bytes: InferTensorContents (rows 10.10, 10.12). Pure.

Each datatype has one list it may use; the small integers share the 32-bit lists, and only their low bytes count. FP16 and BF16
have none. This is the slow way in (every value becomes a Python object), for clients that build messages by hand.
"""

import typing

import numpy as np

from naiad.core.datatypes import (
    BOOL,
    BYTES,
    FP32,
    FP64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DataType,
)
from naiad.core.tensor import Tensor, object_array
from naiad.errors import invalid
from naiad.protocol import raw_tensors
from naiad.protocol.raw_tensors import InputSpec

_LISTS: tuple[tuple[str, DataType, tuple[DataType, ...]], ...] = (
    ("bool_contents", BOOL, (BOOL,)),
    ("int_contents", INT32, (INT32, INT16, INT8)),
    ("int64_contents", INT64, (INT64,)),
    ("uint_contents", UINT32, (UINT32, UINT16, UINT8)),
    ("uint64_contents", UINT64, (UINT64,)),
    ("fp32_contents", FP32, (FP32,)),
    ("fp64_contents", FP64, (FP64,)),
    ("bytes_contents", BYTES, (BYTES,)),
)
"""Field, the datatype of its values, and the datatypes that may use it, in the order in which Triton checks them."""

_FIELD_OF = {datatype.name: field for field, _, users in _LISTS for datatype in users}


def read(contents: typing.Any, spec: InputSpec, model: str) -> Tensor:
    """The tensor that an InferTensorContents message holds, all of whose lists may be empty.

    Raises:
        InferenceError: INVALID_ARG for a list that is not the datatype's, or for two lists (row 10.12).
    """
    name, datatype, count = spec.name, spec.datatype, spec.count
    values: typing.Any = ()
    sent_as = datatype
    for field, wire, users in _LISTS:
        contents_of_field = getattr(contents, field)
        if not contents_of_field:
            continue
        unexpected = (
            f"unexpected explicit tensor data for input tensor '{name}' for model '{model}'"
        )
        if values:
            raise invalid(
                f"{unexpected}, binary data was already supplied. Send one list of values only"
            )
        if datatype not in users:
            raise invalid(
                f"{unexpected} of type '{wire.name}', expected datatype '{datatype.name}': {_where(datatype)}"
            )
        values, sent_as = contents_of_field, wire
    if datatype is BYTES:
        return _strings(values, spec, model)
    if len(values) != count:
        return raw_tensors.wrong_size(spec, len(values) * datatype.size, model=model)
    # The cast keeps the low bytes of an INT8 that came as a 32-bit number, as C does.
    array = np.fromiter(values, dtype=sent_as.dtype, count=count).astype(datatype.dtype, copy=False)
    return Tensor(name, datatype, spec.shape, array.reshape(spec.shape))


def _strings(values: typing.Any, spec: InputSpec, model: str) -> Tensor:
    if len(values) != spec.count:
        return spec.faulty(raw_tensors.wrong_count(model, spec.name, spec.count, len(values)))
    return Tensor(spec.name, BYTES, spec.shape, object_array(list(values)).reshape(spec.shape))


def _where(datatype: DataType) -> str:
    field = _FIELD_OF.get(datatype.name)
    if field is None:
        return f"{datatype.name} values can only be sent in raw_input_contents"
    return f"{datatype.name} values belong in {field} or in raw_input_contents"
