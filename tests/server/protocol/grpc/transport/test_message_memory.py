"""The memory of large messages is kept while they come, and given back once none came for a while."""

import asyncio
import threading

from typing_extensions import override

from naiad.core.processes.malloc import Malloc
from naiad.protocol.grpc.transport.message_memory import MessageMemory


class RecordedMalloc(Malloc):
    """Records the calls: what it is to do, and whether the call came on the loop's thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.given_back = asyncio.Event()
        self.calls = list[tuple[str, bool]]()

    def _record(self, what: str) -> None:
        self.calls.append((what, threading.current_thread() is threading.main_thread()))

    @override
    def keep_messages(self) -> None:
        self._record("keep")

    @override
    def give_back_messages(self) -> None:
        self._record("give back")
        self._loop.call_soon_threadsafe(self.given_back.set)


async def test_it_is_kept_from_the_first_message_until_none_came_for_a_while() -> None:
    malloc = RecordedMalloc()
    memory = MessageMemory(malloc, idle_seconds=0)
    memory.used()
    memory.used()
    assert malloc.calls == [("keep", True)]
    await malloc.given_back.wait()
    assert malloc.calls == [("keep", True), ("give back", False)]
    memory.used()
    assert malloc.calls[2:] == [("keep", True)]
    memory.close()


async def test_closing_stops_the_timer_and_may_happen_twice() -> None:
    malloc = RecordedMalloc()
    memory = MessageMemory(malloc, idle_seconds=0)
    memory.used()
    memory.close()
    memory.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert malloc.calls == [("keep", True)]
