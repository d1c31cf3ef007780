"""The metrics port: the page, the states of models, and the answers to everything else (row 8.12)."""

import asyncio
import collections.abc
import json
import typing

import pytest

from naiad import __version__
from naiad.metrics.custom import CustomMetrics
from naiad.metrics.exposition import Sample, Series
from naiad.metrics.families import Family
from naiad.protocol.http.message import HttpReply, HttpRequest
from naiad.protocol.http.metrics_port import Collect, MetricsPage, MetricsRoutes
from naiad.repository.lifecycle import State
from naiad.repository.loading.progress import LoadProgress, Phase
from naiad.repository.manager import VersionState

LOADS = [
    LoadProgress(
        name="n", version=None, phase=Phase.FETCHING, bytes_done=300, bytes_total=1000, elapsed_seconds=1.23456, reason=""
    ),
    LoadProgress(
        name="m", version=2, phase=Phase.LOADED, bytes_done=0, bytes_total=0, elapsed_seconds=2, reason=""
    ),
]  # fmt: skip
FAMILY = Series(Family("f", "help", "gauge"), (Sample((), 1),))


async def ask(method: bytes, path: str, collect: Collect = lambda: [FAMILY]) -> HttpReply:
    routes = MetricsRoutes(
        collect=collect,
        states=lambda: [
            VersionState(name="m", version=2, state=State.READY, reason=""),
            VersionState(name="n", version=None, state=State.UNAVAILABLE, reason="no config"),
        ],
        loads=lambda: LOADS,
    )
    reply = asyncio.get_running_loop().create_future()
    handler = routes.find(method, path, {})
    assert handler is not None
    handler(HttpRequest(method, path, {}, b""), reply.set_result)
    return typing.cast(HttpReply, await reply)


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
async def test_the_page_is_prometheus_text(path: str) -> None:
    reply = await ask(b"GET", path)
    assert (reply.status, reply.body) == (200, (b"# HELP f help\n# TYPE f gauge\nf 1\n",))
    assert reply.headers == ((b"Content-Type", b"text/plain; charset=utf-8"),)


PROMETHEUS = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        (PROMETHEUS, True),
        ("application/openmetrics-text", True),
        ('Application/OpenMetrics-Text; Version="1.0.0"', True),
        ("text/plain;q=0.5, application/openmetrics-text;q=0.9", True),
        ("*/*, application/openmetrics-text;q=0.1", True),
        ("application/openmetrics-text;q=0.5, text/plain", False),
        ("text/plain, application/openmetrics-text", False),
        ("application/openmetrics-text, text/plain", True),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=0, */*", False),
        ("application/openmetrics-text;q=lots", False),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;version=2.0.0", False),
        ('application/openmetrics-text;version="', False),
        ('application/openmetrics-text;version="1.0.0', False),
        ("application/openmetrics-text-not", False),
        ("application/*", False),
        ("*/*;q=0", False),
        ("application/octet-stream", False),
        ("\xff;q=;=,,;,", False),
        ("," * 100_000, False),
        ("", False),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_the_format_is_the_one_that_the_scraper_likes_best(
    accept: str, *, is_open: bool
) -> None:
    routes = MetricsRoutes(collect=tuple, states=tuple, loads=tuple, open_metrics=tuple)
    reply: asyncio.Future[HttpReply] = asyncio.get_running_loop().create_future()
    headers = {b"accept": accept.encode("latin-1")}
    handler = routes.find(b"GET", "/metrics", headers)
    assert handler is not None
    handler(HttpRequest(b"GET", "/metrics", headers, b""), reply.set_result)
    answer = await reply
    assert answer.status == 200
    assert (b"".join(map(bytes, answer.body)) == b"# EOF\n") is is_open
    assert (b"openmetrics" in answer.headers[0][1]) is is_open


async def test_the_states_of_all_models_are_json() -> None:
    reply = await ask(b"GET", "/status")
    assert json.loads(b"".join(map(bytes, reply.body))) == {
        "version": __version__,
        "models": [
            {"name": "m", "version": "2", "state": "READY", "reason": ""},
            {"name": "n", "version": None, "state": "UNAVAILABLE", "reason": "no config"},
        ],
        "loads": [
            {
                "name": "n", "phase": "fetching", "bytes_done": 300, "bytes_total": 1000,
                "elapsed_seconds": 1.235,
            },
        ],
    }  # fmt: skip


async def test_any_other_path_is_an_empty_200_and_any_other_verb_405() -> None:
    empty = await ask(b"GET", "/")
    assert empty.status == 200
    assert b"".join(map(bytes, empty.body)) == b""
    reply = await ask(b"POST", "/metrics")
    assert reply.status == 405
    assert b"this is the metrics port, which takes GET; inference is on" in bytes(reply.body[0])


def test_a_post_with_a_body_gets_405_from_its_head_alone_and_a_get_with_one_the_reason() -> None:
    routes = MetricsRoutes(collect=tuple, states=tuple, loads=tuple)
    refused = routes.refusal(b"POST", "/v2/models/m/infer", {})
    assert refused is not None
    assert refused.status == 405
    assert routes.refusal(b"GET", "/metrics", {}) is None
    assert "--http-max-input-size" not in routes.too_large("/metrics", {}, 5)


async def answer_of(page: MetricsPage) -> HttpReply:
    reply: asyncio.Future[HttpReply] = asyncio.get_running_loop().create_future()
    page.send(reply.set_result)
    return await reply


async def test_a_page_lets_the_loop_run_between_two_families_and_requests_meanwhile_share_the_next() -> (
    None
):
    rendered = list[str]()

    def collect() -> collections.abc.Iterator[Series]:
        for number in range(3):
            rendered.append(f"family {number}")
            yield FAMILY

    page = MetricsPage(collect)
    first = asyncio.ensure_future(answer_of(page))
    while len(rendered) < 2:  # noqa: ASYNC110 - the loop's turns are what is tested
        await asyncio.sleep(0)
    assert not first.done()
    others = await asyncio.gather(*(answer_of(page) for _ in range(10)))
    assert first.done()
    assert len(rendered) == 6
    assert {reply.status for reply in others} == {200}


async def test_a_family_of_50_000_series_lets_the_loop_run_every_500_of_them() -> None:
    custom = CustomMetrics()
    family = custom.open_family("mine", "One series per user.", "counter")
    for number in range(50_000):
        custom.change(custom.open_metric(family, {"user": str(number)}, None), "increment", 1)
    made: list[int] = []

    def collect() -> collections.abc.Iterator[Series]:
        for series in custom.series():
            yield Series(series.family, counted(series.samples))

    def counted(samples: collections.abc.Iterable[Sample]) -> collections.abc.Iterator[Sample]:
        for sample in samples:
            made[-1] += 1
            yield sample

    answer = asyncio.ensure_future(answer_of(MetricsPage(collect)))
    while not answer.done():
        made.append(0)
        await asyncio.sleep(0)
    assert sum(made) == 50_000
    assert max(made) <= 500
    lines = bytes((await answer).body[0]).splitlines()
    assert len(lines) == 50_002
    assert lines[-1] == b'mine{user="49999"} 1'


async def test_a_page_that_cannot_be_rendered_is_an_error_and_the_next_is_tried_again() -> None:
    failures = [ZeroDivisionError()]

    def collect() -> list[Series]:
        if failures:
            raise failures.pop()
        return [FAMILY]

    page = MetricsPage(collect)
    assert (await answer_of(page)).status == 500
    assert (await answer_of(page)).status == 200


async def test_a_page_that_cannot_be_sent_keeps_no_other_from_its_client() -> None:
    page = MetricsPage(lambda: [FAMILY])

    def broken(reply: HttpReply) -> None:
        raise ZeroDivisionError

    page.send(broken)
    assert (await answer_of(page)).status == 200
    assert (await answer_of(page)).status == 200
