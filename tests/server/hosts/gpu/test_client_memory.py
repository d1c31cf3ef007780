"""The process that opens clients' memory on GPUs, as the server sees it: every way in which a call ends. The GPUs are made up."""

import asyncio
import collections.abc
import gc
import os
import signal

import numpy as np
import pytest
import pytest_asyncio

from naiad.core.cuda_regions import Opened
from naiad.core.processes import child_process
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.cuda_regions import memory as module
from naiad.hosts.cuda_regions.memory import CudaMemory
from naiad.hosts.link.notification_segments import TRAILER
from tests.support import cuda
from tests.support.cuda.client_memory import Allocation
from tests.support.waiting import wait_until

X = np.arange(64, dtype=np.uint8)


@pytest.fixture
def client() -> collections.abc.Iterator[Allocation]:
    found = Allocation(168)
    found.put(X)
    yield found
    found.free()


@pytest_asyncio.fixture
async def memory(
    client: Allocation, monkeypatch: pytest.MonkeyPatch
) -> collections.abc.AsyncIterator[CudaMemory]:
    # After the client, whose library is not that of this process any more.
    for name, value in cuda.state_of_this_process().environment.items():
        monkeypatch.setenv(name, value)
    found = CudaMemory(asyncio.get_running_loop())
    yield found
    await found.close()


async def opened(memory: CudaMemory, client: Allocation) -> Opened:
    return await asyncio.to_thread(memory.open, "r", client.handle, 0, 64)


def pid(memory: CudaMemory) -> int:
    assert memory._process is not None
    return memory._process.pid


async def test_it_is_read_and_written_and_closed_with_its_last_use(
    memory: CudaMemory, client: Allocation
) -> None:
    found = await opened(memory, client)
    again = await opened(memory, client)
    assert (found.device, found.owner, found.lease) == (0, again.owner, again.lease)
    assert (await asyncio.to_thread(memory.read, found, 8, 56) == X[8:]).all()
    await asyncio.to_thread(memory.write, found, 64, X)
    assert (client.get(np.uint8, [64], 64) == X).all()
    del found
    gc.collect()
    assert (await asyncio.to_thread(memory.read, again, 64, 64) == X).all()
    del again
    gc.collect()
    await asyncio.to_thread(
        wait_until, lambda: 168 not in cuda.state_of_this_process().live(cuda.OPENED)
    )


async def test_a_process_that_does_not_answer_is_killed_and_started_again(
    memory: CudaMemory, client: Allocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await opened(memory, client)
    first = pid(memory)
    os.kill(first, signal.SIGSTOP)
    with monkeypatch.context() as short:
        short.setattr(module, "_SECONDS", 0.05)
        with pytest.raises(InferenceError, match=r"did not answer for 0\.05 s") as caught:
            await asyncio.to_thread(memory.read, found, 0, 64)
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert (await asyncio.to_thread(memory.read, found, 0, 64) == X).all()
    assert pid(memory) != first


async def test_a_call_fails_with_its_process(memory: CudaMemory, client: Allocation) -> None:
    found = await opened(memory, client)
    os.kill(pid(memory), signal.SIGSTOP)
    reading = asyncio.create_task(asyncio.to_thread(memory.read, found, 0, 64))
    await asyncio.to_thread(wait_until, memory._calls.empty)
    os.kill(pid(memory), signal.SIGKILL)
    try:
        assert (await reading == X).all()  # it was killed before it had the call
    except InferenceError as error:
        assert "was ended by SIGKILL while it had this request" in error.message  # noqa: PT017 - either way
    assert (await asyncio.to_thread(memory.read, found, 0, 64) == X).all()


async def test_calls_end_with_the_server(memory: CudaMemory, client: Allocation) -> None:
    found = await opened(memory, client)
    await memory.close()
    await memory.close()
    with pytest.raises(InferenceError, match="shutting down"):
        await asyncio.to_thread(memory.read, found, 0, 64)
    assert memory._process is None


async def test_a_process_that_cannot_be_started_fails_the_call(
    memory: CudaMemory, client: Allocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_arguments: object) -> None:
        raise OSError(11, "no more processes")

    with monkeypatch.context() as short:
        short.setattr(child_process, "start", start)
        with pytest.raises(InferenceError, match=r"cannot be started: .*no more processes"):
            await opened(memory, client)
    await opened(memory, client)


async def test_without_the_runtime_library_nothing_is_registered(
    memory: CudaMemory, client: Allocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAIAD_CUDART", "/no/such/file")
    with pytest.raises(InferenceError, match="libcudart"):
        await opened(memory, client)


async def test_shared_memory_that_is_copied_from_again_and_again_is_pinned(
    memory: CudaMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ends know the segment by its size: a power of two and a trailer."""
    values = np.arange((1 << 17) - 256, dtype=np.uint8)  # and a header
    large = Allocation(values.nbytes)
    state = cuda.state_of_this_process()
    for name, value in state.environment.items():
        monkeypatch.setenv(name, value)
    pinned = (1 << 17) + TRAILER
    try:
        found = await asyncio.to_thread(memory.open, "r", large.handle, 0, values.nbytes)
        for _ in range(2):
            await asyncio.to_thread(memory.write, found, 0, values)
        assert pinned not in state.live(cuda.REGISTERED)
        for number in range(5):
            await asyncio.to_thread(memory.write, found, 0, values + number)
            assert (large.get(np.uint8, [values.nbytes]) == values + number).all()
        assert pinned in state.live(cuda.REGISTERED)
    finally:
        large.free()
