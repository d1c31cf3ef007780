"""Responses that are kept back while the gRPC port closes, in virtual time."""

import asyncio

import pytest

from naiad.protocol.grpc.transport.calls_in_progress import CallsInProgress

pytestmark = pytest.mark.looptime


async def held_for(calls: CallsInProgress, limit: float) -> float:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await calls.hold(limit)
    return loop.time() - begun


async def test_nothing_is_held_on_a_port_that_got_no_call() -> None:
    calls = CallsInProgress()
    assert await held_for(calls, 0.5) == 0
    assert not calls.is_held


async def test_it_ends_50_ms_after_the_last_call() -> None:
    calls = CallsInProgress()
    calls.arrived = 1

    def arrive() -> None:
        calls.arrived += 1

    for delay in (0.015, 0.045, 0.085):
        asyncio.get_running_loop().call_later(delay, arrive)
    assert await held_for(calls, 0.5) == pytest.approx(0.14)
    assert calls.is_held


async def test_clients_that_never_wait_end_it_at_the_limit() -> None:
    calls = CallsInProgress()
    calls.arrived = 1

    async def arrive() -> None:
        while True:
            calls.arrived += 1
            await asyncio.sleep(0.007)

    clients = asyncio.create_task(arrive())
    assert await held_for(calls, 0.5) == pytest.approx(0.5)
    clients.cancel()


async def test_responses_wait_for_the_release_also_a_second_time() -> None:
    calls = CallsInProgress()
    calls.arrived = 1
    for _ in range(2):
        await calls.hold(0.5)
        waiting = asyncio.create_task(calls.released())
        await asyncio.sleep(1)
        assert not waiting.done()
        calls.release()
        await waiting
        assert not calls.is_held


async def test_giving_up_sends_what_is_held() -> None:
    calls = CallsInProgress()
    calls.arrived = 1
    await calls.hold(0.5)
    waiting = asyncio.create_task(calls.released())
    calls.give_up()
    await waiting
