"""The parts of servers without a server process: two in one process, each on an event loop of its own, one of them in a thread."""

import asyncio
import collections.abc
import contextlib
import errno
import gc
import os
import pathlib
import signal
import sys
import threading

import numpy as np
import psutil
import pytest
import uvloop

from naiad.core.clock import SystemClock
from naiad.core.datatypes import BYTES, FP32
from naiad.core.request import LATEST, InferRequest
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.options.parsing import parse
from naiad.repository.lifecycle import State
from naiad.repository.stores.process import StoreProcess
from naiad.serve.assembly import Assembly, AssemblyError, assembled
from naiad.serve.console import LoadingLines
from tests.wire import repository

GIVE_UP_S = 60

TENSORS = {
    "add": Tensor("x", FP32, (1, 4), np.ones((1, 4), np.float32)),
    "text": Tensor("TEXT", BYTES, (1, 1), np.array([[b"one"]], dtype=object)),
}
ANSWERS = {"add": [[2.0] * 4], "text": [[b"ONE"]]}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return repository.make(tmp_path_factory.mktemp("models"))


def processes() -> set[int]:
    """The processes that this one has started."""
    return {child.pid for child in psutil.Process().children()}


def settings() -> tuple[object, ...]:
    """What belongs to the process."""
    handlers = tuple(signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT))
    return (*handlers, gc.isenabled(), gc.get_threshold(), sys.getswitchinterval(), {**os.environ})


def threads() -> set[str]:
    """The threads of this process, but for the one that starts workers for as long as the process lives."""
    return {
        each.name for each in threading.enumerate() if not each.name.startswith("naiad-launcher")
    }


def parts(models: pathlib.Path, *options: str) -> contextlib.AbstractAsyncContextManager[Assembly]:
    return assembled(
        parse([f"--model-repository={models}", *options]),
        stores=StoreProcess(directory="", limit=0, environ={}),
        progress=LoadingLines(None),
        environ={},
        clock=SystemClock(),
    )


async def answer(assembly: Assembly, model: str) -> object:
    response: asyncio.Future[InferResponse] = asyncio.get_running_loop().create_future()
    request = InferRequest(model, LATEST, "", [TENSORS[model]], [], NO_PARAMETERS)
    assembly.engine.infer(request, response.set_result)
    outputs = (await asyncio.wait_for(response, GIVE_UP_S)).outputs
    return outputs[0].array.tolist()


async def served(models: pathlib.Path, meet: collections.abc.Callable[[], object]) -> list[object]:
    """Load all models, answer one request each while the other server is up, and stop."""
    async with parts(models) as assembly:
        assert await assembly.repository.load_all(None)
        await asyncio.to_thread(meet)
        answers = [await answer(assembly, model) for model in TENSORS]
        await asyncio.to_thread(meet)
    assert {state.state for state in assembly.states()} == {State.UNAVAILABLE}
    return answers


def test_two_run_in_one_process_one_of_them_in_a_thread(models: pathlib.Path) -> None:
    before, its_threads, children = settings(), threads(), processes()
    barrier = threading.Barrier(2, timeout=GIVE_UP_S)
    results: dict[str, list[object]] = {}

    def in_thread() -> None:
        results["thread"] = uvloop.run(served(models, barrier.wait))

    thread = threading.Thread(target=in_thread)
    thread.start()
    results["main"] = asyncio.run(served(models, barrier.wait))
    thread.join(GIVE_UP_S)
    assert results == {name: list(ANSWERS.values()) for name in ("main", "thread")}
    assert processes() <= children
    assert threads() <= its_threads
    assert settings() == before


def test_the_models_are_unloaded_also_after_an_error(models: pathlib.Path) -> None:
    children = processes()

    async def fail() -> None:
        async with parts(models) as assembly:
            await assembly.repository.load_all(None)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail())
    assert processes() <= children


def test_an_owner_that_interrupts_it_unloads_by_itself(models: pathlib.Path) -> None:
    async def stop() -> int:
        async with parts(models) as assembly:
            await assembly.repository.load_all(None)
            await assembly.interrupt()
            left = len(assembly.repository.served())
            await assembly.unload()
        return left

    assert asyncio.run(stop()) == 3


def test_an_option_that_cannot_be_used_closes_what_was_built(
    models: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(StoreProcess, "close", lambda _: closed.append("stores"))

    def full(name: str) -> None:
        raise OSError(errno.ENOSPC, f"no space for {name}")

    monkeypatch.setattr("naiad.serve.shared_requirements.TemporaryFolder", full)

    async def build() -> None:
        async with parts(models, "--python-requirement=numpy"):
            pass

    with pytest.raises(AssemblyError, match=r"--python-requirement: .*no space.* set TMPDIR"):
        asyncio.run(build())
    assert closed == ["stores"]
