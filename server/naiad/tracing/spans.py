"""A trace as spans, named as the reference names them, with the client's trace as their parent (row 9.18). Pure.

`InferRequest` is the request; below it is a span per inference, named after its model, with `queue` (ours) and `compute` below that. Steps of
ensembles are below the ensemble's span, calls of a model (BLS) below that of the model. `batch` (ours) is in the trace of the first traced request of
an executed batch, and linked with the spans of all of them.
"""

import msgspec

from naiad.tracing.trace import InferenceTrace, RequestTrace, SpanIds, random_id, span_ids
from naiad.tracing.usual import FRONT_END

Attribute = str | int


class SpanData(msgspec.Struct, frozen=True):
    """One span. Times are monotonic nanoseconds.

    Attributes:
        trace_id, span_id: numbers of 128 and 64 bits.
        parent_id: of the span above; 0 for none.
        is_remote: whether the span above is the client's.
        flags: of the trace.
        events: name and time of each.
        links: trace and span of those that it belongs together with.
        state: the client's `tracestate`.
    """

    name: str
    trace_id: int
    span_id: int
    parent_id: int
    is_remote: bool
    flags: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Attribute]
    events: list[tuple[str, int]]
    links: list[tuple[int, int]] = []
    state: str = ""


def spans(trace: RequestTrace) -> list[SpanData]:
    """All spans of a complete trace."""
    parent = trace.parent
    context = trace.spans or span_ids(parent)
    receive, read, send, sent = FRONT_END[trace.protocol]
    own = trace.parts[0] if trace.parts else None
    events = [(receive, trace.received_ns), (read, trace.read_ns)]
    if own is not None:
        events += [("INFER_RESPONSE_COMPLETE", ns) for ns in own.responded_ns or ()]
        if trace.sent_ns:
            events += [(send, trace.send_ns), (sent, trace.sent_ns)]
    end_ns = max(ns for _, ns in events)
    root_id = random_id(64)
    found = [
        SpanData(
            "InferRequest",
            context.trace_id,
            root_id,
            0 if parent is None else int(parent.span_id, 16),
            parent is not None,
            context.flags,
            trace.received_ns,
            end_ns,
            {},
            events,
            state=context.state,
        )
    ]
    above = {0: root_id, **{part.id: part.span_id for part in trace.parts}}
    for part in trace.parts:
        found += _of_inference(context, part, above.get(part.parent_id, root_id))
    return found


def _of_inference(context: SpanIds, part: InferenceTrace, above: int) -> list[SpanData]:
    attributes: dict[str, Attribute] = {
        "triton.model_name": part.model_name,
        "triton.model_version": part.model_version,
        "triton.trace_id": part.id,
        "triton.trace_parent_id": part.parent_id,
    }
    if part.request_id:
        attributes["triton.request_id"] = part.request_id
    events = [("REQUEST_START", part.started_ns)]
    if part.queued_ns:
        events.append(("QUEUE_START", part.queued_ns))
    events.append(("REQUEST_END", part.ended_ns))

    def span(
        name: str,
        span_id: int,
        above: int,
        times: list[tuple[str, int]],
        attributes: dict[str, Attribute],
        *,
        links: list[tuple[int, int]] | None = None,
    ) -> SpanData:
        return SpanData(
            name,
            context.trace_id,
            span_id,
            above,
            is_remote=False,
            flags=context.flags,
            start_ns=times[0][1],
            end_ns=times[-1][1],
            attributes=attributes,
            events=times,
            links=links or [],
            state=context.state,
        )

    found = [span(part.model_name, part.span_id, above, events, attributes)]
    times = part.execution
    if times is not None:
        waited = [("QUEUE_START", part.queued_ns), ("COMPUTE_START", times.start_ns)]
        found.append(span("queue", random_id(64), part.span_id, waited, {}))
        computed = [
            ("COMPUTE_START", times.start_ns),
            ("COMPUTE_INPUT_END", times.input_end_ns),
            ("COMPUTE_OUTPUT_START", times.output_start_ns),
            ("COMPUTE_END", times.end_ns),
        ]
        batch = part.batch
        if batch is None:
            found.append(span("compute", random_id(64), part.span_id, computed, {}))
            return found
        link = [(batch.trace_id, batch.span_id)]
        found.append(span("compute", random_id(64), part.span_id, computed, {}, links=link))
        if batch.parent_id == part.span_id:
            size: dict[str, Attribute] = {"naiad.batch_requests": times.requests}
            ends = [computed[0], computed[-1]]
            found.append(
                span("batch", batch.span_id, part.span_id, ends, size, links=list(batch.members))
            )
    return found
