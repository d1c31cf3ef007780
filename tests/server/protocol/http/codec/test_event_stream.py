import gc
import typing
import weakref

import pytest

from naiad.core.datatypes import FP32
from naiad.core.flow import OVERRUN_BYTES, Flow
from naiad.core.inference import Inference, OnResponse
from naiad.core.response import NO_OUTPUTS, NO_PARAMETERS, InferResponse
from naiad.errors import InferenceError, invalid, not_found
from naiad.protocol.http.codec.event_stream import EventStream, takes_events
from naiad.protocol.http.message import HttpReply
from tests.server.protocol.http.scripted import Handle
from tests.server.protocol.http.scripted_engine import error_of, tensor


class Exchange:
    """Takes a reply, and its body when the test says that it is its turn."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.replies: list[HttpReply] = []
        self.body = b""
        self.ended = self.cuts = 0
        self._at_once = at_once

    def __call__(self, reply: HttpReply) -> None:
        self.replies.append(reply)
        if self._at_once:
            self.begin()

    def begin(self) -> None:
        (reply,) = self.replies
        if reply.stream is not None:
            reply.stream.begin(self)

    def write(self, data: bytes | memoryview) -> None:
        assert not self.ended
        self.body += data

    def end(self) -> None:
        self.ended += 1

    def cut(self) -> None:
        self.cuts += 1

    @property
    def status(self) -> int:
        (reply,) = self.replies
        return reply.status


def answer(
    number: int = 1,
    *,
    final: bool = False,
    empty: bool = False,
    error: InferenceError | None = None,
    request_id: str = "r",
) -> InferResponse:
    outputs = NO_OUTPUTS if empty or error else [tensor("OUT", FP32, [number])]
    return InferResponse("m", 1, request_id, outputs, NO_PARAMETERS, error, final, empty)


def encode(response: InferResponse) -> bytes:
    value = response.outputs[0].array.tolist()[0]
    if value == 666:
        raise invalid("cannot be written")
    if value == 667:
        raise KeyError("a bug")
    return b"<%d>" % int(value)


class Asked:
    """A stream that has asked, and the engine's side of it."""

    def __init__(self, exchange: Exchange) -> None:
        self.stream = EventStream(encode, exchange)
        self.cancelled = Handle()
        self.flow = Flow()
        self.on_response: OnResponse = lambda _: None
        self.stream.run(self._ask)

    def _ask(self, on_response: OnResponse, flow: Flow) -> Inference:
        self.on_response, self.flow = on_response, flow
        return typing.cast("Inference", self.cancelled)


def test_each_answer_is_an_event_and_the_end_is_the_end() -> None:
    exchange = Exchange()
    asked = Asked(exchange)
    assert exchange.replies == []
    asked.on_response(answer(1))
    (reply,) = exchange.replies
    assert reply.status == 200
    assert reply.headers == ((b"Content-Type", b"text/event-stream; charset=utf-8"),)
    assert reply.request_id == "r"
    assert exchange.body == b"data: <1>\n\n"
    asked.on_response(answer(2))
    assert exchange.ended == 0
    asked.on_response(answer(empty=True, final=True))
    assert exchange.body == b"data: <1>\n\ndata: <2>\n\n"
    assert exchange.ended == 1


def test_the_last_answer_may_be_the_final_one() -> None:
    exchange = Exchange()
    Asked(exchange).on_response(answer(1, final=True))
    assert (exchange.status, exchange.body, exchange.ended) == (200, b"data: <1>\n\n", 1)


def test_no_answer_at_all_is_an_empty_200() -> None:
    exchange = Exchange()
    Asked(exchange).on_response(answer(empty=True, final=True))
    assert (exchange.status, exchange.body, exchange.ended) == (200, b"", 1)


def test_the_status_is_that_of_the_first_answer_and_later_errors_are_events() -> None:
    exchange = Exchange()
    asked = Asked(exchange)
    asked.on_response(answer(error=not_found("gone")))
    asked.on_response(answer(1))
    assert exchange.status == 404
    assert exchange.body == b'data: {"error":"gone"}\n\ndata: <1>\n\n'
    other = Exchange()
    asked = Asked(other)
    asked.on_response(answer(1))
    asked.on_response(answer(error=not_found("gone"), final=True))
    assert (other.status, other.ended) == (200, 1)
    assert other.body == b'data: <1>\n\ndata: {"error":"gone"}\n\n'


def test_an_answer_that_cannot_be_written_is_an_error_and_the_next_ones_are_not() -> None:
    exchange = Exchange()
    asked = Asked(exchange)
    for value in (666, 667, 1):
        asked.on_response(answer(value))
    first, second, third, _ = exchange.body.split(b"\n\n")
    assert first == b'data: {"error":"cannot be written"}'
    assert b"the server failed to handle this request" in second
    assert third == b"data: <1>"
    assert exchange.status == 400


def test_a_request_refused_on_the_spot_gets_an_ordinary_error_reply() -> None:
    exchange = Exchange()

    def refuse(on_response: OnResponse, flow: Flow) -> None:
        on_response(answer(error=invalid("no such input"), final=True))

    assert EventStream(encode, exchange).run(refuse) is None
    (reply,) = exchange.replies
    assert (reply.status, reply.stream, reply.request_id) == (400, None, "r")
    assert error_of(reply) == "no such input"


class Held:
    """What a request holds."""


def refuse_what_holds(held: Held) -> None:
    """Refuse a request as the engine does: in a frame which has it, and which the error remembers."""

    def refuse(on_response: OnResponse, flow: Flow) -> None:
        of_the_request = held
        try:
            raise invalid("not now")
        except InferenceError as error:
            on_response(answer(error=error, final=True))
        assert of_the_request is not None

    EventStream(encode, Exchange()).run(refuse)


def test_nothing_is_left_of_a_request_refused_on_the_spot() -> None:
    held = Held()
    left = weakref.ref(held)
    refuse_what_holds(held)
    del held
    gc.collect()
    assert left() is None


def test_a_client_that_leaves_cancels_its_request_and_frees_the_model() -> None:
    exchange = Exchange()
    asked = Asked(exchange)
    asked.on_response(answer(1))
    asked.stream.pause()
    assert asked.flow.is_full()
    asked.stream.cancel()
    asked.stream.cancel()
    assert asked.cancelled.cancelled == 1
    assert not asked.flow.is_full()
    asked.on_response(answer(2))
    asked.on_response(answer(3, final=True))
    assert (exchange.body, exchange.ended) == (b"data: <1>\n\n", 0)


def test_a_probe_is_a_comment_and_before_the_reply_began_nothing() -> None:
    exchange = Exchange()
    asked = Asked(exchange)
    asked.stream.probe()
    asked.on_response(answer(1))
    asked.stream.probe()
    asked.on_response(answer(2, final=True))
    asked.stream.probe()
    assert exchange.body == b"data: <1>\n\n:\n\ndata: <2>\n\n"


def test_a_client_that_leaves_before_the_first_answer_gets_no_reply() -> None:
    exchange = Exchange()
    asked = Asked(exchange)
    asked.stream.cancel()
    asked.on_response(answer(1, final=True))
    assert exchange.replies == []
    assert asked.cancelled.cancelled == 1


def test_a_slow_client_holds_the_model_until_it_reads_again() -> None:
    asked = Asked(Exchange())
    asked.on_response(answer(1))
    assert not asked.flow.is_full()
    asked.stream.pause()
    assert asked.flow.is_full()
    asked.stream.resume()
    assert not asked.flow.is_full()


def test_a_client_that_reads_nothing_of_a_model_that_does_not_wait_is_cut_off() -> None:
    exchange = Exchange()
    asked = Asked(exchange)
    asked.on_response(answer(1))
    asked.stream.pause()
    asked.flow.coming(OVERRUN_BYTES)
    asked.flow.coming(OVERRUN_BYTES)
    asked.on_response(answer(2))
    assert exchange.cuts == 0
    asked.flow.coming(1)
    asked.on_response(answer(3))
    assert (exchange.cuts, exchange.ended) == (1, 0)


def test_answers_before_the_reply_began_are_kept_for_it() -> None:
    exchange = Exchange(at_once=False)
    asked = Asked(exchange)
    asked.on_response(answer(1))
    asked.on_response(answer(2))
    assert exchange.body == b""
    exchange.begin()
    assert exchange.body == b"data: <1>\n\ndata: <2>\n\n"
    asked.on_response(answer(3, final=True))
    assert (exchange.body[-11:], exchange.ended) == (b"data: <3>\n\n", 1)


def test_a_reply_that_was_over_before_its_turn_ends_when_it_comes() -> None:
    exchange = Exchange(at_once=False)
    asked = Asked(exchange)
    asked.on_response(answer(1))
    asked.on_response(answer(2, final=True))
    exchange.begin()
    assert (exchange.body, exchange.ended) == (b"data: <1>\n\ndata: <2>\n\n", 1)


@pytest.mark.parametrize(
    ("accept", "takes"),
    [
        ("text/event-stream", True),
        ("application/json, Text/Event-Stream;q=0.5", True),
        ("text/event-stream; q=0.01", True),
        ("text/event-stream;q=0", False),
        ("text/event-stream; q=0.000", False),
        ("*/*", False),
        ("text/*", False),
        ("", False),
        ("text/event-stream-not", False),
        ("text/event-stream;q=much", False),
        ("*/*;q=0, text/event-stream", True),
        (", ;;, text/event-stream ; charset=utf-8", True),
        ("x" * 10_000 + ",text/event-stream", False),
    ],
)
def test_a_client_takes_events_when_it_names_them(accept: str, *, takes: bool) -> None:
    assert takes_events({b"accept": accept.encode()}) is takes
    assert not takes_events({})
