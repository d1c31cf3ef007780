"""The content of messages between the server and a worker process, written once for both sides: tensors, and what is said of them.

A message that carries tensors has a header of three parts behind two numbers (the size of the layout, the number of BYTES tensors):

* the layout, JSON: for each request or response `[extra, [[name, datatype, shape, memory kind, device], ...]]`, or null for a response
  that is deferred or failed. `extra` is `[rows, names of the requested outputs]` for a request, empty for a response. A number stands for so
  many further ones like the one before it, so that a batch of sixty requests that look alike has the layout of one;
* the size of each BYTES tensor, 8 bytes each;
* the rest, which depends on the message: the fields that differ from request to request.

Tensors lie beside the header in their order, each at a multiple of `ALIGNED` bytes. BYTES lie as in the wire protocol, each element behind
its length (row 15.28); BF16 are two bytes without a dtype of numpy's. The memory kind is "cpu", or "cuda": then a descriptor
(`tensors/descriptor.py`) lies there in place of the values, or "shared": a place in a file that both sides have (`tensors/shared_slots.py`), or "region": nothing lies there, since the worker has written the output to its client's
shared memory (`tensors/region_files.py`). The device is numbered as the server does. `extra` of a request whose outputs may stay
on a device has two more fields: the device, and the names of those outputs or null; perhaps a third: so many tensors behind the inputs
are places in clients' memory there, each with the name of the output to be written to it.

Most messages look like one before: the same tensors, other numbers. So both sides remember layouts, which hold nothing that a client
changes with every request: ids and parameters are in the rest, which is empty while they have their defaults.

| message | groups | the rest |
|---|---|---|
| BATCH | one for each request | empty, or a list of `[id, correlation id, flags, timeout µs, parameters, cancelled]`, and perhaps a list of `[name, number of the object, offset, bytes]` for the outputs to be written to a client's shared memory, and the context of its trace as JSON in text |
| OUTCOME | one for each response | the two times of `Execution`, 8 bytes each, then nothing or a list of `[index, error, parameters]`, of a rescheduled request `[index, null, null]`; without groups an error: the batch failed |
| RESPONSE | one | final, begun ns (9 bytes), then nothing or `[error, parameters]`; null ends the responses |
| REQUEST | inputs, or files | `[what, ...]`, see `asking.py` |
| RESULT | one, or none | `[final, error, parameters]`, or `[error message, value]` |

An error is `[code, message]` or null. Limits: standard library and numpy, Python 3.8.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from naiad.backends.instance import Execution, Response, host_part
from naiad.backends.python.api.datatypes import serialize_byte_tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError
from naiad.hosts.link.exported import Exported
from naiad.hosts.link.payload import ALIGNED, Payload
from naiad.tensors.host_copy import HostCopy
from naiad.tensors.memory import HOST
from naiad.tensors.region_files import Placed
from naiad.tensors.shared_slots import Place

DTYPES = {
    "BOOL": np.dtype(np.bool_), "UINT8": np.dtype(np.uint8), "UINT16": np.dtype(np.uint16), "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64), "INT8": np.dtype(np.int8), "INT16": np.dtype(np.int16), "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64), "FP16": np.dtype(np.float16), "FP32": np.dtype(np.float32), "FP64": np.dtype(np.float64),
    "BF16": np.dtype("V2"),
}  # fmt: skip
"""By wire name (row 2.16); BYTES have none."""

EXECUTED = struct.Struct("<qqI")
"""The numbers of an execution: `input_end_ns`, `output_start_ns`, `padding_rows`."""

RESPONSE = struct.Struct("<?q")

THE_RESPONSE = b"[true,null,{}]"
"""The rest of the RESULT of most calls."""

HEAD = struct.Struct("<II")
"""Before a layout: its bytes, and the number of BYTES tensors."""

KNOWN = 256
"""Layouts that each side remembers."""

_JOINED = 1 << 14
"""Tensors of requests that look alike are joined up to so many bytes: more are copied one by one into a segment."""

KNOWN_BYTES = 4096
"""Longer ones are not remembered."""

BYTES = "BYTES"
_ARRAY: Any = np.ndarray
_NOTHING = ()
_DESCRIBED = frozenset((Exported, Place, Placed))

_encoder: Any = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_make: Any = json.encoder.c_make_encoder  # type: ignore[attr-defined]  # what the encoder makes again for each value
_chunks: Any = (
    _encoder.iterencode
    if _make is None
    else _make(
        None, _encoder.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, True
    )
)  # fmt: skip
_from_json = json.JSONDecoder().raw_decode


def to_json(value: Any) -> str:
    """JSON as Python writes it, in ASCII: infinity and half a surrogate pair included.

    Raises:
        TypeError: it has something that JSON does not have.
    """
    return "".join(_chunks(value, 0))


_alike_heads: "dict[tuple[Any, ...], tuple[bytes, bytes, int]]" = {}
"""By what `write_alike` takes without the contents: the head and layout of a message, what comes behind each tensor, and the size of all."""


def write_alike(
    extra: "tuple[Any, ...]",
    tensor: "tuple[str, str, tuple[int, ...]]",
    arrays: "list[Any]",
    rest: bytes,
) -> "tuple[bytes, Payload] | None":
    """What `write` gives for groups that look alike, each with one tensor of numbers in the host's memory; None if they have to be written by it.

    Args:
        extra: of each.
        tensor: the name, datatype and shape of each.
        arrays: the numbers of each, in this shape; one more item is added.
        rest: of the header.
    """
    key = (len(arrays), extra, tensor)
    known = _alike_heads.get(key)
    if known is None:
        known = _written_alike(key, arrays)
    head, gap, size = known
    if not 0 < size <= _JOINED:
        return None
    arrays.append(b"")
    try:
        data = gap.join(arrays)
    except (BufferError, TypeError, ValueError):  # numbers that are not next to each other
        return None
    if len(data) != size:
        return None
    return head + rest, Payload([(0, data)], size)


def _written_alike(
    key: "tuple[int, tuple[Any, ...], tuple[str, str, tuple[int, ...]]]", arrays: "list[Any]"
) -> "tuple[bytes, bytes, int]":
    count, extra, (name, datatype, shape) = key
    used: int = arrays[0].nbytes
    stride = behind(0, used)
    described = [(extra, [(name, datatype, shape, *HOST)])] * count
    text = to_json(_in_runs(described)).encode()
    written = HEAD.pack(len(text), 0) + text, bytes(stride - used), count * stride
    if len(text) <= KNOWN_BYTES:
        if len(_alike_heads) >= KNOWN:
            _alike_heads.clear()
        _alike_heads[key] = written
    return written


Group = Any
"""What is written of a request or response: None, or `extra` (a tuple) and its tensors: name, datatype and array. BYTES are an object or
S array, or what has its elements `packed` and a `shape`."""

_layouts: "dict[tuple[Any, ...], tuple[bytes, list[int] | None, int]]" = {}
"""By groups without their contents: the head and layout of a message, and, without BYTES, where each tensor lies and their size."""


def write(groups: "Sequence[Group]", rest: bytes = b"") -> "tuple[bytes, Payload]":
    """The header and the tensors of a message."""
    key: list[Any] = []
    parts: list[Any] = []
    strings: list[int] = []
    for group in groups:
        if group is None:
            key.append(None)
            continue
        extra, tensors = group
        for name, datatype, values in tensors:
            array = values
            if type(values) is not _ARRAY and datatype != BYTES:
                array = _part(name, values)
                if type(array) in _DESCRIBED:
                    key.append((name, datatype, array.shape, array.placed))
                    parts.append(array.descriptor)
                    continue
            key.append((name, datatype, array.shape))
            if datatype == BYTES:
                part = _packed(array)
                parts.append(part)
                strings.append(len(part))
            else:
                parts.append(array)
        key.append(extra)
    layout = tuple(key)
    known = _layouts.get(layout)
    if known is None:
        known = _written(layout, groups, parts, strings=len(strings))
    head, places, size = known
    if places is not None:
        return head + rest, Payload(list(zip(places, parts)), size)  # noqa: B905 - 3.8 knows no strict
    payload = Payload()
    for part in parts:
        payload.add(part)
    return head + struct.pack(f"<{len(strings)}Q", *strings) + rest, payload


def _part(name: str, values: Any) -> Any:
    """What is written of values that are not an array of numpy's.

    Raises:
        InferenceError: they are neither an array nor a DLPack tensor, or in memory that cannot be read.
    """
    if type(values) in _DESCRIBED or type(values) is HostCopy:
        return values
    return host_part(name, values)


def _packed(array: Any) -> Any:
    packed = getattr(array, "packed", None)
    return (serialize_byte_tensor(array) or b"") if packed is None else packed


def _written(
    layout: "tuple[Any, ...]", groups: "Sequence[Group]", parts: "list[Any]", *, strings: int
) -> "tuple[bytes, list[int] | None, int]":
    described = [
        None
        if group is None
        else (
            group[0],
            [
                (name, datatype, tuple(array.shape), *getattr(array, "placed", HOST))
                for name, datatype, array in group[1]
            ],
        )
        for group in groups
    ]
    text = to_json(_in_runs(described)).encode()
    payload = Payload()
    places = [payload.add(part)[0] for part in parts]
    written = (
        HEAD.pack(len(text), strings) + text,
        None if strings else places,
        payload.size,
    )
    if len(text) <= KNOWN_BYTES:
        if len(_layouts) >= KNOWN:
            _layouts.clear()
        _layouts[layout] = written
    return written


def _in_runs(described: "Sequence[Any]") -> "list[Any]":
    """Groups with a number in place of those that look like the one before them."""
    runs: list[Any] = []
    before: Any = None
    further = 0
    for group in described:
        if group is not None and group == before:
            further += 1
            continue
        if further:
            runs.append(further)
        runs.append(group)
        before, further = group, 0
    if further:
        runs.append(further)
    return runs


def behind(at: int, size: int) -> int:
    """Where the next tensor lies."""
    return (at + max(size, 0) + ALIGNED - 1) & -ALIGNED if size else at


def write_outcome(execution: "Execution[Response]") -> "tuple[bytes, Payload]":
    """The header and the tensors of an OUTCOME."""
    alike = _write_alike_outcome(execution)
    if alike is not None:
        return alike
    groups: list[Group] = []
    more: list[Any] = []
    for index, response in enumerate(execution.responses):
        if response is None or response.error is not None:
            groups.append(None)
        else:
            groups.append((_NOTHING, response.outputs))
        if response is not None and (response.error is not None or response.parameters):
            more.append((index, error_fields(response.error), response.parameters))
    more.extend((index, None, None) for index in execution.rescheduled)
    rest = EXECUTED.pack(execution.input_end_ns, execution.output_start_ns, execution.padding_rows)
    return write(groups, rest + to_json(more).encode() if more else rest)


def _write_alike_outcome(execution: "Execution[Response]") -> "tuple[bytes, Payload] | None":
    """The same for responses that look alike, each with one tensor of numbers and nothing else; None for others."""
    arrays: list[Any] = []
    name = datatype = ""
    shape: Any = None
    for response in execution.responses:
        if response is None or response.error is not None or response.parameters:
            return None
        outputs = response.outputs
        if len(outputs) != 1:
            return None
        this_name, this_datatype, values = outputs[0]
        if type(values) is not _ARRAY:
            return None
        if values.shape != shape or this_name != name or this_datatype != datatype:
            if arrays or this_datatype == BYTES:
                return None
            name, datatype, shape = this_name, this_datatype, values.shape
        arrays.append(values)
    if not arrays or execution.rescheduled:
        return None
    rest = EXECUTED.pack(execution.input_end_ns, execution.output_start_ns, execution.padding_rows)
    return write_alike(_NOTHING, (name, datatype, shape), arrays, rest)


def write_failed_outcome(error: InferenceError) -> bytes:
    """The header of an OUTCOME when the whole batch failed."""
    return write([], EXECUTED.pack(0, 0, 0) + write_failure(error))[0]


def write_response(
    response: "Response | None", *, final: bool, begun_ns: int
) -> "tuple[bytes, Payload]":
    """The header and the tensors of a RESPONSE."""
    rest = RESPONSE.pack(final, begun_ns)
    if response is not None and (response.error is not None or response.parameters):
        rest += to_json((error_fields(response.error), response.parameters)).encode()
    return write([_group(response)], rest)


def _group(response: "Response | None") -> Group:
    if response is None or response.error is not None:
        return None
    return _NOTHING, response.outputs


def error_fields(error: "InferenceError | None") -> Any:
    """An error as JSON has it."""
    return None if error is None else (error.code.name, error.message)


def error_of(fields: Any) -> "InferenceError | None":
    """The reverse of `error_fields`.

    Raises:
        Exception: it is not an error.
    """
    if fields is None:
        return None
    code, message = fields
    return InferenceError(ErrorCode[code], message, reason=FailureReason.BACKEND)


def write_failure(error: InferenceError) -> bytes:
    """The header of a REFUSED, which has no tensors."""
    return to_json(error_fields(error)).encode()


def read_json(text: "bytes | bytearray") -> Any:
    """What `to_json` wrote.

    Raises:
        ValueError: it is not JSON.
    """
    return _from_json(text.decode())[0]
