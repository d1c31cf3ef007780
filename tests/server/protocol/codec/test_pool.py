import asyncio
import collections.abc
import concurrent.futures
import contextlib
import functools
import operator
import os
import resource
import signal
import socket
import threading
import typing

import pytest
from typing_extensions import override

from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.codec import process
from naiad.protocol.codec.pool import Codec
from naiad.protocol.codec.process import CodecBugError, CodecProcess
from naiad.protocol.http.codec import json_document


@pytest.fixture
def codec() -> collections.abc.Iterator[Codec]:
    made = Codec(processes=1)
    yield made
    made.close()


def refused(call: collections.abc.Callable[[], typing.Any]) -> InferenceError:
    with pytest.raises(InferenceError) as caught:
        call()
    return caught.value


def test_functions_are_called_in_one_process_that_is_not_this_one(codec: Codec) -> None:
    first, second = codec.call(os.getpid), codec.call(os.getpid)
    assert first == second != os.getpid()


def test_what_a_function_refuses_is_refused_here(codec: Codec) -> None:
    error = refused(lambda: codec.call(json_document.parse, b"{"))
    assert error.code is ErrorCode.INTERNAL
    assert "failed to parse the request JSON buffer" in error.message


def test_a_bug_there_is_a_bug_here_and_costs_no_process(codec: Codec) -> None:
    pid = codec.call(os.getpid)
    with pytest.raises(CodecBugError, match="ZeroDivisionError"):
        codec.call(operator.truediv, 1, 0)
    assert codec.call(os.getpid) == pid


def test_a_body_that_takes_too_much_memory_is_refused_and_costs_no_process(codec: Codec) -> None:
    pid = codec.call(os.getpid)
    error = refused(lambda: codec.call(operator.mul, b"12345678", 1 << 40))
    assert error.code is ErrorCode.INVALID_ARG
    assert "memory" in error.message
    assert codec.call(os.getpid) == pid


@pytest.mark.slow
def test_a_process_that_dies_fails_its_call_and_is_replaced(codec: Codec) -> None:
    pid = codec.call(os.getpid)
    error = refused(lambda: codec.call(os._exit, 3))
    assert error.code is ErrorCode.UNAVAILABLE
    assert "exited with status 3" in error.message
    assert codec.call(os.getpid) != pid


@contextlib.contextmanager
def without_descriptors() -> collections.abc.Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))  # poll() fails under 0
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_no_descriptor_for_the_arguments_is_said_and_costs_no_process(codec: Codec) -> None:
    pid = codec.call(os.getpid)
    with without_descriptors():
        error = refused(lambda: codec.call(os.getpid))
    assert error.code is ErrorCode.UNAVAILABLE
    assert "ulimit -n" in error.message
    assert codec.call(os.getpid) == pid


def test_no_descriptor_for_the_process_is_said(codec: Codec) -> None:
    with without_descriptors():
        error = refused(lambda: codec.call(os.getpid))
    assert "ulimit -n" in error.message


def test_no_descriptor_for_the_result_is_said_and_costs_no_process(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = codec.call(os.getpid)
    send_fds = socket.send_fds
    with contextlib.ExitStack() as undo, monkeypatch.context() as scarce:

        def send(*message: typing.Any) -> None:
            send_fds(*message)
            undo.enter_context(without_descriptors())

        scarce.setattr(socket, "send_fds", send)
        error = refused(lambda: codec.call(os.getpid))
    assert error.code is ErrorCode.UNAVAILABLE
    assert "ulimit -n" in error.message
    assert codec.call(os.getpid) == pid


def test_a_process_that_died_while_idle_costs_no_call(codec: Codec) -> None:
    pid = codec.call(os.getpid)
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert codec.call(os.getpid) != pid


def test_a_call_that_takes_too_long_ends_with_its_process(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec.call(os.getpid)
    monkeypatch.setattr(process, "_SECONDS", 0.01)
    error = refused(lambda: codec.call(signal.pause))
    assert error.code is ErrorCode.UNAVAILABLE
    assert "took longer than" in error.message
    monkeypatch.undo()
    assert codec.call(operator.add, 1, 2) == 3


def test_closing_fails_the_call_in_progress_and_every_later_one() -> None:
    codec = Codec(processes=1)
    pid = codec.call(os.getpid)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        call = pool.submit(codec.call, signal.pause)
        while not codec._busy:
            threading.Event().wait(0.001)
        codec.close()
        assert refused(call.result).code is ErrorCode.UNAVAILABLE
    assert refused(lambda: codec.call(os.getpid)).code is ErrorCode.UNAVAILABLE
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_closing_fails_a_call_whose_process_is_being_started() -> None:
    def start() -> CodecProcess:
        process = CodecProcess()
        closing.close()
        return process

    closing = Codec(processes=1, start=start)
    assert refused(lambda: closing.call(os.getpid)).code is ErrorCode.UNAVAILABLE


def test_closing_twice_does_nothing() -> None:
    codec = Codec()
    codec.close()
    codec.close()


class _Scripted(CodecProcess):
    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @override
    def call(self, function: typing.Any, *arguments: typing.Any) -> typing.Any:
        return function(*arguments)

    @override
    def is_alive(self) -> bool:
        return True

    @override
    def close(self) -> None:
        self._loop.call_soon_threadsafe(self.closed.set)


async def test_processes_that_have_nothing_to_do_are_ended_and_started_again() -> None:
    made = [_Scripted(), _Scripted()]
    unused = iter(made)
    codec = Codec(processes=1, idle_seconds=0.001, start=lambda: next(unused))
    for each in made:
        assert await codec.submit(functools.partial(codec.call, operator.add, 1, 2)) == 3
        await each.closed.wait()
    codec.close()
