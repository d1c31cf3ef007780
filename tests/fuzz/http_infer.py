"""Bodies and headers of HTTP infer requests: each is answered once, never with 'a fault of the server', and what reaches the engine is whole.

An input is one byte that chooses headers, two bytes for Inference-Header-Content-Length (0xFFFF: none), then the body.
"""

import math

from naiad.core import datatypes
from naiad.core.request import InferRequest
from naiad.protocol.http.message import HttpRequest
from naiad.protocol.http.routes import HttpOptions, Routes
from tests.server.protocol.http.scripted_engine import Replies, ScriptedEngine, response

WORDS = (
    '"inputs"', '"outputs"', '"parameters"', '"name"', '"shape"', '"datatype"', '"data"', '"id"', '"binary_data_size"',
    '"binary_data"', '"binary_data_output"', '"classification"', '"shared_memory_region"', '"sequence_id"', '"priority"',
    '"timeout"', '"FP32"', '"BYTES"', '"BOOL"', '"INT8"', '"FP16"', "true", "false", "null", "NaN", "-Infinity", "1e400",
    "18446744073709551616", "[[", "]]", "{}", "\\\\ud800", '"triton_x"',
)  # fmt: skip

_PATHS = ("/v2/models/m/infer", "/v2/models/m/generate", "/v2/models/m/versions/1/infer")
_ENCODINGS = (None, b"identity", b"gzip", b"deflate", b"br")
_LIMIT = 70_000
_NO_LENGTH = 0xFFFF

_JSON = b'{"id":"1","inputs":[{"name":"INPUT0","shape":[2],"datatype":"FP32","data":[1.5,2]}],"outputs":[{"name":"OUTPUT0"}]}'
_BINARY = b'{"inputs":[{"name":"INPUT0","shape":[2],"datatype":"INT16","parameters":{"binary_data_size":4}}]}'


def seeds() -> list[bytes]:
    """Requests that are right."""
    return [
        b"\0\xff\xff" + _JSON,
        b"\0" + len(_BINARY).to_bytes(2, "little") + _BINARY + b"abcd",
        b"\0\0\0" + bytes(16),
        b'\1\xff\xff{"text_input":"a","INPUT0":[1,2,3,4]}',
        b'\0\xff\xff{"inputs":[{"name":"A","shape":[1,2],"datatype":"BYTES","data":["a",["b"]]}],"parameters":{"binary_data_output":true,"priority":1}}',
    ]


def check(data: bytes) -> None:
    """Raise if the server would fail on this input."""
    choice, length, body = data[:1].ljust(1, b"\0")[0], data[1:3], data[3:]
    headers: dict[bytes, bytes] = {}
    header_length = int.from_bytes(length.ljust(2, b"\xff"), "little")
    if header_length != _NO_LENGTH:
        headers[b"inference-header-content-length"] = b"%d" % header_length
    encoding = _ENCODINGS[choice // len(_PATHS) % len(_ENCODINGS)]
    if encoding is not None:
        headers[b"content-encoding"] = encoding
    path = _PATHS[choice % len(_PATHS)]
    engine = ScriptedEngine()
    engine.answer = response()
    routes = Routes(engine, HttpOptions(max_input_size=_LIMIT))
    handler = routes.find(b"POST", path, headers)
    assert handler is not None
    replies = Replies()
    handler(HttpRequest(b"POST", path, headers, body), replies)
    reply = replies.only
    assert reply.status in {200, 400, 404, 415, 500, 501}, reply.status
    assert b"it is not the request's fault" not in b"".join(map(bytes, reply.body))
    for request in engine.requests:
        whole(request)


def whole(request: InferRequest) -> None:
    """Raise unless a decoded request is what `InferRequest` promises."""
    assert isinstance(request.id, str)
    for text in (
        request.id,
        request.correlation_id,
        *request.parameters,
        *request.parameters.values(),
    ):
        if isinstance(text, str):
            text.encode()  # it goes to workers and into responses
    assert all(isinstance(name, str) for name in request.output_names)
    assert all(isinstance(value, (bool, int, float, str)) for value in request.parameters.values())
    assert isinstance(request.priority, int)
    assert isinstance(request.timeout_us, int)
    assert isinstance(request.correlation_id, (int, str))
    for tensor in request.inputs:
        assert isinstance(tensor.name, str)
        if tensor.fault is not None:
            continue
        assert all(type(size) is int and size >= 0 for size in tensor.shape)
        assert tensor.array.shape == tensor.shape
        assert tensor.array.dtype == tensor.datatype.dtype
        assert tensor.array.size == math.prod(tensor.shape)
        if tensor.datatype is datatypes.BYTES:
            assert all(type(element) is bytes for element in tensor.array.flat)


def summary(request: InferRequest) -> tuple[object, ...]:
    """All of a request, comparable: two that are equal in this are the same to every model."""
    inputs = tuple(
        (each.name, each.datatype.name, each.shape, each.fault is not None)
        + (() if each.fault is not None else (_values(each),))
        for each in request.inputs
    )
    parameters = tuple(
        sorted(
            (name, type(value).__name__, repr(value)) for name, value in request.parameters.items()
        )
    )
    return (
        request.model_name, request.model_version, request.id, inputs, tuple(request.output_names), parameters,
        request.priority, request.timeout_us, request.correlation_id, request.flags,
    )  # fmt: skip


def _values(tensor: object) -> object:
    array = tensor.array  # type: ignore[attr-defined]
    return tuple(array.flat) if array.dtype == object else array.tobytes()
