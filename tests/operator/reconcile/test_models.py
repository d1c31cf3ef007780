"""Asking pods for their models: whom, what is believed, and that nobody waits for an answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from naiad_operator.queue import Key
from naiad_operator.reconcile.models import AskingPace, Models, address
from naiad_operator.status import ModelState

KEY = Key("ns", "demo")
PACE = AskingPace(ready=0.02, loading=0.02, silent_most=0.1, answer=0.2)
READY = {"models": [{"name": "a", "version": "1", "state": "READY", "reason": ""}]}
LOADING = {"models": [{"name": "a", "version": "1", "state": "LOADING", "later": "unknown"}]}


class Pod:
    """A pod's metrics port, which answers as it is told."""

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
    """Models that are asked for, and who was told of a change."""

    def __init__(self, session: aiohttp.ClientSession, url: str, pod: Pod) -> None:
        self.told: list[Key] = []
        self.models = Models(session, changed=self.told.append, pace=PACE)
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


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - the other side is a server
            await asyncio.sleep(0.005)


async def test_the_first_answer_and_every_other_one_wake_the_service(asking: Asking) -> None:
    asking.pod.answer = LOADING
    asking.models.follow(KEY, asking.url)
    await until(lambda: asking.told == [KEY])
    assert asking.models.of(KEY) == (ModelState(name="a", version="1", state="LOADING"),)
    await until(lambda: len(asking.pod.asked) > 3)
    assert asking.told == [KEY]
    asking.pod.answer = READY
    await until(lambda: asking.told == [KEY, KEY])
    assert asking.models.of(KEY) == (ModelState(name="a", version="1", state="READY"),)


@pytest.mark.parametrize("answer", [503, "<html>", '{"models": 3}', "x" * (2 << 20), "hang"])
async def test_an_answer_that_is_none_changes_nothing(asking: Asking, answer: Any) -> None:
    asking.models.follow(KEY, asking.url)
    await until(lambda: asking.told == [KEY])
    asking.pod.answer = answer
    before = len(asking.pod.asked)
    await until(lambda: len(asking.pod.asked) > before + 1)
    assert asking.models.of(KEY) == (ModelState(name="a", version="1", state="READY"),)
    assert asking.told == [KEY]


async def test_a_pod_is_never_shown_credentials(asking: Asking) -> None:
    asking.models.follow(KEY, asking.url)
    await until(lambda: asking.told == [KEY])
    assert "Authorization" not in asking.pod.asked[0]


async def test_a_service_that_is_gone_is_not_asked_for(asking: Asking) -> None:
    asking.models.follow(KEY, asking.url)
    await until(lambda: asking.told == [KEY])
    asking.models.follow(KEY, "")
    assert asking.models.of(KEY) is None


async def test_another_pod_is_asked_at_once_and_what_was_known_is_kept(asking: Asking) -> None:
    asking.models.follow(KEY, asking.url)
    await until(lambda: asking.told == [KEY])
    asking.models.follow(KEY, "http://127.0.0.1:9/status")
    assert asking.models.of(KEY) == (ModelState(name="a", version="1", state="READY"),)


def pod(name: str, ip: str = "10.0.0.1", phase: str = "Running", **more: Any) -> dict[str, Any]:
    ready = [{"type": "Ready", "status": "True"}] if more.get("ready") else []
    metadata = {"name": name, **more.get("metadata", {})}
    return {"metadata": metadata, "status": {"phase": phase, "podIP": ip, "conditions": ready}}


def test_a_ready_pod_is_asked_before_one_that_only_runs() -> None:
    pods = [pod("a", "10.0.0.1"), pod("b", "10.0.0.2", ready=True)]
    assert address(pods, 8002) == "http://10.0.0.2:8002/status"


def test_a_pod_that_only_runs_is_asked_what_it_loads() -> None:
    assert address([pod("a")], 8002) == "http://10.0.0.1:8002/status"


def test_an_ipv6_address_is_written_as_a_url_wants_it() -> None:
    assert address([pod("a", "fd00::1")], 8002) == "http://[fd00::1]:8002/status"


def test_pods_that_wait_or_go_are_not_asked() -> None:
    leaving = pod("b", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert address([pod("a", phase="Pending"), leaving, pod("c", "")], 8002) == ""
