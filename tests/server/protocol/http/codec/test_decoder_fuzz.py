"""Whatever a client sends: an InferenceError, or a request whose tensors are what they say they are."""

import gzip
import json
import math
import struct
import typing

import hypothesis
import numpy as np
from hypothesis import strategies as some

from naiad.core import datatypes
from naiad.core.request import InferRequest
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from naiad.protocol.http.codec import reply_json, typed_json
from naiad.protocol.http.codec.infer_json import Target
from naiad.protocol.http.codec.reply_json import ALL_BINARY, ALL_JSON
from naiad.protocol.http.message import HttpRequest
from naiad.protocol.http.routes import HttpOptions, Routes
from tests.server.protocol.http.scripted_engine import Replies, ScriptedEngine, response

PATH = "/v2/models/m/infer"
LIMIT = 100_000
TARGET = Target("m", -1, LIMIT)

scalars = (
    some.none()
    | some.booleans()
    | some.integers(-(2**70), 2**70)
    | some.floats()
    | some.text(max_size=5)
    | some.sampled_from(["FP32", "BYTES", "INT8", "BOOL", "FP16"])
)
values = some.recursive(
    scalars,
    lambda inner: some.lists(inner, max_size=4)
    | some.dictionaries(
        some.sampled_from(["name", "shape", "data", "datatype", "parameters", "binary_data_size", "id", "inputs", "x"]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
names = some.sampled_from([datatype.name for datatype in datatypes.ALL])
shapes = some.lists(some.integers(0, 3), max_size=4)


@some.composite
def entries(draw: some.DrawFn) -> tuple[dict[str, typing.Any], bytes]:
    """An input that is nearly right, and its binary data."""
    datatype = datatypes.BY_NAME[draw(names)]
    shape = draw(shapes)
    count = math.prod(shape)
    entry: dict[str, typing.Any] = {"name": "IN", "shape": shape, "datatype": datatype.name}
    tail = b""
    if draw(some.booleans()):
        entry["data"] = draw(some.lists(scalars, min_size=count, max_size=count))
    else:
        if datatype is datatypes.BYTES:
            elements = draw(some.lists(some.binary(max_size=4), min_size=count, max_size=count))
            tail = b"".join(struct.pack("<I", len(element)) + element for element in elements)
        else:
            tail = bytes(count * datatype.size)
        entry["parameters"] = {"binary_data_size": len(tail)}
    if draw(some.integers(0, 3)) == 0:
        entry[draw(some.sampled_from(sorted(entry)))] = draw(values)
    return entry, tail


@some.composite
def documents(draw: some.DrawFn) -> tuple[bytes, bytes]:
    """A request that is nearly right: its JSON and its binary data."""
    drawn = draw(some.lists(entries(), max_size=3))
    root: typing.Any = {"inputs": [entry for entry, _ in drawn]}
    if draw(some.booleans()):
        root[draw(some.sampled_from(["id", "parameters", "outputs"]))] = draw(values)
    return json.dumps(root).encode("utf-8", "replace"), b"".join(tail for _, tail in drawn)


def check(request: InferRequest) -> None:
    """Hold a decoded request to what core promises."""
    assert isinstance(request.id, str)
    for name in request.output_names:
        assert isinstance(name, str)
    for value in request.parameters.values():
        assert isinstance(value, (bool, int, float, str))
    for tensor in request.inputs:
        assert isinstance(tensor.name, str)
        assert all(type(dim) is int and dim >= 0 for dim in tensor.shape)
        if tensor.fault is None:
            assert tensor.array.shape == tensor.shape
            assert tensor.array.dtype == tensor.datatype.dtype
            assert tensor.array.flags.c_contiguous
            if tensor.datatype is datatypes.BYTES:
                assert all(type(element) is bytes for element in tensor.array.flat)


def decode(body: bytes, header_length: int) -> None:
    try:
        decoded = typed_json.decode(body, header_length, TARGET)
    except InferenceError as error:
        assert error.message  # noqa: PT017 - either outcome is right
        return
    check(decoded.request)


@hypothesis.given(documents(), some.binary(max_size=3))
def test_requests_that_are_nearly_right(document: tuple[bytes, bytes], more: bytes) -> None:
    text, tail = document
    decode(text + tail + more, len(text))


@hypothesis.given(values)
def test_any_json(value: typing.Any) -> None:
    text = json.dumps(value).encode("utf-8", "replace")
    decode(text, len(text))
    text = json.dumps({"inputs": value, "outputs": value, "parameters": value}).encode()
    decode(text, len(text))


@hypothesis.given(documents(), some.data())
def test_requests_with_damaged_bytes(document: tuple[bytes, bytes], data: some.DataObject) -> None:
    text, tail = document
    body = bytearray(text + tail)
    for _ in range(data.draw(some.integers(1, 4))):
        at = data.draw(some.integers(0, len(body) - 1))
        body[at : at + data.draw(some.integers(0, 2))] = data.draw(some.binary(max_size=3))
        hypothesis.assume(body)
    decode(bytes(body), data.draw(some.integers(1, len(body))))


@hypothesis.given(
    body=some.binary(max_size=60) | documents().map(lambda parts: parts[0] + parts[1]),
    length=some.none() | some.integers(-5, 400).map(lambda number: b"%d" % number) | some.binary(max_size=5),
    encoding=some.sampled_from([None, b"gzip", b"deflate", b"identity", b"br", b""]),
    accept=some.none() | some.sampled_from([b"gzip", b"deflate;q=0.3", b";", b"gzip;q=inf"]),
    pack=some.booleans(),
)  # fmt: skip
def test_whole_requests_are_always_answered_exactly_once(
    *, body: bytes, length: bytes | None, encoding: bytes | None, accept: bytes | None, pack: bool
) -> None:
    engine = ScriptedEngine()
    engine.answer = response()
    sent = {
        b"inference-header-content-length": length,
        b"content-encoding": encoding,
        b"accept-encoding": accept,
    }
    headers = {name: value for name, value in sent.items() if value is not None}
    routes = Routes(engine, HttpOptions(max_input_size=LIMIT))
    handler = routes.find(b"POST", PATH, headers)
    assert handler is not None
    replies = Replies()
    handler(HttpRequest(b"POST", PATH, headers, gzip.compress(body) if pack else body), replies)
    assert replies.only.status in {200, 400, 500, 501}
    assert b"it is not the request's fault" not in b"".join(replies.only.body)
    for request in engine.requests:
        check(request)


@hypothesis.given(names, shapes, some.booleans(), some.data())
def test_what_is_written_is_read_as_it_was(
    name: str,
    shape: list[int],
    binary: bool,  # noqa: FBT001 - given by hypothesis
    data: some.DataObject,
) -> None:
    datatype = datatypes.BY_NAME[name]
    hypothesis.assume(binary or name not in {"FP16", "BF16"})
    count = math.prod(shape)
    if datatype is datatypes.BYTES:
        elements = some.binary(max_size=4) if binary else some.text(max_size=4).map(str.encode)
        array = np.empty(count, dtype=object)
        array[:] = data.draw(some.lists(elements, min_size=count, max_size=count))
    elif datatype is datatypes.BOOL:
        array = np.array(
            data.draw(some.lists(some.booleans(), min_size=count, max_size=count)), bool
        )
    else:
        raw = data.draw(some.binary(min_size=count * datatype.size, max_size=count * datatype.size))
        array = np.frombuffer(raw, datatype.dtype)
    sent = Tensor("IN", datatype, tuple(shape), array.reshape(shape))
    reply = reply_json.encode(response(sent), ALL_BINARY if binary else ALL_JSON)
    header_length = len(reply.body[0])
    body = b"".join(reply.body).replace(b'"outputs"', b'"inputs" ')
    decoded = typed_json.decode(body, header_length, TARGET)
    (got,) = decoded.request.inputs
    assert (got.datatype, got.shape, got.fault) == (datatype, tuple(shape), None)
    if datatype.kind is datatypes.Kind.FLOAT:
        assert ((got.array == sent.array) | (np.isnan(got.array) & np.isnan(sent.array))).all()
    else:
        assert (got.array == sent.array).all()
