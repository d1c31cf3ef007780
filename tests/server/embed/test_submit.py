"""`Server.submit`: a future of the result; what cancels it, what it fails with, and what becomes of it at a stop. And the wake-up of threads that wait."""

import asyncio
import concurrent.futures
import gc
import os
import pathlib
import signal
import threading
import weakref

import pytest

import naiad
from tests.server.embed.conftest import some
from tests.server.embed.test_server import X, appears, text
from tests.support.waiting import wait_until


def test_many_requests_of_one_thread_are_in_progress_together(server: naiad.Server) -> None:
    futures = [server.submit("add", {"x": X * n}, request_id=str(n)) for n in range(1, 65)]
    done, waiting = concurrent.futures.wait(futures, timeout=60)
    assert (len(done), len(waiting)) == (64, 0)
    assert [one.result()["y"][0, 0] for one in futures] == [2 * n for n in range(1, 65)]
    assert [one.result().id for one in futures][:2] == ["1", "2"]
    result = futures[0].result()
    assert result is futures[0].result(), "it is made once"
    assert result["y"].base is None
    assert result["y"].flags.writeable, "it is the caller's"


def test_a_request_that_fails_is_the_futures_exception(server: naiad.Server) -> None:
    future = server.submit("add", {"z": X})
    error = future.exception(timeout=60)
    assert isinstance(error, naiad.InferenceError)
    assert error.code is naiad.ErrorCode.INVALID_ARG
    with pytest.raises(naiad.InferenceError, match="unexpected inference input 'z'"):
        future.result()
    assert not future.cancel(), "it has ended"
    with pytest.raises(TypeError):
        server.submit("add", {"x": X}, nonsense=1)  # type: ignore[call-arg] # that is the test


def test_cancelling_a_future_cancels_its_request(
    server: naiad.Server, tmp_path: pathlib.Path
) -> None:
    gate = tmp_path / "gate"
    future = server.submit("waits", {"GATE": text(gate)})
    with pytest.raises(TimeoutError):
        future.result(timeout=0.01)
    assert appears(gate.with_suffix(".begun")), "the time to wait does not end it"
    assert future.cancel()
    assert future.cancel(), "it is cancelled"
    assert appears(gate.with_suffix(".cancelled"))
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(timeout=60)


def test_a_wait_for_several_futures_ends_with_one_that_was_cancelled(
    server: naiad.Server, tmp_path: pathlib.Path
) -> None:
    inputs = {"GATE": text(tmp_path / "gate")}
    early, late = server.submit("waits", inputs), server.submit("waits", inputs)
    threading.Timer(0.2, late.cancel).start()
    assert early.cancel()
    found = concurrent.futures.wait([early, late], timeout=60)
    assert (len(found.done), len(found.not_done)) == (2, 0)
    assert {one.cancelled() for one in concurrent.futures.as_completed([early, late], 60)} == {True}


def test_a_future_that_is_dropped_frees_its_result_without_the_garbage_collector(
    server: naiad.Server,
) -> None:
    gc.collect()
    gc.disable()
    try:
        future = server.submit("add", {"x": X})
        freed = weakref.ref(future.result()["y"])
        del future
        wait_until(lambda: freed() is None)  # the loop may be in the call yet
    finally:
        gc.enable()


def test_a_handler_that_calls_the_server_does_not_take_the_wake_up_of_the_call_that_it_interrupts(
    server: naiad.Server, tmp_path: pathlib.Path
) -> None:
    gate = tmp_path / "gate"
    results: list[float] = []

    def ask(_signal: int, _frame: object) -> None:
        gate.touch()  # ends the outer call, perhaps while the inner one waits
        results.extend(server.infer("add", {"x": X})["y"][0, 0] for _ in range(20))

    def interrupt() -> None:
        appears(gate.with_suffix(".begun"))
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, ask)
    try:
        thread = threading.Thread(target=interrupt)
        thread.start()
        server.infer("waits", {"GATE": text(gate)})  # for ever, had it lost its wake-up
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert results == [2] * 20


def test_callbacks_and_tasks_get_the_result(server: naiad.Server) -> None:
    seen: concurrent.futures.Future[float] = concurrent.futures.Future()
    server.submit("add", {"x": X}).add_done_callback(
        lambda one: seen.set_result(float(one.result()["y"][0, 0]))
    )
    assert seen.result(timeout=60) == 2

    async def ask() -> float:
        result = await asyncio.wrap_future(server.submit("add", {"x": X}))
        return float(result["y"][0, 0])

    assert asyncio.run(ask()) == 2


def test_a_stop_ends_the_futures(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    gate = tmp_path / "gate"
    with naiad.Server(
        models, model_control_mode="explicit", load_model="waits", exit_timeout_secs=1
    ) as server:
        future = server.submit("waits", {"GATE": text(gate)})
        assert appears(gate.with_suffix(".begun"))
    error = future.exception(timeout=60)
    assert isinstance(error, naiad.InferenceError)
    assert error.code is naiad.ErrorCode.UNAVAILABLE
    with pytest.raises(naiad.InferenceError, match="not running"):
        server.submit("waits", {"GATE": text(gate)})


def test_a_wait_that_was_given_up_does_not_end_the_next_one(
    server: naiad.Server, tmp_path: pathlib.Path
) -> None:
    """The cancelled request's response wakes the thread that already waits for another one."""
    inputs = {"GATE": text(tmp_path / "gate")}
    for _ in range(20):
        with pytest.raises(TimeoutError):
            server.infer("waits", inputs, timeout=0.001)
        assert server.infer("add", {"x": X}, timeout=60)["y"][0, 0] == 2
        assert server.infer("add", {"x": X})["y"][0, 0] == 2


def descriptors() -> int:
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def test_threads_that_come_and_go_leave_no_descriptor(models: pathlib.Path) -> None:
    def ask(server: naiad.Server) -> None:
        threads = [threading.Thread(target=server.infer, args=("add", {"x": X})) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with some(models, "add") as server:
        ask(server)
        before = descriptors()
        for _ in range(3):
            ask(server)
        # The loop's thread drops the last call a moment after the call's own thread has the result.
        wait_until(lambda: descriptors() <= before)


def test_the_child_of_a_fork_waits_on_its_own(models: pathlib.Path) -> None:
    """What wakes the parent's thread must not be read by the child's, which would leave it waiting."""
    with some(models, "add") as server:
        server.infer("add", {"x": X})
        child = os.fork()
        if not child:
            status = 1
            try:
                with some(models, "add") as own:
                    right = all(own.infer("add", {"x": X})["y"][0, 0] == 2 for _ in range(50))
                status = 0 if right else 1
            finally:
                os._exit(status)
        for _ in range(50):
            assert server.infer("add", {"x": X})["y"][0, 0] == 2
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
