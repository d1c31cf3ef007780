"""Which requests are followed for traces: a request that is not pays for a look and a count, whichever way it comes."""

import collections.abc
import dataclasses
import json
import pathlib
import typing

import pytest

from naiad.core.clock import ManualClock
from naiad.protocol.access_log import AccessObserver
from naiad.protocol.observer import HeaderLookup
from naiad.protocol.trace_observer import TraceObserver
from naiad.tracing.context import TracedContext
from naiad.tracing.files import TraceSink
from naiad.tracing.settings import OPENTELEMETRY, TIMESTAMPS, TraceOptions
from naiad.tracing.tracer import Tracer
from tests.server.tracing.test_spans import Collected

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclasses.dataclass
class World:
    """Requests that come as both protocols bring them."""

    tracer: Tracer
    observer: TraceObserver

    def ask(self, model: str = "m", headers: dict[bytes, bytes] | None = None) -> str:
        """What becomes of a request: "traced", "followed" or "passed"."""
        look_up: HeaderLookup = (headers or {}).get
        if not self.observer.follows(look_up):
            if self.tracer.active:
                self.tracer.passed(model)
            return "passed"
        context = self.observer.begin(look_up, 1, 2)
        context.asks(model)
        traced = isinstance(context, TracedContext) and context.setting is not None
        return "traced" if traced else "followed"


def opened(
    *,
    log: bool = False,
    sink: collections.abc.Callable[[], TraceSink] | None = Collected,
    **options: typing.Any,
) -> World:
    clock = ManualClock()
    given = {"level": TIMESTAMPS, "rate": 1, "file": "t.json", **options}
    tracer = Tracer(TraceOptions(**given), clock=clock, sink=sink)
    tracer.open()
    access = AccessObserver(clock=clock) if log else None
    return World(tracer, TraceObserver(tracer, protocol="HTTP", log=access, clock=clock))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("rate", [1, 2, 3, 5])
def test_each_so_many_th_request_is_traced_with_and_without_an_access_log(
    *, rate: int, log: bool
) -> None:
    world = opened(rate=rate, log=log)
    found = [world.ask() for _ in range(12)]
    other = "followed" if log else "passed"
    assert found == ["traced" if n % rate == 0 else other for n in range(1, 13)]


def test_while_it_is_off_no_request_is_followed_or_counted() -> None:
    world = opened(level=0, rate=2)
    assert [world.ask() for _ in range(3)] == ["passed"] * 3
    world.tracer.change("", {"level": TIMESTAMPS})
    assert [world.ask() for _ in range(3)] == ["passed", "traced", "passed"]


def test_each_setting_counts_its_own_requests() -> None:
    world = opened(rate=3)
    world.tracer.change("n", {"rate": 2})
    found = [world.ask(model) for model in ("m", "n", "m", "m", "n", "n", "n")]
    # When one may be traced, the next request is followed: which model it asks is not known yet.
    assert found == ["passed", "passed", "followed", "traced", "traced", "passed", "traced"]


def test_a_request_of_another_model_counts_while_one_is_due() -> None:
    world = opened(rate=2)
    world.tracer.change("n", {"rate": 2})
    found = [world.ask(model) for model in ("m", "n", "n", "n", "m", "m", "m")]
    assert found == ["passed", "followed", "traced", "followed", "traced", "followed", "traced"]


def test_a_count_that_is_used_up_leaves_nothing_to_follow() -> None:
    world = opened(rate=1, count=2)
    assert [world.ask() for _ in range(4)] == ["traced", "traced", "passed", "passed"]


def test_a_request_that_could_not_be_followed_in_time_leaves_the_next_one_due() -> None:
    world = opened(rate=2)
    world.ask()
    world.tracer.passed("m")  # it was decoded by another process meanwhile
    assert world.ask() == "traced"


@pytest.mark.parametrize("header", [b"traceparent"])
def test_with_spans_a_request_of_the_clients_trace_is_followed_whatever_the_rate(
    header: bytes,
) -> None:
    world = opened(rate=0, mode=OPENTELEMETRY)
    assert [world.ask() for _ in range(3)] == ["passed"] * 3
    assert world.ask(headers={header: PARENT}) == "traced"
    assert world.ask(headers={header: b"of another form"}) == "followed"
    world.tracer.change("", {"level": 0})
    assert world.ask(headers={header: PARENT}) == "passed"


def test_in_files_the_clients_trace_does_not_matter() -> None:
    world = opened(rate=3)
    assert world.ask(headers={b"traceparent": PARENT}) == "passed"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [(b"a=b,c=d", "a=b,c=d"), (b"", ""), (b"a=\x00", ""), (b"a=" + b"b" * 600, "")],
)
def test_the_state_of_the_clients_trace_goes_on_if_it_can_be_a_header(
    sent: bytes, kept: str
) -> None:
    world = opened(mode=OPENTELEMETRY)
    headers = {b"traceparent": PARENT, b"tracestate": sent}
    trace = world.observer.begin(headers.get, 1, 2).trace
    assert trace is not None
    assert trace.state == kept


async def test_where_each_request_is_traced_one_that_asks_no_model_takes_no_id(
    tmp_path: pathlib.Path,
) -> None:
    """Probes of the server's health come the same way."""
    world = opened(file=str(tmp_path / "t.json"), sink=None)
    for asks in (False, True, False, True):
        context = world.observer.follow({}, 1, 2)
        assert context is not None
        assert context.lean
        context.asked = asks
        world.observer.finish(context)
    await world.tracer.aclose()
    records = json.loads((tmp_path / "t.json").read_text())
    assert {record["id"] for record in records} == {1, 2}
