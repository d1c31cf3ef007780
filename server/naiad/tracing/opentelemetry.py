"""Sends traces to a collector, as spans by OTLP over HTTP. The only module that knows OpenTelemetry's packages; importing it imports them.

A thread of its own makes and sends the spans. A collector that is slow, hangs or is not there costs traces, which are counted, and no request anything.
"""

import collections.abc
import logging
import time
import typing

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, TraceState

from naiad.tracing.background import Background
from naiad.tracing.settings import CollectorOptions, TraceSetting
from naiad.tracing.spans import SpanData, spans
from naiad.tracing.trace import RequestTrace
from naiad.tracing.usual import SentTrace, complete_all

_log = logging.getLogger("naiad.trace")

_SCOPE = InstrumentationScope("triton-server")
_MS_PER_SECOND = 1000


class SpanSender:
    """A `TraceSink`.

    Args:
        exporter: sends spans, on a thread of its own; None: by OTLP over HTTP to the collector.
    """

    def __init__(self, options: CollectorOptions, exporter: SpanExporter | None = None) -> None:
        # What it logs of each attempt would fill the log while a collector is away; the first loss is a line below.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._redirected = ""
        if exporter is None:
            session = requests.Session()
            session.hooks["response"].append(self._without_redirects)
            exporter = OTLPSpanExporter(endpoint=options.url, session=session)
        self._exporter = exporter
        self._url = options.url
        self._batch = options.max_export_batch_size
        self._resource = Resource.create(dict(options.resource))
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._is_lossy = False
        self._refused = 0
        self.background = Background[RequestTrace](
            self._send,
            name="trace-spans",
            most=options.max_queue_size,
            gather_seconds=options.schedule_delay_ms / _MS_PER_SECOND,
            enough=options.max_export_batch_size,
        )

    @property
    def lost(self) -> int:
        """See `TraceSink`: spans that did not fit, or that the collector did not take."""
        return self._refused + self.background.dropped

    def sent(self, traces: collections.abc.Sequence[SentTrace]) -> None:
        """See `TraceSink`: none is usual with spans."""
        complete_all(traces)

    def collected(self, trace: RequestTrace) -> None:
        """See `TraceSink`."""
        size = 1 + sum(1 if part.execution is None else 4 for part in trace.parts)
        if not self.background.put(trace, size) and not self._is_lossy:
            self._report(f"more than {self.background.most} spans wait for {self._url}")

    def replaced(self, setting: TraceSetting) -> None:
        """See `TraceSink`."""

    def stop(self) -> None:
        """See `TraceSink`."""

    def close(self, seconds: float) -> None:
        """See `TraceSink`."""
        if not self.background.close(seconds):
            self._exporter.shutdown()  # no further attempt
        if self.lost:
            _log.warning("%d spans were not sent to %s", self.lost, self._url)

    def _send(self, traces: list[RequestTrace]) -> None:
        """On the thread."""
        made = [self._span(data) for trace in traces for data in spans(trace)]
        for trace in traces:
            trace.free()
        for first in range(0, len(made), self._batch):
            batch = made[first : first + self._batch]
            if self._exporter.export(batch) is SpanExportResult.SUCCESS:
                self._is_lossy = False
                continue
            self._refused += len(batch)
            if not self._is_lossy:
                why = (
                    f"redirects to {self._redirected}" if self._redirected else "does not take them"
                )
                self._report(f"{self._url} {why}")

    def _without_redirects(self, response: typing.Any, **_: object) -> None:
        """Makes a redirect a failure: the exporter does not follow one, and takes it for a success."""
        self._redirected = ""
        if response.is_redirect:
            self._redirected = response.headers["Location"]
            response.status_code = requests.codes.bad_request

    def _report(self, why: str) -> None:
        self._is_lossy = True
        _log.warning(
            "traces are lost: %s; requests go on. Check that a collector listens there, or give another --trace-config=opentelemetry,url=…",
            why,
        )

    def _span(self, data: SpanData) -> ReadableSpan:
        offset = self._offset_ns

        state = TraceState.from_header([data.state]) if data.state else None

        def context(
            span_id: int, *, trace_id: int = data.trace_id, is_remote: bool = False
        ) -> SpanContext:
            return SpanContext(trace_id, span_id, is_remote, TraceFlags(data.flags), state)

        return ReadableSpan(
            data.name,
            context(data.span_id),
            context(data.parent_id, is_remote=data.is_remote) if data.parent_id else None,
            self._resource,
            data.attributes,
            [Event(name, timestamp=ns + offset) for name, ns in data.events],
            [Link(context(span_id, trace_id=trace_id)) for trace_id, span_id in data.links],
            kind=SpanKind.SERVER,
            start_time=data.start_ns + offset,
            end_time=data.end_ns + offset,
            instrumentation_scope=_SCOPE,
        )
