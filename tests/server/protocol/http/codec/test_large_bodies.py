"""Bodies and replies that a codec process decodes and encodes: the same answers, and whichever way it ends."""

import collections.abc
import gzip
import json
import struct
import typing

import httpx
import numpy as np
import orjson
import pytest

from naiad.core.datatypes import FP32
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import PackedStrings, pack, packed_strings
from naiad.errors import unavailable
from naiad.protocol.codec.pool import CODEC_BYTES
from naiad.protocol.http.admin.control_plane import ControlPlane
from naiad.protocol.http.generate import GenerateRoute
from naiad.protocol.http.inference import InferenceLimits, InferRoute
from naiad.protocol.http.message import BodyStream, FastHandler, HttpReply, HttpRequest
from naiad.protocol.http.routes import HttpOptions, Routes
from tests.server.protocol.http.scripted_engine import (
    Replies,
    ScriptedEngine,
    body_of,
    error_of,
    header_of,
    json_of,
    response,
    tensor,
)
from tests.support.codec import InlineCodec

COUNT = 100_000
TEXT = "x" * 9_000_000
SMALL = response(tensor("OUT", FP32, [1]), request_id="r")


@pytest.fixture
def codec() -> collections.abc.Iterator[InlineCodec]:
    made = InlineCodec()
    yield made
    made.gate.set()
    made.close()


def infer_json(count: int = COUNT, *, shape: int = COUNT, **more: typing.Any) -> bytes:
    data = [1.5] * count
    entry = {"name": "INPUT0", "shape": [shape], "datatype": "FP32", "data": data, **more}
    return orjson.dumps({"id": "r", "inputs": [entry]})


def binary_strings(*, shape: int = COUNT) -> tuple[bytes, dict[bytes, bytes]]:
    tail = b"\2\0\0\0ab" * COUNT
    entry = {
        "name": "INPUT0",
        "shape": [shape],
        "datatype": "BYTES",
        "parameters": {"binary_data_size": len(tail)},
    }
    head = orjson.dumps({"inputs": [entry]})
    return head + tail, {b"inference-header-content-length": b"%d" % len(head)}


class Client:
    """Sends requests to one route; the engine answers at once."""

    def __init__(self, codec: InlineCodec, answer: InferResponse | None = SMALL) -> None:
        self.codec = codec
        self.engine = ScriptedEngine()
        self.engine.answer = answer
        self.replies = Replies()
        limits = InferenceLimits(max_input_size=1 << 26, forwarded=None, codec=codec)
        self.infer = InferRoute(self.engine, limits, model="m", version=LATEST)
        self.generate, self.stream = (
            GenerateRoute(self.engine, limits, model="m", version=LATEST, streams=streams)
            for streams in (False, True)
        )

    def begin(
        self, route: FastHandler, body: bytes, headers: dict[bytes, bytes] | None = None
    ) -> typing.Any:
        return route(HttpRequest(b"POST", "/", headers or {}, body), self.replies)

    async def send(
        self, route: FastHandler, body: bytes, headers: dict[bytes, bytes] | None = None
    ) -> HttpReply:
        self.begin(route, body, headers)
        return await self.replies.arrived()

    @property
    def request(self) -> InferRequest:
        return self.engine.request


async def test_large_json_is_read_in_the_process(codec: InlineCodec) -> None:
    client = Client(codec)
    reply = await client.send(client.infer, infer_json())
    assert json_of(reply)["outputs"][0]["data"] == [1.0]
    assert codec.called == ["_decode_infer"]
    assert client.request.id == "r"
    assert client.request.inputs[0].array.tolist() == [1.5] * COUNT


async def test_a_body_that_was_compressed_counts_as_long_as_it_was(codec: InlineCodec) -> None:
    client = Client(codec)
    body = gzip.compress(infer_json())
    assert (await client.send(client.infer, body, {b"content-encoding": b"gzip"})).status == 200
    assert codec.called == ["_decode_infer"]


@pytest.mark.parametrize(("lists", "called"), [(32_000, []), (33_000, ["_decode_infer"])])
@pytest.mark.parametrize("one", ["[],", "[1],", "{},"])
async def test_json_of_many_lists_or_objects_is_read_in_the_process_though_it_is_short(
    codec: InlineCodec, one: str, lists: int, called: list[str]
) -> None:
    client = Client(codec)
    body = '{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,4],"data":[%s1]}]}'
    body += " " * CODEC_BYTES
    reply = await client.send(client.infer, (body % (one * lists)).encode()[:CODEC_BYTES])
    assert reply.status in (400, 500)
    assert codec.called == called


async def test_small_json_and_large_numbers_stay_on_the_loop(codec: InlineCodec) -> None:
    client = Client(codec)
    entry = {
        "name": "INPUT0",
        "shape": [COUNT],
        "datatype": "FP32",
        "parameters": {"binary_data_size": 4 * COUNT},
    }
    head = orjson.dumps({"inputs": [entry]})
    headers = {b"inference-header-content-length": b"%d" % len(head)}
    assert client.begin(client.infer, head + bytes(4 * COUNT), headers) is None
    assert client.replies.only.status == 200
    assert codec.called == []


async def test_many_strings_are_checked_there_and_stay_packed(codec: InlineCodec) -> None:
    client = Client(codec)
    assert (await client.send(client.infer, *binary_strings())).status == 200
    assert codec.called == ["fault_in"]
    (only,) = client.request.inputs
    assert type(only) is PackedStrings
    assert set(only.array.flat) == {b"ab"}


@pytest.mark.parametrize("shape", [COUNT - 1, COUNT + 1])
async def test_strings_that_do_not_fill_their_shape_are_a_fault(
    codec: InlineCodec, shape: int
) -> None:
    client = Client(codec)
    await client.send(client.infer, *binary_strings(shape=shape))
    assert "string elements" in str(client.request.inputs[0].fault)


async def test_strings_in_large_json_come_back_packed(codec: InlineCodec) -> None:
    client = Client(codec)
    await client.send(client.infer, infer_json(datatype="BYTES", data=["ab"] * COUNT))
    (only,) = client.request.inputs
    assert type(only) is PackedStrings
    assert only.packed.tobytes() == (struct.pack("<I", 2) + b"ab") * COUNT


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (infer_json()[:-1], 500, "failed to parse the request JSON buffer"),
        (infer_json(shape=COUNT + 1), 500, "shape does not match true shape"),
        (infer_json(data=[[]] * COUNT + [1], shape=1), 400, "lists for 1 elements"),
        (
            orjson.dumps({"inputs": [], "parameters": {f"{n:08x}": 1 for n in range(COUNT)}}),
            400,
            "at most 4096",
        ),
    ],
)
async def test_what_is_wrong_is_refused_as_in_a_small_body(
    codec: InlineCodec, body: bytes, status: int, text: str
) -> None:
    client = Client(codec)
    reply = await client.send(client.infer, body)
    assert reply.status == status
    assert text in error_of(reply)
    assert not client.engine.requests


ONE = {"name": "IN", "datatype": "FP32", "shape": [1], "data": [1]}


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"id": TEXT}, id="id"),
        pytest.param({"parameters": {TEXT: 1}}, id="parameter-name"),
        pytest.param({"parameters": {"a": TEXT[:5_000_000], "b": TEXT[:5_000_000]}}, id="together"),
        pytest.param({"parameters": {"sequence_id": TEXT}}, id="sequence"),
        pytest.param({"outputs": [{"name": TEXT}]}, id="output"),
        pytest.param({"inputs": [ONE | {"name": TEXT}]}, id="input"),
    ],
)
async def test_a_long_text_beside_the_tensors_is_refused(
    codec: InlineCodec, part: dict[str, typing.Any]
) -> None:
    client = Client(codec)
    reply = await client.send(client.infer, orjson.dumps({"inputs": [ONE]} | part))
    assert reply.status == 400
    assert f"{1 << 23} are accepted: send a long text as a BYTES tensor" in error_of(reply)
    assert not client.engine.requests


@pytest.mark.parametrize(
    ("error", "status"), [(unavailable("it ended"), 503), (OSError("no memory"), 500)]
)
async def test_a_codec_that_fails_fails_the_request(
    codec: InlineCodec, error: Exception, status: int
) -> None:
    codec.error = error
    client = Client(codec)
    assert (await client.send(client.infer, infer_json())).status == status


async def test_a_client_that_leaves_while_its_request_is_decoded_costs_no_inference(
    codec: InlineCodec,
) -> None:
    codec.gate.clear()
    client = Client(codec)
    client.begin(client.infer, infer_json()).cancel()
    codec.gate.set()
    await codec.idle()
    assert not client.engine.requests


@pytest.mark.parametrize("accepts", [b"", b"gzip"])
async def test_a_large_reply_is_written_in_the_process(codec: InlineCodec, accepts: bytes) -> None:
    client = Client(codec, response(tensor("OUT", FP32, [1.5] * COUNT), request_id="r"))
    headers = {b"accept-encoding": accepts} if accepts else None
    reply = await client.send(client.infer, infer_json(1, shape=1), headers)
    assert codec.called == ["_encode_infer"]
    body = gzip.decompress(body_of(reply)) if accepts else body_of(reply)
    assert json.loads(body)["outputs"][0]["data"] == [1.5] * COUNT
    assert reply.request_id == "r"
    assert header_of(reply, b"Content-Encoding") == (accepts or None)


async def test_packed_strings_are_written_in_the_process_as_json_and_here_as_bytes(
    codec: InlineCodec,
) -> None:
    packed = pack(np.full(COUNT, b"ab", object))
    answer = response(packed_strings("OUT", (COUNT,), packed))
    client = Client(codec, answer)
    reply = await client.send(client.infer, infer_json(1, shape=1))
    assert json_of(reply)["outputs"][0]["data"] == ["ab"] * COUNT
    entry = {"name": "OUT", "parameters": {"binary_data": True}}
    body = orjson.loads(infer_json(1, shape=1)) | {"outputs": [entry]}
    client = Client(codec, answer)
    reply = await client.send(client.infer, orjson.dumps(body))
    assert body_of(reply).endswith(packed.tobytes())
    assert codec.called == ["_encode_infer"]


async def test_a_large_reply_that_cannot_be_written_is_an_error(codec: InlineCodec) -> None:
    broken = packed_strings("OUT", (COUNT,), pack(np.full(3, b"ab", object)))
    client = Client(codec, response(broken))
    assert (await client.send(client.infer, infer_json(1, shape=1))).status == 500


async def test_generate_reads_and_writes_there(codec: InlineCodec) -> None:
    client = Client(codec, response(tensor("OUT", FP32, [1.5] * COUNT)))
    reply = await client.send(
        client.generate, orjson.dumps({"INPUT0": [1.5] * 4, "p": "x" * 300_000})
    )
    assert codec.called == ["_read_generate", "_encode_generate"]
    assert client.request.inputs[0].array.tolist() == [[1.5] * 4]
    assert json_of(reply)["OUT"] == [1.5] * COUNT


class _BodyWriter:
    def __init__(self) -> None:
        self.body = b""
        self.ended = False

    def write(self, data: bytes | memoryview) -> None:
        self.body += data

    def end(self) -> None:
        self.ended = True

    def cut(self) -> None:
        raise AssertionError("not expected here")


def part(*values: float, final: bool = False) -> InferResponse:
    outputs = [] if final else [tensor("OUT", FP32, values)]
    return InferResponse("m", 1, "r", outputs, {}, None, final, final)


async def test_large_events_keep_their_order(codec: InlineCodec) -> None:
    client = Client(codec, None)
    client.begin(client.stream, b'{"INPUT0":[1,2,3,4]}')
    (answer,) = client.engine.callbacks
    codec.gate.clear()
    for each in (part(1), part(*[2] * COUNT), part(3), part(*[4] * COUNT), part(final=True)):
        answer(each)
    writer = _BodyWriter()
    stream = client.replies.only.stream
    assert stream is not None
    stream.begin(writer)
    codec.gate.set()
    await codec.idle()
    await codec.idle()
    assert writer.ended
    events = [json.loads(event[6:]) for event in writer.body.split(b"\n\n")[:-1]]
    assert [event["OUT"] for event in events] == [1, [2] * COUNT, 3, [4] * COUNT]


async def test_a_model_waits_while_its_events_wait_to_be_written(codec: InlineCodec) -> None:
    client = Client(codec, None)
    client.begin(client.stream, b'{"INPUT0":[1,2,3,4]}')
    (answer,) = client.engine.callbacks
    flow = client.engine.inferences[0].flow
    assert flow is not None
    codec.gate.clear()
    answer(part(*[2] * COUNT))
    assert not flow.is_full()  # one may be made while another is written
    answer(part(*[3] * COUNT))
    assert flow.is_full()
    codec.gate.set()
    await codec.idle()
    await codec.idle()
    assert not flow.is_full()
    stream = client.replies.only.stream
    assert stream is not None
    codec.gate.clear()
    answer(part(*[4] * COUNT))
    answer(part(*[5] * COUNT))
    stream.pause()
    codec.gate.set()
    await codec.idle()
    await codec.idle()
    assert flow.is_full()  # the client has not read them yet
    stream.resume()
    assert not flow.is_full()


async def test_a_large_event_that_cannot_be_written_is_an_error_event(codec: InlineCodec) -> None:
    client = Client(codec, None)
    client.begin(client.stream, b'{"INPUT0":[1,2,3,4]}')
    (answer,) = client.engine.callbacks
    codec.error = unavailable("it ended")
    answer(part(*[2] * COUNT))
    answer(part(final=True))
    reply = await client.replies.arrived()
    writer = _BodyWriter()
    assert reply.stream is not None
    reply.stream.begin(writer)
    assert reply.status == 503
    assert writer.body == b'data: {"error":"it ended"}\n\n'
    assert writer.ended


async def test_a_client_that_leaves_while_an_event_is_written_gets_nothing(
    codec: InlineCodec,
) -> None:
    client = Client(codec, None)
    stream: BodyStream = client.begin(client.stream, b'{"INPUT0":[1,2,3,4]}')
    (answer,) = client.engine.callbacks
    codec.gate.clear()
    answer(part(*[2] * COUNT))
    answer(part(3))
    stream.cancel()
    codec.gate.set()
    await codec.idle()
    assert not client.replies.all


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2/repository/models/m/load", b'{"parameters":{"config":"%b"}}' % (b"x" * 300_000)),
        ("/v2/repository/models/m/unload", b'{"x":"%b"}' % (b"x" * 300_000)),
        ("/v2/repository/index", b'{"x":"%b"}' % (b"x" * 300_000)),
    ],
)
async def test_large_bodies_of_the_control_plane_are_read_there(
    codec: InlineCodec, path: str, body: bytes
) -> None:
    engine = ScriptedEngine()
    app = ControlPlane(engine, Routes(engine, HttpOptions()), {}, None, codec)
    transport = httpx.ASGITransport(app=typing.cast("typing.Any", app))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as browser:
        assert (await browser.post(path, content=body)).status_code == 200
        assert codec.called == ["on_bytes"]
        assert (await browser.post(path, content=body[:-1])).status_code == 500
