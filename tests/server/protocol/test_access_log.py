"""The access log's lines and fields, over both protocols."""

import gc
import json
import logging

import pytest

from naiad.core.clock import ManualClock
from naiad.core.inference import ExecutionTimes, Inference, RequestContext, TraceParent
from naiad.core.request import LATEST, InferRequest
from naiad.logs import JsonFormatter, TextFormatter
from naiad.protocol.access_log import (
    AccessObserver,
    LoggedAccess,
    access_fields,
    access_line,
)
from naiad.protocol.grpc.access_log import logged, logged_stream, record_refused
from naiad.protocol.grpc.call import (
    ContextCall,
    OnRpcResponse,
    Response,
    RpcCall,
    RpcStatus,
    Sent,
    StreamWriter,
)
from naiad.protocol.observer import Ended, trace_parent

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACE = TraceParent(TRACE_ID, SPAN_ID, 1)
LOGGER = logging.getLogger("test.access")


def parts(trace: TraceParent | None) -> tuple[str, str, int] | None:
    return None if trace is None else (trace.trace_id, trace.span_id, trace.flags)


def inference(*, computed: bool = True) -> Inference:
    """Queued at 1 ms, computed from 3 ms to 10 ms."""
    request = InferRequest("add", LATEST, "a1", [], [], {})
    made = Inference(request, lambda _: None, batch_size=1, received_ns=0, queued_ns=1_000_000)
    if computed:
        made.execution = ExecutionTimes(3, 3_000_000, 4_000_000, 9_500_000, 10_000_000)
    return made


def entry(
    target: str = "/v2",
    request_id: str = "",
    *,
    trace: TraceParent | None = None,
    seconds: float = 0.00125,
    of: Inference | None = None,
) -> Ended:
    context = RequestContext(
        1_000,
        request_bytes=7,
        request_id=request_id,
        trace=trace,
        inference=of,
        sent_ns=1_000 + round(seconds * 1e9),
        response_bytes=12,
    )
    return Ended("http", "10.0.0.9:1", "GET", target, 200, context)


def line(made: Ended) -> str:
    return "".join(access_line(access_fields(made)))


def test_a_line_says_who_what_and_how_long() -> None:
    assert line(entry()) == "10.0.0.9:1 GET /v2 200 in=7 out=12 total=1.25ms"
    assert line(entry(of=inference())) == (
        "10.0.0.9:1 GET /v2 200 in=7 out=12 total=1.25ms queue=2.0ms compute=7.0ms model=add version=3"
    )
    assert line(entry(of=inference(computed=False))).endswith("total=1.25ms model=add")


def written(
    made: Ended, caplog: pytest.LogCaptureFixture, **options: float
) -> list[logging.LogRecord]:
    with caplog.at_level(logging.INFO, logger=LOGGER.name):
        LoggedAccess(
            LOGGER, every=bool(options.get("every", True)), slow_ms=options.get("slow_ms", 0)
        )(made)
    return caplog.records


def test_a_json_line_has_a_field_for_each_fact(caplog: pytest.LogCaptureFixture) -> None:
    (record,) = written(entry(of=inference(), trace=TRACE), caplog)
    fields = json.loads(JsonFormatter().format(record))
    for own in ("time", "level", "logger"):
        del fields[own]
    assert fields == {
        "message": "10.0.0.9:1 GET /v2 200", "protocol": "http", "peer": "10.0.0.9:1", "method": "GET", "path": "/v2", "status": 200,
        "bytes_in": 7, "bytes_out": 12, "total_ms": 1.25, "model": "add", "version": 3, "queue_ms": 2.0, "compute_ms": 7.0,
        "compute_input_ms": 1.0, "compute_infer_ms": 5.5, "compute_output_ms": 0.5, "trace_id": TRACE_ID, "request_id": "a1",
    }  # fmt: skip


def test_a_text_line_begins_with_the_request_s_id_and_has_the_facts_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (record,) = written(entry(request_id="b2", of=inference()), caplog)
    text = TextFormatter(iso=False).format(record)
    assert "[request id: b2] 10.0.0.9:1 GET /v2 200 in=7 out=12 total=1.25ms queue=2.0ms" in text


def test_slow_requests_are_warnings_and_others_need_the_access_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow, quick = entry(seconds=0.1), entry(seconds=0.0999)
    assert written(quick, caplog, every=False, slow_ms=100) == []
    (record,) = written(slow, caplog, every=False, slow_ms=100)
    assert (record.levelno, record.getMessage()) == (
        logging.WARNING,
        "slow: 10.0.0.9:1 GET /v2 200",
    )
    caplog.clear()
    (record,) = written(quick, caplog, every=True, slow_ms=100)
    assert record.levelno == logging.INFO


def test_a_logger_that_is_off_costs_no_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger=LOGGER.name):
        LoggedAccess(LOGGER)(entry())
    assert caplog.records == []


class GrpcCall:
    """A call of a client."""

    def invocation_metadata(self) -> list[tuple[str, str | bytes]]:
        return [("user-agent", "x"), ("traceparent", f"00-{TRACE_ID}-b7ad6b7169203331-01")]

    def peer(self) -> str:
        return "ipv4:10.0.0.9:1"


class Calls:
    """Calls of one method whose answers the test gives."""

    def __init__(self) -> None:
        self.entries: list[Ended] = []
        self.clock = ManualClock()
        self.observer = AccessObserver(self.entries.append, clock=self.clock)
        self.answers: list[Response] = []
        self.on_response: OnRpcResponse | None = None
        self.work: Inference | None = inference()

    def method(self, body: bytes, call: RpcCall, on_response: OnRpcResponse) -> Inference | None:
        self.on_response = on_response
        assert isinstance(call, ContextCall)
        call.context.inference = self.work
        return self.work

    def seen(self) -> tuple[object, ...]:
        (made,) = self.entries
        return (
            made.protocol,
            made.peer,
            made.method,
            made.target,
            made.status,
            made.context.request_bytes,
            made.context.response_bytes,
            made.seconds,
        )


def test_a_call_is_recorded_when_it_is_answered() -> None:
    calls = Calls()
    logged("/s/Infer", calls.method, calls.observer)(b"four", GrpcCall(), calls.answers.append)
    assert calls.entries == []
    calls.clock.advance(ns=5_000_000)
    assert calls.on_response is not None
    calls.on_response(b"answer")
    assert calls.answers == [b"answer"]
    assert calls.seen() == ("grpc", "10.0.0.9:1", "Infer", "/s/Infer", "OK", 4, 6, 0.005)
    assert calls.entries[0].context.inference is calls.work
    assert parts(calls.entries[0].context.trace) == parts(TRACE)


def test_a_call_that_ends_leaves_no_garbage() -> None:
    observer = AccessObserver(lambda _: None, clock=ManualClock())

    def method(body: bytes, call: RpcCall, on_response: OnRpcResponse) -> Inference:
        assert isinstance(call, ContextCall)
        request = InferRequest("add", LATEST, "a1", [], [], {})
        made = Inference(request, lambda _: on_response(b"y"), batch_size=1, received_ns=0)
        call.context.inference = made
        return made

    gc.collect()
    gc.disable()
    try:
        handle = logged("/s/Infer", method, observer)(b"x", GrpcCall(), lambda _: None)
        assert handle is not None
        handle.cancel()
        del handle
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_call_that_fails_and_one_that_is_cancelled_are_recorded_once() -> None:
    calls = Calls()
    logged("/s/Infer", calls.method, calls.observer)(b"", GrpcCall(), calls.answers.append)
    assert calls.on_response is not None
    calls.on_response(RpcStatus(5, "unknown"))
    assert calls.seen()[4] == "NOT_FOUND"
    calls = Calls()
    handle = logged("/s/Infer", calls.method, calls.observer)(b"", GrpcCall(), calls.answers.append)
    assert handle is not None
    handle.cancel()
    assert calls.work is not None
    assert calls.work.cancelled
    assert calls.on_response is not None
    calls.on_response(b"late")
    assert calls.seen()[4] == "CANCELLED"


def test_a_call_that_is_answered_at_once_and_one_refused_before_it_began_are_recorded() -> None:
    calls = Calls()

    def at_once(body: bytes, call: RpcCall, on_response: OnRpcResponse) -> None:
        on_response(b"x")

    logged("/s/Live", at_once, calls.observer)(b"", GrpcCall(), calls.answers.append)
    record_refused("/s/Load", RpcStatus(16, "no token"), calls.observer)
    assert [(each.method, each.status) for each in calls.entries] == [
        ("Live", "OK"),
        ("Load", "UNAUTHENTICATED"),
    ]


class StreamHandler:
    """Answers each message with itself twice."""

    def __init__(self, replies: StreamWriter) -> None:
        self.replies = replies

    def take(self, body: bytes) -> None:
        self.replies.send(body + body)

    def half_close(self) -> None:
        self.replies.end(None)

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def cancel(self) -> None:
        pass

    def may_take(self) -> bool:
        return True

    def has_sequences(self) -> bool:
        return False


class NoReplies:
    def send(self, message: Sent) -> None:
        pass

    def capacity(self) -> None:
        pass

    def end(self, refused: RpcStatus | None) -> None:
        pass


@pytest.mark.parametrize(("ends", "status"), [(True, "OK"), (False, "CANCELLED")])
def test_a_stream_is_recorded_when_it_ends(*, ends: bool, status: str) -> None:
    calls = Calls()
    begin = logged_stream("/s/Stream", lambda call, replies: StreamHandler(replies), calls.observer)
    bidi_stream = begin(GrpcCall(), NoReplies())
    bidi_stream.take(b"ab")
    bidi_stream.take(b"c")
    assert bidi_stream.may_take()
    if ends:
        bidi_stream.half_close()
    bidi_stream.cancel()
    assert calls.seen() == ("grpc", "10.0.0.9:1", "Stream", "/s/Stream", status, 3, 6, 0.0)


@pytest.mark.parametrize("version", ["00", "01", "cc"])
def test_the_parts_of_a_traceparent_are_kept(version: str) -> None:
    for flags in (0, 1, 255):
        text = f"{version}-{TRACE_ID}-{SPAN_ID}-{flags:02x}"
        for written_as in (text, text.encode()):
            assert parts(trace_parent(written_as)) == (TRACE_ID, SPAN_ID, flags)


@pytest.mark.parametrize("more", ["-", "-what-the-future-brings"])
def test_further_fields_of_a_later_version_are_passed_over(more: str) -> None:
    text = f"{TRACE_ID}-{SPAN_ID}-01{more}"
    assert parts(trace_parent(f"01-{text}")) == (TRACE_ID, SPAN_ID, 1)
    assert trace_parent(f"00-{text}") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"01-{TRACE_ID}-{SPAN_ID}-01more",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        f"00-{TRACE_ID.upper()}-{SPAN_ID}-01",
        f"00-{TRACE_ID[:-1]}-{SPAN_ID}-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"00-{TRACE_ID}-{SPAN_ID}-01\n",
        f"00-{TRACE_ID}-{SPAN_ID}",
        f"00-{TRACE_ID[:-1]}\u0663-{SPAN_ID}-01",
    ],
)
def test_an_invalid_traceparent_is_ignored(text: str) -> None:
    assert trace_parent(text) is None
    assert trace_parent(text.encode()) is None
