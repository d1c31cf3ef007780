"""Threads for blocking work: the loop closes without those that hang."""

import asyncio
import threading

from naiad.core.processes.threads import UnwaitedExecutor


def test_a_loop_closes_beside_a_call_that_hangs() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        may_end.wait(60)
        ended.set()

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(UnwaitedExecutor())
        hanging = asyncio.create_task(asyncio.to_thread(hang))
        assert await asyncio.to_thread(begun.wait, 60)
        hanging.cancel()

    asyncio.run(run())
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(60)


def test_calls_that_wait_for_a_thread_are_not_begun_any_more() -> None:
    pool, may_end, begun = UnwaitedExecutor(1), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        may_end.wait(60)

    pool.submit(hang)
    assert begun.wait(60)
    waiting = pool.submit(may_end.wait)
    pool.shutdown()
    assert waiting.cancelled()
    may_end.set()
