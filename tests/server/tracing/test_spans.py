"""A trace as spans: names, parents, times, and the client's trace."""

import collections.abc
import json
import typing

from naiad.core.clock import ManualClock
from naiad.core.inference import ExecutionTimes, TraceParent
from naiad.core.response import InferResponse
from naiad.tracing.settings import OPENTELEMETRY, TENSORS, TIMESTAMPS, TraceOptions, TraceSetting
from naiad.tracing.spans import SpanData, spans
from naiad.tracing.trace import RequestTrace
from naiad.tracing.tracer import Tracer
from naiad.tracing.usual import SentTrace, complete_all
from tests.server.tracing.traces import Requests, model, tensor

CLIENT = TraceParent("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1)
MS = 1_000_000


class Collected:
    """A sink that keeps traces."""

    lost = 0

    def __init__(self) -> None:
        self.traces: list[RequestTrace] = []

    def sent(self, traces: collections.abc.Sequence[SentTrace]) -> None:
        complete_all(traces)

    def collected(self, trace: RequestTrace) -> None:
        self.traces.append(trace)

    def replaced(self, setting: TraceSetting) -> None:
        pass

    def stop(self) -> None:
        pass

    def close(self, seconds: float) -> None:
        pass


def opened(**options: typing.Any) -> tuple[Requests, Collected]:
    sink, clock = Collected(), ManualClock()
    given = {"level": TIMESTAMPS, "rate": 1, "mode": OPENTELEMETRY, **options}
    tracer = Tracer(TraceOptions(**given), clock=clock, sink=lambda: sink)
    tracer.open()
    return Requests(tracer, clock), sink


def by_name(found: list[SpanData]) -> dict[str, SpanData]:
    return {span.name: span for span in found}


def test_the_spans_of_a_request() -> None:
    requests, sink = opened()
    requests.whole("add")
    found = spans(sink.traces[0])
    assert [span.name for span in found] == ["InferRequest", "add", "queue", "compute", "batch"]
    named = by_name(found)
    root, of_model = named["InferRequest"], named["add"]
    assert root.parent_id == 0
    assert of_model.parent_id == root.span_id
    assert named["queue"].parent_id == named["compute"].parent_id == of_model.span_id
    assert {span.trace_id for span in found} == {root.trace_id}
    assert len({span.span_id for span in found}) == 5
    assert {span.name: (span.start_ns // MS, span.end_ns // MS) for span in found} == {
        "InferRequest": (1, 11), "add": (3, 9), "queue": (4, 5), "compute": (5, 8), "batch": (5, 8),
    }  # fmt: skip
    assert of_model.attributes == {
        "triton.model_name": "add", "triton.model_version": 3, "triton.trace_id": 1, "triton.trace_parent_id": 0,
    }  # fmt: skip
    assert [name for name, _ in named["compute"].events] == [
        "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
    ]  # fmt: skip


def test_a_batch_has_one_span_that_is_linked_with_those_of_its_requests() -> None:
    requests, sink = opened()
    contexts = [requests.begin() for _ in range(3)]
    first, second, alone = [requests.run(context) for context in contexts]
    tick = requests.tick
    together = ExecutionTimes(3, tick(), tick(), tick(), tick(), 7)
    for inference in (first, second):
        inference.execution = together
        inference.on_response(_final())
    requests.respond(alone)
    for context in contexts:
        requests.finish(context)
    made = [spans(trace) for trace in sink.traces]
    assert [[span.name for span in each].count("batch") for each in made] == [1, 0, 1]
    batch = by_name(made[0])["batch"]
    of_model = [by_name(each)["m"] for each in made]
    assert batch.attributes == {"naiad.batch_requests": 7}
    assert batch.parent_id == of_model[0].span_id
    assert batch.links == [(span.trace_id, span.span_id) for span in of_model[:2]]
    for each in made[:2]:
        assert by_name(each)["compute"].links == [(batch.trace_id, batch.span_id)]
    assert by_name(made[2])["batch"].attributes == {"naiad.batch_requests": 1}


def test_the_times_of_a_batch_that_is_gone_are_not_taken_for_those_of_another() -> None:
    requests, sink = opened()
    for _ in range(50):  # an object that is freed leaves its place to the next one
        requests.whole()
        (trace,) = sink.traces
        assert len(by_name(spans(trace))["batch"].links) == 1
        trace.parts.clear()
        sink.traces.clear()


def test_the_context_of_a_model_names_its_span() -> None:
    requests, sink = opened()
    context = requests.begin(trace=TraceParent(CLIENT.trace_id, CLIENT.span_id, 1, 'a="1",b=2'))
    inference = requests.run(context)
    found = json.loads(inference.trace_context)
    requests.respond(inference)
    requests.finish(context)
    of_model = by_name(spans(sink.traces[0]))["m"]
    assert found == {
        "traceparent": f"00-{CLIENT.trace_id}-{of_model.span_id:016x}-01",
        "tracestate": 'a="1",b=2',
    }


def test_without_a_state_of_the_client_the_context_has_none() -> None:
    requests, _ = opened()
    assert list(json.loads(requests.run(requests.begin()).trace_context)) == ["traceparent"]


def test_the_clients_trace_goes_on_with_its_flags() -> None:
    requests, sink = opened(rate=0)
    requests.whole()
    assert sink.traces == []
    for flags in (1, 0):
        context = requests.begin(trace=TraceParent(CLIENT.trace_id, CLIENT.span_id, flags))
        requests.respond(requests.run(context))
        requests.finish(context)
        root, *others = spans(sink.traces[-1])
        assert (root.trace_id, root.parent_id) == (
            int(CLIENT.trace_id, 16),
            int(CLIENT.span_id, 16),
        )
        assert root.is_remote
        assert {span.flags for span in (root, *others)} == {flags}
        assert not any(span.is_remote for span in others)


def test_off_is_off_for_clients_traces_too() -> None:
    requests, sink = opened(level=0)
    context = requests.begin(trace=CLIENT)
    requests.respond(requests.run(context))
    requests.finish(context)
    assert sink.traces == []


def test_inferences_are_below_the_one_that_caused_them() -> None:
    requests, sink = opened()
    context = requests.begin("outer")
    outer = requests.run(context, name="outer", request_id="r1")
    assert outer.traced is not None
    inner = outer.traced.child()
    inner.begins(model(), outer)
    requests.respond(outer)
    outer.traced, part = inner, outer.traced
    inner.responds(outer, _final())
    requests.finish(context)
    first, second = (part for part in sink.traces[0].parts)
    named = {span.span_id: span for span in spans(sink.traces[0])}
    assert named[second.span_id].parent_id == first.span_id
    assert named[second.span_id].attributes["triton.trace_parent_id"] == 1
    assert named[second.span_id].attributes["triton.request_id"] == "r1"
    assert part is first


def test_tensors_are_not_kept_for_spans() -> None:
    requests, sink = opened(level=TENSORS | TIMESTAMPS)
    context = requests.begin()
    inference = requests.run(context, inputs=(tensor("A", "FP32", (1,), [1]),))
    requests.respond(inference, tensor("B", "FP32", (1,), [1]))
    requests.finish(context)
    (part,) = sink.traces[0].parts
    assert not part.inputs
    assert not part.outputs


def _final() -> InferResponse:
    return InferResponse("m", 3, "", [], {})
