"""Infer and generate messages that are decoded and encoded in a codec process: what is called there, and what it costs to ask. Pure.

Whatever a body holds, it is the ordinary decoder that reads it and the ordinary encoder that writes the reply; only the process differs.
"""

import typing

from naiad.core.datatypes import BYTES
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.core.tensor import PackedStrings
from naiad.engine.api import ModelTraits
from naiad.protocol import raw_tensors
from naiad.protocol.codec import frames
from naiad.protocol.codec.packed_strings import check
from naiad.protocol.codec.pool import CODEC_BYTES, Codec
from naiad.protocol.codec.request_limits import check_parts
from naiad.protocol.http.codec import generate_json, infer_json, predict_json, reply_json
from naiad.protocol.http.codec.event_stream import LargeEvents
from naiad.protocol.http.codec.generate_json import GenerateReader
from naiad.protocol.http.codec.infer_json import Decoded, Target
from naiad.protocol.http.codec.predict_json import Model, Predict, PredictForm
from naiad.protocol.http.codec.reply_json import ALL_JSON, ReplyForm
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.replies import JSON_HEADERS

Parts = tuple[tuple[tuple[bytes, bytes], ...], list[typing.Any]]
"""Headers, and the body in parts."""


_MANY = 1 << 15
"""Lists and objects; 250 KB of unevenly nested ones take 70 ms."""


def is_large_json(body: bytes | memoryview, length: int) -> bool:
    """Whether reading the JSON with which a body begins would keep the event loop for long: it is long, or holds many lists and objects."""
    if length <= CODEC_BYTES // 2 or length > CODEC_BYTES:
        return length > CODEC_BYTES
    document = bytes(body[:length])
    return document.count(b"[") + document.count(b"{") > _MANY


def takes_long(response: InferResponse, form: ReplyForm) -> bool:
    """Whether writing a response would keep the event loop for long."""
    for tensor in response.outputs:
        # First what every response of numbers needs: one comparison.
        if tensor.datatype is not BYTES and tensor.array.nbytes <= raw_tensors.LARGE_ARRAY_BYTES:
            continue
        if raw_tensors.is_large(tensor):
            if not form.listed.get(tensor.name, form.binary):
                return True
            if tensor.datatype is BYTES and type(tensor) is not PackedStrings:
                return True
    return False


def decode_infer(
    codec: Codec, body: bytes | memoryview, header_length: int, target: Target
) -> Decoded:
    """`infer_json.decode` in a codec process; blocking."""
    decoded: Decoded = codec.call(_decode_infer, frames.large(body), header_length, target)
    return decoded


def encode_infer(codec: Codec, response: InferResponse, form: ReplyForm) -> HttpReply:
    """`reply_json.encode` in a codec process; blocking."""
    headers, parts = codec.call(_encode_infer, response, form)
    return HttpReply(200, headers, tuple(parts), response.id)


def read_generate(codec: Codec, body: bytes, traits: ModelTraits, target: Target) -> InferRequest:
    """`GenerateReader.read` in a codec process; blocking."""
    request: InferRequest = codec.call(_read_generate, frames.large(body), traits, target)
    return request


def encode_generate(codec: Codec, response: InferResponse) -> HttpReply:
    """`generate_json.encode` in a codec process; blocking."""
    body = codec.call(_encode_generate, response)
    return HttpReply(200, JSON_HEADERS, (body,), response.id)


def decode_predict(codec: Codec, body: bytes, model: Model, request_id: str) -> Predict:
    """`predict_json.decode` in a codec process; blocking."""
    predict: Predict = codec.call(_decode_predict, frames.large(body), model, request_id)
    return predict


def encode_predict(codec: Codec, response: InferResponse, form: PredictForm) -> memoryview:
    """`predict_json.encode` in a codec process; blocking."""
    body: memoryview = codec.call(_encode_predict, response, form)
    return body


def infer_events(codec: Codec) -> LargeEvents:
    """How events are written that are infer responses."""
    return _events(codec, _infer_event)


def generate_events(codec: Codec) -> LargeEvents:
    """How events are written that are generate responses."""
    return _events(codec, _generate_event)


def _events(codec: Codec, function: frames.Function) -> LargeEvents:
    def encode(codec: Codec, response: InferResponse) -> memoryview:
        event: memoryview = codec.call(function, response)
        return event

    return LargeEvents(codec, lambda response: takes_long(response, ALL_JSON), encode)


def _infer_event(response: InferResponse) -> typing.Any:
    text = b"".join(reply_json.encode(response, ALL_JSON).body)
    return frames.large(b"data: %b\n\n" % text)


def _generate_event(response: InferResponse) -> typing.Any:
    return frames.large(b"data: %b\n\n" % generate_json.encode(response))


def _decode_infer(body: memoryview, header_length: int, target: Target) -> Decoded:
    decoded = infer_json.decode(bytes(body), header_length, target)
    check_parts(decoded.request)
    check(None, decoded.request)
    return decoded


def _encode_infer(response: InferResponse, form: ReplyForm) -> Parts:
    reply = reply_json.encode(response, form)
    return reply.headers, [frames.large(part) for part in reply.body]


def _read_generate(body: memoryview, traits: ModelTraits, target: Target) -> InferRequest:
    request = GenerateReader(traits, target).read(bytes(body))
    check_parts(request)
    return request


def _encode_generate(response: InferResponse) -> typing.Any:
    return frames.large(generate_json.encode(response))


def _decode_predict(body: memoryview, model: Model, request_id: str) -> Predict:
    predict = predict_json.decode(bytes(body), model, request_id)
    check_parts(predict.request)
    return predict


def _encode_predict(response: InferResponse, form: PredictForm) -> typing.Any:
    return frames.large(predict_json.encode(response, form))
