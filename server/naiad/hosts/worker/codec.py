"""The content of messages between the server and a worker process, written once for both sides: tensors, and what is said of them.

A message that carries tensors has a header of three parts behind two numbers (the size of the layout, the number of BYTES tensors):

* the layout, JSON: for each request or response `[extra, [[name, datatype, shape, memory kind, device], ...]]`, or null for a response
  that is deferred or failed. `extra` is `[rows, names of the requested outputs]` for a request, empty for a response;
* the size of each BYTES tensor, 8 bytes each;
* the rest, which depends on the message: the fields that differ from request to request.

Tensors lie beside the header in their order, each at a multiple of `ALIGNED` bytes. BYTES lie as in the wire protocol, each element behind
its length (row 15.28); BF16 are two bytes without a dtype of numpy's. The memory kind is "cpu", or "cuda": then a descriptor
(`tensors/descriptor.py`) lies there in place of the values, or "shared": a place in a file that both sides have (`tensors/shared_slots.py`), or "region": nothing lies there, since the worker has written the output to its client's
shared memory (`tensors/region_files.py`). The device is numbered as the server does. `extra` of a request whose outputs may stay
on a device has two more fields: the device, and the names of those outputs or null.

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
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from naiad.backends.instance import Execution, Response, host_part
from naiad.backends.python.api.datatypes import serialize_byte_tensor
from naiad.errors import ErrorCode, FailureReason, InferenceError, unsupported
from naiad.hosts.worker.gpu.exported import Exported
from naiad.hosts.worker.payload import ALIGNED, Payload
from naiad.tensors import descriptor
from naiad.tensors.host_copy import HostCopy
from naiad.tensors.memory import HOST, Memory
from naiad.tensors.region_files import REGION, Placed
from naiad.tensors.shared_slots import PLACE_BYTES, SHARED, Place

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

_HEAD = struct.Struct("<II")
_KNOWN = 256
_KNOWN_BYTES = 4096
_BYTES = "BYTES"
_CUDA = "cuda"
_ARRAY: Any = np.ndarray
_NOTHING = ()
_DESCRIBED = frozenset((Exported, Place, Placed))
_SIZES = {SHARED: PLACE_BYTES, REGION: 0}
_KINDS = frozenset((HOST.kind, _CUDA, SHARED.kind, REGION.kind))

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
            if type(values) is not _ARRAY and datatype != _BYTES:
                array = _part(name, values)
                if type(array) in _DESCRIBED:
                    key.append((name, datatype, array.shape, array.placed))
                    parts.append(array.descriptor)
                    continue
            key.append((name, datatype, array.shape))
            if datatype == _BYTES:
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
    text = to_json(described).encode()
    payload = Payload()
    places = [payload.add(part)[0] for part in parts]
    written = (
        _HEAD.pack(len(text), strings) + text,
        None if strings else places,
        payload.size,
    )
    if len(text) <= _KNOWN_BYTES:
        if len(_layouts) >= _KNOWN:
            _layouts.clear()
        _layouts[layout] = written
    return written


class Layout:
    """A layout that was read.

    Attributes:
        groups: for each request or response None, or `extra` and its tensors: what `resolve` made of each, its offset and its bytes.
        size: bytes of all tensors; 0 with BYTES, whose sizes are each message's.
    """

    __slots__ = ("groups", "size")

    def __init__(self, groups: "list[Any]", size: int) -> None:
        self.groups = groups
        self.size = size


class Reader:
    """Reads headers, and remembers their layouts.

    Args:
        resolve: makes of a tensor's name, datatype, shape and memory what the reader's side needs of it.
    """

    def __init__(self, resolve: "Callable[[str, str, tuple[int, ...], Memory], Any]") -> None:
        self._resolve = resolve
        self._known: dict[bytes, tuple[Layout, int]] = {}

    def __len__(self) -> int:
        """The number of layouts that it remembers."""
        return len(self._known)

    def read(self, header: "bytes | bytearray") -> "tuple[Layout, bytes | bytearray]":
        """The layout of a message and the rest of its header.

        Raises:
            InferenceError: UNSUPPORTED: a tensor is not in the host's memory.
            Exception: it is not a header.
        """
        length, count = _HEAD.unpack_from(header)
        start = _HEAD.size
        end = start + length
        text = bytes(header[start:end])
        known = self._known.get(text)
        if known is None:
            known = self._parsed(text)
        layout, strings = known
        if strings != count:
            raise ValueError(f"{count} sizes for {strings} BYTES tensors")
        if not strings:
            return layout, header[end:]
        sizes = struct.unpack_from(f"<{count}Q", header, end)
        return self._placed(layout, sizes), header[end + 8 * count :]

    def _parsed(self, text: bytes) -> "tuple[Layout, int]":
        groups: list[Any] = []
        strings = at = 0
        for group in read_json(text):
            if group is None:
                groups.append(None)
                continue
            extra, tensors = group
            placed: list[tuple[Any, int, int]] = []
            for name, datatype, dims, memory, device in tensors:
                where = Memory(memory, device)
                if where == HOST:
                    where = HOST
                if where.kind not in _KINDS:
                    raise unsupported(
                        f"tensor '{name}' is in memory of kind '{memory}' (device {device}), which is not supported: "
                        f"worker processes and the server exchange tensors in '{HOST.kind}' and '{_CUDA}' memory; copy it there first"
                    )
                shape = tuple(dims)
                size = -1
                if where is not HOST:
                    size = _SIZES.get(where, descriptor.BYTES)
                elif datatype == _BYTES:
                    strings += 1
                else:
                    size = math.prod(shape) * DTYPES[datatype].itemsize
                placed.append((self._resolve(name, datatype, shape, where), at, size))
                at = _behind(at, size)
            groups.append((extra, placed))
        found = Layout(groups, 0 if strings else at), strings
        if len(text) <= _KNOWN_BYTES:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[text] = found
        return found

    def _placed(self, layout: Layout, sizes: "tuple[int, ...]") -> Layout:
        """A layout with the sizes of its BYTES tensors."""
        given = iter(sizes)
        at = 0
        groups: list[Any] = []
        for group in layout.groups:
            if group is None:
                groups.append(None)
                continue
            extra, tensors = group
            placed: list[tuple[Any, int, int]] = []
            for resolved, _, fixed in tensors:
                size = next(given) if fixed < 0 else fixed
                placed.append((resolved, at, size))
                at = _behind(at, size)
            groups.append((extra, placed))
        return Layout(groups, at)


def _behind(at: int, size: int) -> int:
    """Where the next tensor lies."""
    return (at + max(size, 0) + ALIGNED - 1) & -ALIGNED if size else at


def write_outcome(execution: "Execution[Response]") -> "tuple[bytes, Payload]":
    """The header and the tensors of an OUTCOME."""
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
