"""Polling pods for their models: which responses count, how often, and that no reconcile waits for it and no pod leads it elsewhere."""

import asyncio
import contextlib
import dataclasses
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from naiad_operator.queue import Key
from naiad_operator.reconcile.lookups import model_poller
from naiad_operator.reconcile.lookups.model_poller import (
    ModelPoller,
    PodAddress,
    PollConfig,
    interval,
)
from naiad_operator.status import ModelReport, ModelState
from naiad_operator.versions import Version
from tests.support.waiting import until

KEY = Key("ns", "demo")
CONFIG = PollConfig(ready=0.02, loading=0.02, max_unresponsive=0.1, timeout=60.0)
HASTY = dataclasses.replace(CONFIG, timeout=0.2)
"""For a pod that does not respond; a busy machine may take as long for one that does."""
READY = {"models": [{"name": "a", "version": "1", "state": "READY", "reason": ""}]}
LOADING = {"models": [{"name": "a", "version": "1", "state": "LOADING", "later": "unknown"}]}
EMPTY: dict[str, Any] = {"models": [], "loads": []}
A_READY = ModelState(name="a", version="1", state="READY")
A_LOADING = ModelState(name="a", version="1", state="LOADING")


class Pod:
    """A pod's metrics port with a configurable response."""

    def __init__(self) -> None:
        self.answer: Any = READY
        self.asked: list[dict[str, str]] = []
        self.elsewhere = 0

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.headers))
        if self.answer == "hang":
            await asyncio.sleep(30)
        if self.answer == "redirect":
            return web.Response(status=302, headers={"Location": "/elsewhere"})
        if isinstance(self.answer, int):
            return web.Response(status=self.answer)
        if isinstance(self.answer, bytes):
            return web.Response(body=self.answer, headers={"Content-Encoding": "gzip"})
        if isinstance(self.answer, str):
            return web.Response(text=self.answer)
        return web.json_response(self.answer)

    async def handle_elsewhere(self, request: web.Request) -> web.Response:
        self.elsewhere += 1
        return web.json_response(READY)


class Asking:
    """A poller, and the keys of the services whose models have changed."""

    def __init__(self, models: ModelPoller, changed: list[Key], url: str, pod: Pod) -> None:
        self.changed, self.models = changed, models
        self.address, self.pod = PodAddress("p", url, has_started=True), pod

    @property
    def states(self) -> tuple[ModelState, ...] | None:
        return self.models.report(KEY).models


@pytest.fixture
async def asking(request: pytest.FixtureRequest) -> AsyncIterator[Asking]:
    config: PollConfig = getattr(request, "param", CONFIG)
    pod = Pod()
    app = web.Application()
    app.router.add_get("/status", pod.handle)
    app.router.add_get("/elsewhere", pod.handle_elsewhere)
    changed: list[Key] = []
    async with TestServer(app) as server, model_poller.open_session() as session:
        poller = ModelPoller(session, on_change=changed.append, config=config)
        made = Asking(poller, changed, str(server.make_url("/status")), pod)
        task = asyncio.create_task(poller.run())
        yield made
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    # Transports close in the loop's next round.
    await asyncio.sleep(0)


async def test_the_first_response_and_every_change_are_reported(asking: Asking) -> None:
    asking.pod.answer = LOADING
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.changed == [KEY])
    assert asking.models.report(KEY) == ModelReport(pod="p", models=(A_LOADING,))
    await until(lambda: len(asking.pod.asked) > 3)
    assert asking.changed == [KEY]
    asking.pod.answer = READY
    await until(lambda: asking.changed == [KEY, KEY])
    assert asking.states == (A_READY,)


async def test_the_servers_version_is_reported_once_it_says_it(asking: Asking) -> None:
    """A server of 0.1.0 does not say it."""
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.states is not None)
    assert asking.models.report(KEY).server_version is None
    asking.pod.answer = {**READY, "version": "0.2.1"}
    await until(lambda: asking.models.report(KEY).server_version == Version(0, 2, 1))


INVALID: dict[str, tuple[Any, str]] = {
    "an error": (503, "responds with HTTP status 503"),
    "a redirect": ("redirect", "responds with HTTP status 302"),
    "HTML": ("<html>", "responds with something else than model states"),
    "another JSON": ('{"models": 3}', "responds with something else than model states"),
    "nested JSON": ('{"a":' * 20_000, "responds with something else than model states"),
    "a name that no status can hold": (
        {"models": [{"name": "x" * 5000}]},
        "responds with something else than model states",
    ),
    "too much": ("x" * (2 << 20), "responds with more than 1048576 bytes"),
    "little that is much": (
        gzip.compress(b" " * (64 << 20)),
        "responds with something else than model states",
    ),
    "nothing": ("hang", "does not respond within 0.2 s"),
}


@pytest.mark.parametrize(
    ("case", "asking"),
    [(case, HASTY if answer == "hang" else CONFIG) for case, (answer, _) in INVALID.items()],
    ids=INVALID,
    indirect=["asking"],
)
async def test_an_invalid_response_changes_nothing_until_it_is_repeated(
    asking: Asking, case: str
) -> None:
    answer, problem = INVALID[case]
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.changed == [KEY])
    asking.pod.answer = answer
    before = len(asking.pod.asked)
    await until(lambda: len(asking.pod.asked) > before + 1)
    assert asking.states == (A_READY,)
    await until(lambda: asking.changed == [KEY, KEY])
    assert asking.models.report(KEY) == ModelReport(
        problem=f"pod p {problem} ({asking.address.url})"
    )
    assert asking.pod.elsewhere == 0
    asking.pod.answer = READY
    await until(lambda: asking.states == (A_READY,))


async def test_until_a_pod_has_responded_or_failed_its_report_is_awaited(asking: Asking) -> None:
    assert not asking.models.report(KEY).is_awaited, "no pod is polled"
    silent = PodAddress("p", "http://127.0.0.1:9/status", has_started=True)
    asking.models.poll(KEY, (silent,))
    assert asking.models.report(KEY).is_awaited
    await until(lambda: asking.models.results["unreachable"] > 1)
    assert asking.models.report(KEY).is_awaited, "one failure may be a busy node"
    await until(lambda: asking.changed == [KEY])
    assert not asking.models.report(KEY).is_awaited


async def test_results_are_counted(asking: Asking) -> None:
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.models.results["ok"] > 0)
    asking.pod.answer = 404
    await until(lambda: asking.models.results["invalid"] > 0)
    asking.models.poll(KEY, (PodAddress("p", "http://127.0.0.1:9/status", has_started=True),))
    await until(lambda: asking.models.results["unreachable"] > 0)


async def test_requests_to_pods_have_no_credentials(asking: Asking) -> None:
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.changed == [KEY])
    assert "Authorization" not in asking.pod.asked[0]


async def test_a_deleted_service_is_not_polled(asking: Asking) -> None:
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.changed == [KEY])
    asking.models.poll(KEY, ())
    assert asking.states is None


async def test_a_new_address_is_polled_at_once_and_the_last_states_are_kept(asking: Asking) -> None:
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.changed == [KEY])
    asking.models.poll(KEY, (PodAddress("q", "http://127.0.0.1:9/status", has_started=True),))
    assert asking.states == (A_READY,)


async def test_a_second_pod_is_polled_only_if_the_first_does_not_respond(asking: Asking) -> None:
    silent = PodAddress("new", "http://127.0.0.1:9/status", has_started=False)
    asking.models.poll(KEY, (silent, asking.address))
    await until(lambda: asking.changed == [KEY])
    assert asking.models.report(KEY).pod == "p"


async def test_a_model_that_is_fetched_loads_although_it_has_no_state_yet(asking: Asking) -> None:
    asking.pod.answer = {**READY, "loads": [{"name": "big", "phase": "fetching"}, {"name": "a"}]}
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.changed == [KEY])
    fetched = ModelState(name="big", version="", state="LOADING", reason="fetching")
    assert asking.states == (A_READY, fetched), "a serves, so its reload does not count"


async def test_evictions_wake_nothing_and_are_in_the_next_report(asking: Asking) -> None:
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.changed == [KEY])
    evicted = {"name": "a", "version": "1", "state": "UNAVAILABLE", "reason": "evicted"}
    asking.pod.answer = {"models": [evicted]}
    await until(lambda: asking.states not in ((A_READY,), None))
    assert asking.changed == [KEY]


async def test_an_empty_list_of_a_pod_that_has_not_started_is_not_an_empty_repository(
    asking: Asking,
) -> None:
    asking.pod.answer = EMPTY
    starts = PodAddress("p", asking.address.url, has_started=False)
    asking.models.poll(KEY, (starts,))
    await until(lambda: asking.changed == [KEY])
    assert asking.models.report(KEY) == ModelReport(
        pod="p", is_starting=True, problem="pod p has not listed its models yet"
    )
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.states == ())


def waits(*states: ModelState, failures: int = 0) -> list[float]:
    """The intervals while nothing changes."""
    report = ModelReport(pod="p", models=states)
    return [interval(report, failures, unchanged, PollConfig()) for unchanged in range(6)]


@pytest.mark.parametrize("reason", ["unloaded", "evicted", "no such file"])
def test_states_that_stay_are_polled_slowly(reason: str) -> None:
    idle = ModelState(name="a", version="1", state="UNAVAILABLE", reason=reason)
    assert waits(A_READY, idle) == [30.0] * 6


def test_a_load_is_polled_often_and_a_long_one_less_and_less() -> None:
    assert waits(A_READY, A_LOADING) == [3.0, 6.0, 12.0, 24.0, 30.0, 30.0]


def test_a_pod_that_does_not_respond_is_polled_less_and_less() -> None:
    assert [waits(failures=n)[0] for n in (1, 2, 3, 9)] == [6.0, 12.0, 24.0, 120.0]


def test_addresses_are_written_as_urls_want_them() -> None:
    pods = [{"metadata": {"name": "a"}, "status": {"podIP": ip}} for ip in ("10.0.0.2", "fd00::1")]
    assert model_poller.addresses(pods, 8002) == (
        PodAddress("a", "http://10.0.0.2:8002/status", has_started=False),
        PodAddress("a", "http://[fd00::1]:8002/status", has_started=False),
    )


async def test_a_canary_is_polled_apart(asking: Asking) -> None:
    asking.models.poll(KEY, (asking.address,))
    await until(lambda: asking.states == (A_READY,))
    assert asking.models.report(KEY, model_poller.CANARY).models is None
    asking.models.poll(KEY, (asking.address,), model_poller.CANARY)
    await until(lambda: asking.models.report(KEY, model_poller.CANARY).models == (A_READY,))
    assert asking.changed == [KEY, KEY]
    asking.models.poll(KEY, (), model_poller.CANARY)
    assert asking.models.report(KEY, model_poller.CANARY).models is None
    assert asking.states == (A_READY,)
