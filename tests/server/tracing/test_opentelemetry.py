"""Spans on their way to a collector over HTTP: what it gets, and what one that hangs or is not there costs."""

import collections.abc
import logging
import socket
import typing

import pytest

pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra tracing")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra tracing")

from opentelemetry.sdk.trace.export import SpanExportResult

from naiad.core.clock import SystemClock
from naiad.core.inference import TraceParent
from naiad.tracing.opentelemetry import SpanSender
from naiad.tracing.settings import OPENTELEMETRY, TIMESTAMPS, CollectorOptions, TraceOptions
from naiad.tracing.tracer import Tracer
from tests.server.tracing.traces import Requests
from tests.support.collector import Collector
from tests.support.waiting import wait_until


@pytest.fixture
def collector() -> collections.abc.Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


def opened(url: str, **options: int) -> tuple[Requests, SpanSender]:
    collector = CollectorOptions(url=url, resource=(("service.name", "shop"),), **options)
    sender = SpanSender(collector)
    clock = SystemClock()
    given = TraceOptions(level=TIMESTAMPS, rate=1, mode=OPENTELEMETRY, collector=collector)
    tracer = Tracer(given, clock=clock, sink=lambda: sender)
    tracer.open()
    requests = Requests(tracer, typing.cast("typing.Any", clock))
    requests.tick = clock.monotonic_ns  # type: ignore[method-assign]
    return requests, sender


async def test_a_collector_gets_the_spans_of_a_request_with_the_attributes_of_the_server(
    collector: Collector,
) -> None:
    requests, _ = opened(collector.url)
    context = requests.begin(
        trace=TraceParent("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "shop=7")
    )
    requests.respond(requests.run(context))
    requests.finish(context)
    await requests.tracer.aclose()
    root, *_ = found = collector.spans()
    assert [span.name for span in found] == ["InferRequest", "m", "queue", "compute", "batch"]
    assert root.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert root.parent_span_id.hex() == "b7ad6b7169203331"
    assert found[1].parent_span_id == root.span_id
    assert {span.trace_state for span in found} == {"shop=7"}
    compute, batch = found[3:]
    assert [link.span_id for link in compute.links] == [batch.span_id]
    assert [link.span_id for link in batch.links] == [found[1].span_id]
    assert [event.name for event in root.events][:2] == ["HTTP_RECV_START", "HTTP_RECV_END"]
    assert root.start_time_unix_nano <= found[1].start_time_unix_nano
    resource = collector.received[0].resource_spans[0].resource
    assert {each.key: each.value.string_value for each in resource.attributes}[
        "service.name"
    ] == "shop"
    assert {each.key for each in found[1].attributes} == {
        "triton.model_name", "triton.model_version", "triton.trace_id", "triton.trace_parent_id",
    }  # fmt: skip


async def test_a_full_batch_does_not_wait_for_the_delay(collector: Collector) -> None:
    requests, _ = opened(collector.url, schedule_delay_ms=3_600_000, max_export_batch_size=10)
    requests.whole()
    requests.whole()
    wait_until(lambda: len(collector.spans()) == 10)
    await requests.tracer.aclose()


async def test_a_collector_that_hangs_costs_spans_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces"
        requests, sender = opened(
            url, max_queue_size=10, schedule_delay_ms=0, max_export_batch_size=5
        )
        with caplog.at_level(logging.WARNING, logger="naiad.trace"):
            requests.whole()
            wait_until(lambda: sender.background.is_busy)
            for _ in range(5):
                requests.whole()
            assert sender.background.dropped == 15
            sender.close(0)
    wait_until(lambda: not sender.background.is_busy)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith(f"traces are lost: more than 10 spans wait for {url}")
    assert lines[1] == f"15 spans were not sent to {url}"


class Refusing:
    """An exporter whose collector is not there."""

    def export(self, spans: typing.Any) -> typing.Any:
        return SpanExportResult.FAILURE


async def test_a_collector_that_is_not_there_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sender = SpanSender(
        CollectorOptions(url="http://nowhere"), typing.cast("typing.Any", Refusing())
    )
    requests, _ = opened("http://unused")
    tracer = requests.tracer
    requests.tracer = Tracer(tracer.options, clock=SystemClock(), sink=lambda: sender)
    requests.tracer.open()
    with caplog.at_level(logging.WARNING, logger="naiad.trace"):
        for _ in range(3):
            requests.whole()
        await requests.tracer.aclose()
    first, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("traces are lost: http://nowhere does not take them; requests go on")
    assert last == "15 spans were not sent to http://nowhere"


async def test_a_collector_that_redirects_is_named_with_where_to(
    caplog: pytest.LogCaptureFixture,
) -> None:
    collector = Collector(redirects="https://elsewhere/v1/traces")
    requests, sender = opened(collector.url)
    with caplog.at_level(logging.WARNING, logger="naiad.trace"):
        requests.whole()
        await requests.tracer.aclose()
    collector.stop()
    first, last = (record.getMessage() for record in caplog.records)
    where = f"traces are lost: {collector.url} redirects to https://elsewhere/v1/traces; requests"
    assert first.startswith(where)
    assert last == f"5 spans were not sent to {collector.url}"
    assert sender.lost == 5
