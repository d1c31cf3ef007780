"""What is in a worker's messages: requests and answers, each as a header in JSON and tensors beside it.

Read and written here by the worker; the server's side of the same (with its own types and faster JSON) is `hosts/batch_frames.py`.

A batch's header is a list of requests, each `[id, correlation id, flags, timeout µs, parameters, requested outputs, cancelled, inputs]`,
an input or output being `[name, datatype, shape, offset, bytes]`. An outcome's is `{"times": [ns, ns], "answers": [...]}`, an answer
being `[null, parameters, outputs]`, `[[code, message], {}, []]` or null for one that comes apart, or, when all of it failed,
`{"error": [code, message]}`. A posted response's is `[final, begun ns, answer]`, the answer null when the end is all it says.
BYTES lie as in the wire protocol, each element behind its length (row 15.28); BF16 are two bytes of no dtype that numpy has.
"""

import json
from typing import Any

import numpy as np

from naiad.backends.python.api.byte_tensors import deserialize_bytes_tensor, serialize_byte_tensor
from naiad.backends.runner import (
    DTYPES,
    Answer,
    Outcome,
    ReceivedRequest,
    ReceivedTensor,
    Refusal,
)
from naiad.hosts.worker.link import Parcel

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_SHOWN = "replace"
"""What is no text, half a surrogate pair in a file's name for instance, becomes a question mark and does no harm."""

_from_json = json.JSONDecoder().raw_decode
_KNOWN = 256
_KNOWN_BYTES = 1024
_known: "dict[bytes, list[Any]]" = {}
_quoted = json.encoder.encode_basestring


def requests_of(base: Any, header: "bytes | bytearray", first: int) -> "list[ReceivedRequest]":
    """The requests of a BATCH.

    Args:
        base: where the tensors are.
        header: the message's.
        first: the message's number: that of the first request.
    """
    found: list[ReceivedRequest] = []
    for number, fields in enumerate(_parsed(bytes(header)), first):
        request = ReceivedRequest(number)
        (
            request.id, request.correlation_id, request.flags, request.timeout_us, request.parameters,
            request.requested_outputs, request.cancelled, inputs,
        ) = fields  # fmt: skip
        request.inputs = [tensor_of(base, each) for each in inputs]
        found.append(request)
    return found


def _parsed(header: bytes) -> "list[Any]":
    """The header of a BATCH. Batches of one kind of request have the same one again and again; nobody writes to what is in it."""
    found = _known.get(header)
    if found is None:
        found = _from_json(header.decode())[0]
        if len(header) <= _KNOWN_BYTES:
            if len(_known) >= _KNOWN:
                _known.clear()
            _known[header] = found
    return found


def tensor_of(base: Any, fields: "list[Any]") -> ReceivedTensor:
    """A tensor of a message, where it lies in the segment."""
    name, datatype, shape, at, size = fields
    if datatype == "BYTES":
        values = deserialize_bytes_tensor(bytes(base[at : at + size])).reshape(shape)
    elif size:
        values = np.ndarray(shape, DTYPES[datatype], base, at)
    else:
        values = np.empty(shape, DTYPES[datatype])
    return ReceivedTensor(name, datatype, values)


def pack_outcome(outcome: Outcome) -> "tuple[bytes, Parcel]":
    """The header and the tensors of an OUTCOME."""
    parcel = Parcel()
    answers = ",".join([_packed(answer, parcel) for answer in outcome.answers])
    times = f"{outcome.input_end_ns},{outcome.output_start_ns}"
    return f'{{"times":[{times}],"answers":[{answers}]}}'.encode(errors=_SHOWN), parcel


def pack_response(answer: "Answer | None", *, final: bool, begun_ns: int) -> "tuple[bytes, Parcel]":
    """The header and the tensors of a RESPONSE."""
    parcel = Parcel()
    return f"[{int(final)},{begun_ns},{_packed(answer, parcel)}]".encode(errors=_SHOWN), parcel


def _packed(answer: "Answer | None", parcel: Parcel) -> str:
    """An answer as JSON, put together by hand: that takes a third of what an encoder takes."""
    if answer is None:
        return "null"
    outputs: list[str] = []
    for name, datatype, values in answer.outputs:
        part = (serialize_byte_tensor(values) or b"") if datatype == "BYTES" else values
        at, size = parcel.add(part)
        # A list of numbers is written as JSON writes it.
        outputs.append(f'[{_quoted(name)},"{datatype}",{list(values.shape)},{at},{size}]')
    error = "null" if answer.error is None else _to_json(answer.error)
    parameters = _to_json(answer.parameters) if answer.parameters else "{}"
    return f"[{error},{parameters},[{','.join(outputs)}]]"


def pack_refusal(refusal: Refusal) -> bytes:
    """The header of a REFUSED, and of an OUTCOME when the whole batch failed."""
    return _to_json({"error": (refusal.code, refusal.message)}).encode(errors=_SHOWN)
