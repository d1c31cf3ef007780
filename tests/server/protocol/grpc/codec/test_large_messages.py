"""Messages that a codec process decodes: the same answers, in the same order, and whichever way it ends."""

import collections.abc
import typing

import numpy as np
import pytest
from typing_extensions import override

from naiad.core.datatypes import BYTES
from naiad.core.messages import service_pb2
from naiad.core.request import InferRequest
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import PackedStrings, Tensor
from naiad.errors import not_found, unavailable
from naiad.protocol.grpc.call import LongMessage, RpcStatus, in_one_piece
from naiad.protocol.grpc.infer import ModelInfer
from tests.server.protocol.grpc.bidi_stream import BidiStream, scripted
from tests.server.protocol.grpc.scripted_engine import (
    DECOUPLED,
    Answers,
    ScriptedEngine,
    SentMetadata,
    message,
)
from tests.support.codec import InlineCodec

COUNT = 100_000
NOT_FOUND, INVALID_ARGUMENT, INTERNAL, UNAVAILABLE, UNIMPLEMENTED = 5, 3, 13, 14, 12


@pytest.fixture
def codec() -> collections.abc.Iterator[InlineCodec]:
    made = InlineCodec()
    yield made
    made.gate.set()
    made.close()


def typed(model: str = "m", request_id: str = "7", count: int = COUNT) -> bytes:
    request = message(model=model, id=request_id)
    io = request.inputs.add(name="A", datatype="FP32", shape=[count])
    io.contents.fp32_contents.extend([1.5] * COUNT)
    return bytes(request.SerializeToString())


def strings(count: int = COUNT, *, shape: int = COUNT) -> bytes:
    request = message(id="7")
    request.inputs.add(name="A", datatype="BYTES", shape=[shape])
    request.raw_input_contents.append(b"\1\0\0\0x" * count)
    return bytes(request.SerializeToString())


def with_text(field: str) -> bytes:
    """A request with nine million characters in a field that is not a tensor."""
    text = "x" * 9_000_000
    request = message(id="7")
    match field:
        case "parameters":
            request.parameters["p"].string_param = text
        case "inputs":
            request.inputs.add(name=text, datatype="FP32", shape=[1])
            request.raw_input_contents.append(bytes(4))
        case _:
            setattr(request, field, text)
    return bytes(request.SerializeToString())


async def answered(
    codec: InlineCodec, body: bytes, engine: ScriptedEngine | None = None
) -> Answers:
    answers = Answers()
    ModelInfer(engine or ScriptedEngine(), None, codec)(body, SentMetadata(), answers)
    await codec.idle()
    return answers


async def test_typed_values_are_read_in_the_process(codec: InlineCodec) -> None:
    answers = await answered(codec, typed())
    found = service_pb2.ModelInferResponse.FromString(answers.message)
    assert codec.called == ["_decode"]
    assert found.id == "7"
    assert np.frombuffer(found.raw_output_contents[0], np.float32).tolist() == [1.5] * COUNT


async def test_raw_numbers_stay_on_the_loop(codec: InlineCodec) -> None:
    request = message()
    request.inputs.add(name="A", datatype="FP32", shape=[COUNT])
    request.raw_input_contents.append(bytes(4 * COUNT))
    answers = await answered(codec, request.SerializeToString())
    assert answers.message
    assert codec.called == []


async def test_many_strings_are_checked_there_and_stay_packed(codec: InlineCodec) -> None:
    engine = ScriptedEngine()
    answers = await answered(codec, strings(), engine)
    found = service_pb2.ModelInferResponse.FromString(answers.message)
    assert codec.called == ["fault_in"]
    assert type(engine.requests[0].inputs[0]) is PackedStrings
    assert found.raw_output_contents[0] == b"\1\0\0\0x" * COUNT


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (lambda: strings(shape=COUNT + 1), INVALID_ARGUMENT, "expected 100001 string elements"),
        (
            lambda: strings(shape=COUNT - 1),
            INVALID_ARGUMENT,
            "unexpected number of string elements",
        ),
        (lambda: strings()[:-1], INTERNAL, "not a ModelInferRequest"),
        (lambda: typed(count=COUNT + 1), INVALID_ARGUMENT, "input byte size mismatch"),
        (lambda: typed("nope"), NOT_FOUND, "nope"),
        (lambda: b"\x2a\0" * 300_000, INVALID_ARGUMENT, "at most 4096"),
    ],
)
async def test_what_is_wrong_is_refused_as_in_a_small_message(
    codec: InlineCodec, body: collections.abc.Callable[[], bytes], status: int, text: str
) -> None:
    refusal = (await answered(codec, body())).refusal
    assert refusal.status == status
    assert text in refusal.message


@pytest.mark.parametrize("field", ["id", "model_name", "parameters", "inputs"])
async def test_a_long_text_beside_the_tensors_is_refused(codec: InlineCodec, field: str) -> None:
    refusal = (await answered(codec, with_text(field))).refusal
    assert refusal.status == INVALID_ARGUMENT
    assert "send a long text as a BYTES tensor" in refusal.message


async def test_a_decoupled_model_is_refused_before_what_is_wrong_with_the_values(
    codec: InlineCodec,
) -> None:
    answers = await answered(codec, typed(count=1), ScriptedEngine(traits=DECOUPLED))
    assert answers.refusal.status == UNIMPLEMENTED


@pytest.mark.parametrize(
    ("error", "status"), [(unavailable("it ended"), UNAVAILABLE), (OSError("no memory"), INTERNAL)]
)
@pytest.mark.parametrize("body", [typed, strings])
async def test_a_codec_that_fails_fails_the_request(
    codec: InlineCodec, error: Exception, status: int, body: collections.abc.Callable[[], bytes]
) -> None:
    codec.error = error
    assert (await answered(codec, body())).refusal.status == status


async def test_a_client_that_leaves_while_its_request_is_decoded_costs_no_inference(
    codec: InlineCodec,
) -> None:
    codec.gate.clear()
    engine, answers = ScriptedEngine(), Answers()
    handle = ModelInfer(engine, None, codec)(typed(), SentMetadata(), answers)
    assert handle is not None
    handle.cancel()
    codec.gate.set()
    await codec.idle()
    assert not engine.requests
    assert not answers.all


async def test_a_client_that_leaves_afterwards_cancels_its_inference(codec: InlineCodec) -> None:
    engine = ScriptedEngine(answer=None)
    handle = ModelInfer(engine, None, codec)(typed(), SentMetadata(), Answers())
    await codec.idle()
    assert handle is not None
    handle.cancel()
    assert engine.inferences[0].cancelled


async def test_many_string_objects_become_bytes_on_a_thread(codec: InlineCodec) -> None:
    def answer(request: InferRequest) -> InferResponse:
        array = np.full(COUNT, b"ab", object)
        return InferResponse(
            "m", 1, request.id, [Tensor("OUT", BYTES, (COUNT,), array)], NO_PARAMETERS
        )

    answers = Answers()
    request = message(id="7").SerializeToString()
    ModelInfer(ScriptedEngine(answer), None, codec)(request, SentMetadata(), answers)
    assert not answers.all
    await codec.idle()
    found = service_pb2.ModelInferResponse.FromString(answers.message)
    assert found.raw_output_contents[0] == b"\2\0\0\0ab" * COUNT


@pytest.mark.parametrize(("count", "kind"), [(16_384, bytes), (16_385, LongMessage)])
async def test_long_numbers_of_a_response_are_sent_from_where_they_are(
    codec: InlineCodec, count: int, kind: type
) -> None:
    request = message()
    request.inputs.add(name="A", datatype="FP32", shape=[count])
    request.raw_input_contents.append(bytes(4 * count))
    (answer,) = (await answered(codec, request.SerializeToString())).all
    assert not isinstance(answer, RpcStatus)
    assert type(answer) is kind
    found = service_pb2.ModelInferResponse.FromString(in_one_piece(answer))
    assert found.raw_output_contents[0] == bytes(4 * count)
    assert len(answer) == found.ByteSize()


async def test_a_stream_reads_nothing_while_it_decodes_and_keeps_the_order(
    codec: InlineCodec,
) -> None:
    bidi_stream = BidiStream(codec=codec)
    for request_id, body in (("a", typed(request_id="a")), ("7", strings())):
        codec.gate.clear()
        bidi_stream.stream.take(body)
        assert not bidi_stream.stream.may_take()
        codec.gate.set()
        await codec.idle()
        assert bidi_stream.stream.may_take()
        assert bidi_stream.capacity_calls
        assert scripted(bidi_stream).requests[-1].id == request_id
    bidi_stream.ask("b")
    bidi_stream.stream.half_close()
    for number in (2, 1, 0):
        scripted(bidi_stream).respond(number)
    assert [each[0] for each in bidi_stream.got()] == ["a", "7", "b"]
    assert bidi_stream.end_of == [None]


@pytest.mark.parametrize(
    ("body", "request_id", "text"),
    [
        (lambda: typed("nope"), "7", "nope"),
        (lambda: typed() + b"\x3a\xff", "", "not a ModelInferRequest"),
        (lambda: b"\x1a\x017" + b"\x2a\0" * 300_000, "7", "at most 4096"),
    ],
)
async def test_a_stream_goes_on_after_a_large_request_that_is_refused(
    codec: InlineCodec, body: collections.abc.Callable[[], bytes], request_id: str, text: str
) -> None:
    bidi_stream = BidiStream(codec=codec)
    bidi_stream.stream.take(body())
    await codec.idle()
    ((found_id, error, _),) = bidi_stream.got()
    assert found_id == request_id
    assert text in error
    assert bidi_stream.stream.may_take()
    bidi_stream.ask("b")
    scripted(bidi_stream).respond(0)
    assert bidi_stream.got()[1][:2] == ("b", "")


async def test_a_stream_goes_on_after_its_codec_failed(codec: InlineCodec) -> None:
    bidi_stream = BidiStream(codec=codec)
    codec.error = unavailable("it ended")
    bidi_stream.stream.take(typed())
    await codec.idle()
    assert "it ended" in bidi_stream.got()[0][1]
    assert bidi_stream.stream.may_take()
    assert bidi_stream.capacity_calls


async def test_a_stream_that_ends_while_it_decodes_costs_no_inference(codec: InlineCodec) -> None:
    codec.gate.clear()
    bidi_stream = BidiStream(codec=codec)
    bidi_stream.stream.take(typed())
    bidi_stream.stream.cancel()
    codec.gate.set()
    await codec.idle()
    assert not scripted(bidi_stream).requests
    assert not bidi_stream.sent


async def test_an_engine_that_refuses_a_large_request_on_a_stream_is_not_the_model(
    codec: InlineCodec,
) -> None:
    class Refusing(ScriptedEngine):
        @override
        def infer(self, *arguments: typing.Any, **more: typing.Any) -> typing.Any:
            raise not_found("gone")

    bidi_stream = BidiStream(engine=Refusing(), codec=codec)
    bidi_stream.stream.take(typed())
    await codec.idle()
    assert bidi_stream.got() == [("7", "gone", None)]


async def test_a_stream_whose_codec_is_closed_refuses_the_request_and_reads_on(
    codec: InlineCodec,
) -> None:
    bidi_stream = BidiStream(codec=codec)
    codec.close()
    bidi_stream.stream.take(typed())
    assert bidi_stream.stream.may_take()
