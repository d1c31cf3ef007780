"""The content of a worker's messages: requests and responses, each as a header in JSON and tensors beside it.

Read and written here by the worker; the server's side of the same (with its own types and faster JSON) is `hosts/batch_frames.py`.

A batch's header is a list of requests, each `[id, correlation id, flags, timeout µs, parameters, requested outputs, cancelled, rows, inputs]`,
an input or output being `[name, datatype, shape, offset, bytes]`. An outcome's is a list of answers, an answer
being `[null, parameters, outputs]`, `[[code, message], {}, []]` or null for a deferred one, or, if the whole batch failed,
`{"error": [code, message]}`; behind it stand the two times of `Execution`, eight bytes each. The header of a RESPONSE is `[final, begun ns, answer]`, with null as the answer if it only ends the responses.
BYTES lie as in the wire protocol, each element behind its length (row 15.28); BF16 are two bytes of no dtype that numpy has.

Most batches look like one before: same tensors, other numbers. Both sides remember what a header means, and a worker how it wrote
one, because putting it together and reading it was a third of what a small batch cost.
"""

import json
import struct
from typing import Any

import numpy as np

from naiad.backends.instance import Execution, Response
from naiad.backends.python.api.byte_tensors import deserialize_bytes_tensor, serialize_byte_tensor
from naiad.errors import InferenceError
from naiad.hosts.worker.link import Payload
from naiad.hosts.worker.requests import ReceivedRequest, ReceivedTensor

DTYPES = {
    "BOOL": np.dtype(np.bool_), "UINT8": np.dtype(np.uint8), "UINT16": np.dtype(np.uint16), "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64), "INT8": np.dtype(np.int8), "INT16": np.dtype(np.int16), "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64), "FP16": np.dtype(np.float16), "FP32": np.dtype(np.float32), "FP64": np.dtype(np.float64),
    "BF16": np.dtype("V2"),
}  # fmt: skip
"""By wire name (row 2.16); BYTES are object arrays."""

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_SHOWN = "replace"
"""What is no text, half a surrogate pair in a file's name for instance, becomes a question mark and does no harm."""

_from_json = json.JSONDecoder().raw_decode
TIMES = struct.Struct("<qq")
"""What stands behind an outcome's JSON."""

_KNOWN = 256
_KNOWN_BYTES = 4096
_known: "dict[bytes, list[Any]]" = {}
_layouts: "dict[tuple[Any, ...], tuple[bytes, list[int], int]]" = {}
"""By names, datatypes and shapes of a batch's answers: their JSON, where each tensor lies, and how much that is together."""
_quoted = json.encoder.encode_basestring


def requests_of(base: Any, header: "bytes | bytearray", first: int) -> "list[ReceivedRequest]":
    """The requests of a BATCH.

    Args:
        base: where the tensors are.
        header: the message's.
        first: the message's number: that of the first request.
    """
    found: list[ReceivedRequest] = []
    for number, (fields, inputs) in enumerate(_parsed(bytes(header)), first):
        request = ReceivedRequest(number)
        (
            request.id, request.correlation_id, request.flags, request.timeout_us, request.parameters,
            request.output_names, request.cancelled, request.batch_size,
        ) = fields  # fmt: skip
        request.inputs = [_tensor(base, *each) for each in inputs]
        found.append(request)
    return found


def _parsed(header: bytes) -> "list[Any]":
    """The header of a BATCH: of each request its fields and its inputs. Nobody writes to what is in it."""
    found = _known.get(header)
    if found is None:
        parsed = _from_json(header.decode())[0]
        found = [(fields, [_resolved(each) for each in inputs]) for *fields, inputs in parsed]
        if len(header) <= _KNOWN_BYTES:
            if len(_known) >= _KNOWN:
                _known.clear()
            _known[header] = found
    return found


def tensor_of(base: Any, fields: "list[Any]") -> ReceivedTensor:
    """A tensor of a message, where it lies in the segment."""
    return _tensor(base, *_resolved(fields))


def _resolved(fields: "list[Any]") -> "tuple[Any, ...]":
    """What a message says of a tensor, with its dtype, None for BYTES, before the place where it lies."""
    name, datatype, shape, at, size = fields
    return name, datatype, DTYPES.get(datatype), tuple(shape), at, size


def _tensor(  # noqa: PLR0917 - a message's own fields
    base: Any, name: str, datatype: str, dtype: Any, shape: "tuple[int, ...]", at: int, size: int
) -> ReceivedTensor:
    if dtype is None:
        values = deserialize_bytes_tensor(bytes(base[at : at + size])).reshape(shape)
    elif size:
        values = np.ndarray(shape, dtype, base, at)
    else:
        values = np.empty(shape, dtype)
    return ReceivedTensor(name, datatype, values)


def pack_outcome(outcome: "Execution[Response]") -> "tuple[bytes, Payload]":
    """The header and the tensors of an OUTCOME."""
    times = TIMES.pack(outcome.input_end_ns, outcome.output_start_ns)
    key: list[Any] = []
    parts: list[Any] = []
    plain = True
    for answer in outcome.responses:
        if answer is None or answer.parameters or answer.error is not None:
            plain = False
            break
        for name, datatype, values in answer.outputs:
            key.append((name, datatype, values.shape))
            parts.append(values)
            # BYTES take as much room as they need, and what is empty takes none.
            plain = plain and datatype != "BYTES" and values.size > 0
        key.append(None)
    layout = tuple(key) if plain else ()
    known = _layouts.get(layout) if plain else None
    if known is not None:
        text, places, size = known
        return text + times, Payload(list(zip(places, parts)), size)  # noqa: B905 - 3.8 knows no strict
    payload = Payload()
    answers = ",".join([_packed(answer, payload) for answer in outcome.responses])
    text = f"[{answers}]".encode(errors=_SHOWN)
    if plain and len(text) <= _KNOWN_BYTES:
        if len(_layouts) >= _KNOWN:
            _layouts.clear()
        _layouts[layout] = (text, payload.places(), payload.size)
    return text + times, payload


def pack_response(
    answer: "Response | None", *, final: bool, begun_ns: int
) -> "tuple[bytes, Payload]":
    """The header and the tensors of a RESPONSE."""
    payload = Payload()
    return f"[{int(final)},{begun_ns},{_packed(answer, payload)}]".encode(errors=_SHOWN), payload


def _packed(answer: "Response | None", payload: Payload) -> str:
    """An answer as JSON, put together by hand: that takes a third of what an encoder takes."""
    if answer is None:
        return "null"
    outputs: list[str] = []
    for name, datatype, values in answer.outputs:
        part = (serialize_byte_tensor(values) or b"") if datatype == "BYTES" else values
        at, size = payload.add(part)
        # A list of numbers is written as JSON writes it.
        outputs.append(f'[{_quoted(name)},"{datatype}",{list(values.shape)},{at},{size}]')
    failed = answer.error
    error = "null" if failed is None else _to_json((failed.code.name, failed.message))
    parameters = _to_json(answer.parameters) if answer.parameters else "{}"
    return f"[{error},{parameters},[{','.join(outputs)}]]"


def pack_refusal(refusal: InferenceError) -> bytes:
    """The header of a REFUSED."""
    return _to_json({"error": (refusal.code.name, refusal.message)}).encode(errors=_SHOWN)


def pack_failure(refusal: InferenceError) -> bytes:
    """The header of an OUTCOME when the whole batch failed."""
    return pack_refusal(refusal) + TIMES.pack(0, 0)
