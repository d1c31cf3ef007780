"""`naiad.Server` in threads that are interrupted, or that the stop overtakes."""

import collections.abc
import concurrent.futures
import os
import pathlib
import signal
import threading

import pytest

import naiad
from tests.server.embed.gate import ONE, OUT, Gate, X
from tests.server.embed.test_functions import Array
from tests.server.embed.test_late_stop import threads
from tests.server.embed.test_process import settled

THREADS = 50


@pytest.fixture
def gate() -> collections.abc.Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


@pytest.fixture
def _interrupts() -> collections.abc.Iterator[None]:
    """SIGINT as in a program in a terminal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def waiting(server: naiad.Server) -> int:
    running = server._running
    return 0 if running is None else len(running.calls._waiting)


@pytest.mark.parametrize("seconds", [600, 0])
def test_threads_that_wait_while_the_server_stops_have_their_answer_or_words(
    seconds: int, gate: Gate
) -> None:
    server = naiad.Server(
        functions=[gate.model(config={"dynamic_batching": {}})], exit_timeout_secs=seconds
    ).start()
    with concurrent.futures.ThreadPoolExecutor(THREADS + 3) as pool:
        calls = [pool.submit(server.infer, "gate", {"x": X * n}) for n in range(THREADS)]
        assert gate.begins()
        assert settled(THREADS, lambda: waiting(server)) == THREADS
        stops = [pool.submit(server.stop) for _ in range(3)]
        if seconds:
            gate.open()
            assert [int(call.result()["y"][0, 0]) for call in calls] == [2 * n for n in range(THREADS)]  # fmt: skip
        else:
            errors = {str(call.exception()) for call in calls}
            assert len(errors) == 1
            assert "the server is not running: it was stopped" in errors.pop()
        for stop in stops:
            stop.result()
    gate.open()
    with pytest.raises(naiad.InferenceError, match="was stopped"):
        server.infer("gate", {"x": X})


@pytest.mark.usefixtures("_interrupts")
def test_an_interrupted_stop_goes_on_and_the_next_one_waits_for_its_end(gate: Gate) -> None:
    server = naiad.Server(functions=[gate.model()], exit_timeout_secs=600).start()
    future = server.submit("gate", {"x": X})
    assert gate.begins()

    def interrupt() -> None:
        assert settled(False, server.ready) is False
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        server.stop()
    thread.join()
    with pytest.raises(RuntimeError, match="runs already"):
        server.start()
    gate.open()
    server.stop()
    assert future.result()["y"].tolist() == [[2]]
    with server:
        assert server.infer("gate", {"x": X})["y"].tolist() == [[2]]


@pytest.mark.usefixtures("_interrupts")
def test_an_interrupted_start_leaves_nothing_and_may_be_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    write = naiad.FunctionModel.write

    def slowly(self: naiad.FunctionModel, folder: pathlib.Path, key: str) -> None:
        begun.set()
        assert go_on.wait(60)
        write(self, folder, key)

    @naiad.model(inputs=[ONE], outputs=[OUT], max_batch_size=8)
    def twice(x: Array) -> Array:
        return x * 2

    with naiad.Server():
        pass  # what stays for as long as the process does
    before = threads()
    monkeypatch.setattr(naiad.FunctionModel, "write", slowly)
    server = naiad.Server(functions=[twice])

    def interrupt() -> None:
        assert begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)
        go_on.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        server.start()
    thread.join()
    assert not server.live()
    assert settled(before, threads) == before
    with server:
        assert server.infer("twice", {"x": X})["y"].tolist() == [[2]]
