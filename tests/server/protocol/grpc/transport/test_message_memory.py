"""The memory of large messages is kept while they come, and given back once none came for a while."""

import asyncio
import threading

from naiad.protocol.grpc.transport.message_memory import MessageMemory, _tune


class Allocator:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.given_back = asyncio.Event()
        self.calls = list[tuple[bool, bool]]()
        """Whether to keep, and whether the call came on the loop's thread."""

    def __call__(self, keep: bool) -> None:  # noqa: FBT001 - as in the product
        self.calls.append((keep, threading.current_thread() is threading.main_thread()))
        if not keep:
            self._loop.call_soon_threadsafe(self.given_back.set)


async def test_it_is_kept_from_the_first_message_until_none_came_for_a_while() -> None:
    allocator = Allocator()
    memory = MessageMemory(allocator, idle_seconds=0)
    memory.used()
    memory.used()
    assert allocator.calls == [(True, True)]
    await allocator.given_back.wait()
    assert allocator.calls == [(True, True), (False, False)]
    memory.used()
    assert allocator.calls[2:] == [(True, True)]
    memory.close()


async def test_closing_stops_the_timer_and_may_happen_twice() -> None:
    allocator = Allocator()
    memory = MessageMemory(allocator, idle_seconds=0)
    memory.used()
    memory.close()
    memory.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert allocator.calls == [(True, True)]


async def test_the_c_library_of_this_machine_takes_both() -> None:
    memory = MessageMemory(idle_seconds=1000)
    memory.used()
    _tune(False)
    memory.close()
