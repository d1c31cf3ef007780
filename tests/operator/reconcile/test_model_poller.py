"""Polling pods for their models: which pod, which responses count, and that no reconcile waits for it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from naiad_operator.queue import Key
from naiad_operator.reconcile.model_poller import ModelPoller, PollConfig, status_url
from naiad_operator.status import ModelState
from tests.support.waiting import until

KEY = Key("ns", "demo")
CONFIG = PollConfig(ready=0.02, loading=0.02, max_unresponsive=0.1, timeout=0.2)
READY = {"models": [{"name": "a", "version": "1", "state": "READY", "reason": ""}]}
LOADING = {"models": [{"name": "a", "version": "1", "state": "LOADING", "later": "unknown"}]}


class Pod:
    """A pod's metrics port with a configurable response."""

    def __init__(self) -> None:
        self.answer: Any = READY
        self.asked: list[dict[str, str]] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.headers))
        if self.answer == "hang":
            await asyncio.sleep(30)
        if isinstance(self.answer, int):
            return web.Response(status=self.answer)
        if isinstance(self.answer, str):
            return web.Response(text=self.answer)
        return web.json_response(self.answer)


class Asking:
    """A poller, and the keys of the services whose models have changed."""

    def __init__(self, session: aiohttp.ClientSession, url: str, pod: Pod) -> None:
        self.changed: list[Key] = []
        self.models = ModelPoller(session, on_change=self.changed.append, config=CONFIG)
        self.url, self.pod = url, pod


@pytest.fixture
async def asking() -> AsyncIterator[Asking]:
    pod = Pod()
    app = web.Application()
    app.router.add_get("/status", pod.handle)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        made = Asking(session, str(server.make_url("/status")), pod)
        task = asyncio.create_task(made.models.run())
        yield made
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    # Transports close in the loop's next round.
    await asyncio.sleep(0)


async def test_the_first_response_and_every_change_are_reported(asking: Asking) -> None:
    asking.pod.answer = LOADING
    asking.models.poll(KEY, asking.url)
    await until(lambda: asking.changed == [KEY])
    assert asking.models.states(KEY) == (ModelState(name="a", version="1", state="LOADING"),)
    await until(lambda: len(asking.pod.asked) > 3)
    assert asking.changed == [KEY]
    asking.pod.answer = READY
    await until(lambda: asking.changed == [KEY, KEY])
    assert asking.models.states(KEY) == (ModelState(name="a", version="1", state="READY"),)


@pytest.mark.parametrize("answer", [503, "<html>", '{"models": 3}', "x" * (2 << 20), "hang"])
async def test_an_invalid_response_changes_nothing(asking: Asking, answer: Any) -> None:
    asking.models.poll(KEY, asking.url)
    await until(lambda: asking.changed == [KEY])
    asking.pod.answer = answer
    before = len(asking.pod.asked)
    await until(lambda: len(asking.pod.asked) > before + 1)
    assert asking.models.states(KEY) == (ModelState(name="a", version="1", state="READY"),)
    assert asking.changed == [KEY]


async def test_requests_to_pods_have_no_credentials(asking: Asking) -> None:
    asking.models.poll(KEY, asking.url)
    await until(lambda: asking.changed == [KEY])
    assert "Authorization" not in asking.pod.asked[0]


async def test_a_deleted_service_is_not_polled(asking: Asking) -> None:
    asking.models.poll(KEY, asking.url)
    await until(lambda: asking.changed == [KEY])
    asking.models.poll(KEY, "")
    assert asking.models.states(KEY) is None


async def test_a_new_address_is_polled_at_once_and_the_last_states_are_kept(asking: Asking) -> None:
    asking.models.poll(KEY, asking.url)
    await until(lambda: asking.changed == [KEY])
    asking.models.poll(KEY, "http://127.0.0.1:9/status")
    assert asking.models.states(KEY) == (ModelState(name="a", version="1", state="READY"),)


def pod(name: str, ip: str = "10.0.0.1", phase: str = "Running", **more: Any) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}] if more.get("ready") else []
    metadata = {"name": name, **more.get("metadata", {})}
    return {"metadata": metadata, "status": {"phase": phase, "podIP": ip, "conditions": ready}}


def test_a_ready_pod_is_polled_before_a_running_one() -> None:
    pods = [pod("a", "10.0.0.1"), pod("b", "10.0.0.2", ready=True)]
    assert status_url(pods, 8002) == "http://10.0.0.2:8002/status"


def test_a_running_pod_is_polled_while_none_is_ready() -> None:
    assert status_url([pod("a")], 8002) == "http://10.0.0.1:8002/status"


def test_an_ipv6_address_is_written_as_a_url_wants_it() -> None:
    assert status_url([pod("a", "fd00::1")], 8002) == "http://[fd00::1]:8002/status"


def test_pending_and_terminating_pods_are_not_polled() -> None:
    leaving = pod("b", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert status_url([pod("a", phase="Pending"), leaving, pod("c", "")], 8002) == ""
