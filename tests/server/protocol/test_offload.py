import asyncio
import collections.abc
import concurrent.futures
import gc
import logging
import threading
import typing
import weakref

import pytest

from naiad.errors import ErrorCode, InferenceError, invalid
from naiad.protocol.codec.pool import Codec
from naiad.protocol.offload import OffloadedCall


class Handle:
    cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


async def failure_of(
    work: collections.abc.Callable[[], object],
    proceed: collections.abc.Callable[[object], None] = lambda result: None,
) -> InferenceError:
    failed: asyncio.Future[InferenceError] = asyncio.get_running_loop().create_future()
    OffloadedCall(None, work, proceed=proceed, fail=failed.set_result)
    return await failed


def never(*arguments: object) -> typing.NoReturn:
    raise AssertionError(f"it was called with {arguments}")


@pytest.mark.parametrize("of_codec", [False, True])
async def test_work_is_done_on_another_thread_and_proceeds_on_the_loop(*, of_codec: bool) -> None:
    codec = Codec() if of_codec else None
    done: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
    OffloadedCall(
        codec,
        lambda: threading.current_thread().name,
        proceed=lambda there: done.set_result((there, threading.get_ident())),
        fail=never,
    )
    there, back = await done
    assert there != threading.current_thread().name
    assert there.startswith("naiad-codec") is of_codec
    assert back == threading.get_ident()
    if codec is not None:
        codec.close()


@pytest.mark.parametrize("where", ["work", "proceed"])
async def test_what_is_refused_fails_with_its_error(where: str) -> None:
    def refuse_in(stage: str) -> None:
        if stage == where:
            raise invalid("a bomb")

    error = await failure_of(lambda: refuse_in("work"), lambda result: refuse_in("proceed"))
    assert (error.code, error.message) == (ErrorCode.INVALID_ARG, "a bomb")


@pytest.mark.parametrize("where", ["work", "proceed"])
async def test_a_bug_fails_without_its_text_and_is_logged(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    def break_in(stage: str) -> None:
        if stage == where:
            raise RuntimeError("a bug")

    with caplog.at_level(logging.ERROR):
        error = await failure_of(lambda: break_in("work"), lambda result: break_in("proceed"))
    assert error.code is ErrorCode.INTERNAL
    assert "a bug" not in error.message
    assert "a bug" in caplog.text


async def test_work_that_is_not_begun_at_the_end_of_the_server_says_so() -> None:
    go = threading.Event()
    executor = concurrent.futures.ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(executor)
    executor.submit(go.wait)
    failed = asyncio.ensure_future(failure_of(never))
    await asyncio.sleep(0)  # it has submitted its work, which waits
    executor.shutdown(wait=False, cancel_futures=True)
    go.set()
    error = await failed
    assert error.code is ErrorCode.UNAVAILABLE
    assert "shutting down" in error.message


@pytest.mark.parametrize("fails", [False, True])
async def test_a_client_that_leaves_meanwhile_costs_no_inference(
    *, fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait()
        if fails:
            raise invalid("too late")

    call = OffloadedCall(None, work, proceed=never, fail=never)
    await asyncio.to_thread(begun.wait)
    call.cancel()
    go.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert caplog.text == ""


async def test_a_client_that_leaves_later_cancels_what_followed() -> None:
    handle = Handle()
    proceeded = asyncio.Event()

    def proceed(result: None) -> Handle:
        proceeded.set()
        return handle

    call = OffloadedCall(None, lambda: None, proceed=proceed, fail=never)
    await proceeded.wait()
    call.cancel()
    call.cancel()
    assert handle.cancelled == 2


class Body:
    """Something large."""


async def test_work_that_is_refused_leaves_nothing_for_the_garbage_collector() -> None:
    bodies = list[weakref.ref[Body]]()

    def work() -> None:
        body = Body()
        bodies.append(weakref.ref(body))
        raise invalid("a bomb")

    gc.disable()
    try:
        error = await failure_of(work)
        await asyncio.sleep(0)
        assert error.message == "a bomb"
        assert [body() for body in bodies] == [None]
    finally:
        gc.enable()
