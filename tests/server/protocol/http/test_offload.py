import asyncio
import gc
import logging
import threading
import weakref

import pytest

from naiad.errors import invalid
from naiad.protocol.http.offload import Offloaded
from tests.server.protocol.http.scripted_engine import Replies, error_of


class Handle:
    cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


async def test_work_is_done_on_another_thread_and_proceeds_on_the_loop() -> None:
    here = threading.get_ident()
    done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
    replies = Replies()
    Offloaded(
        threading.get_ident, lambda there: done.set_result((there, threading.get_ident())), replies
    ).start()
    there, back = await done
    assert there != here
    assert back == here
    assert replies.all == []


async def test_work_that_is_refused_is_answered_with_its_error() -> None:
    def work() -> None:
        raise invalid("a bomb")

    replies = Replies()
    Offloaded(work, lambda result: None, replies).start()
    await replies.arrived()
    assert replies.only.status == 400
    assert error_of(replies.only) == "a bomb"


@pytest.mark.parametrize("where", ["work", "proceed"])
async def test_a_bug_is_answered_and_logged(where: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail_if(stage: str) -> None:
        if stage == where:
            raise RuntimeError("a bug")

    replies = Replies()
    Offloaded(lambda: fail_if("work"), lambda result: fail_if("proceed"), replies).start()
    with caplog.at_level(logging.ERROR):
        await replies.arrived()
    assert replies.only.status == 500
    assert "a bug" not in error_of(replies.only)
    assert "a bug" in caplog.text


async def test_a_client_that_leaves_meanwhile_costs_no_inference() -> None:
    go = threading.Event()
    proceeded: list[bool] = []
    replies = Replies()
    work = Offloaded(go.wait, proceeded.append, replies).start()
    work.cancel()
    go.set()
    await replies.arrived()
    assert proceeded == []
    assert replies.only.status == 400


async def test_a_client_that_leaves_later_cancels_what_followed() -> None:
    handle = Handle()
    proceeded = asyncio.Event()

    def proceed(result: None) -> Handle:
        proceeded.set()
        return handle

    work = Offloaded(lambda: None, proceed, Replies()).start()
    await proceeded.wait()
    work.cancel()
    work.cancel()
    assert handle.cancelled == 2


class Body:
    """Something large."""


async def test_work_that_is_refused_leaves_nothing_for_the_garbage_collector() -> None:
    bodies = list[weakref.ref[Body]]()

    def work() -> None:
        body = Body()
        bodies.append(weakref.ref(body))
        raise invalid("a bomb")

    replies = Replies()
    gc.disable()
    try:
        Offloaded(work, lambda result: None, replies).start()
        await replies.arrived()
        await asyncio.sleep(0)
        assert [body() for body in bodies] == [None]
    finally:
        gc.enable()
