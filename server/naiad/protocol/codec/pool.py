"""The codec processes: what decodes and encodes large messages, so that the event loop and its interpreter lock stay free.

The JSON parser, protobuf and everything else that makes millions of objects holds the interpreter for seconds when it reads 64 MB; a thread
would not help. Processes are started when the first large message comes, and ended when none has come for a while. One
thread per process waits for it; what waits for a thread waits in the executor's queue.
"""

import asyncio
import collections.abc
import concurrent.futures
import contextlib
import os
import threading
import typing

from naiad.core.processes.threads import start_all
from naiad.errors import unavailable
from naiad.protocol.codec.frames import Function
from naiad.protocol.codec.process import CodecProcess, shortage
from naiad.protocol.idle_timer import IdleTimer

CODEC_BYTES = 1 << 18
"""Bytes of JSON, or of protobuf that is not raw tensors, from which a message goes to a codec process: less takes 10 ms at most."""

_MOST_PROCESSES = 4
_IDLE_S = 60.0

Result = typing.TypeVar("Result")


class Codec:
    """The processes, and the threads that wait for them.

    Args:
        processes: how many there may be at a time.
        idle_seconds: how long one that has nothing to do is kept.

    Attributes:
        executor: where `call` is to run.
    """

    def __init__(
        self,
        *,
        processes: int = 0,
        idle_seconds: float = _IDLE_S,
        start: collections.abc.Callable[[], CodecProcess] = CodecProcess,
    ) -> None:
        most = processes or min(_MOST_PROCESSES, len(os.sched_getaffinity(0)))
        self.executor = concurrent.futures.ThreadPoolExecutor(most, "naiad-codec")
        start_all(self.executor, most)
        self._start = start
        self._timer = IdleTimer(idle_seconds, self._end_idle)
        self._pending = 0  # work that was submitted and has not ended
        self._lock = threading.Lock()
        self._idle: list[CodecProcess] = []
        self._busy: set[CodecProcess] = set()
        self._closed = False

    def submit(self, work: collections.abc.Callable[[], Result]) -> "asyncio.Future[Result]":
        """Run something that uses `call` on a thread; on the loop."""
        self._timer.used()
        self._pending += 1
        future = asyncio.get_running_loop().run_in_executor(self.executor, work)
        future.add_done_callback(self._ended)
        return future

    def call(self, function: Function, *arguments: typing.Any) -> typing.Any:
        """Call a function in a process; blocking. Arguments and errors as of `CodecProcess.call`."""
        process = self._take()
        try:
            return process.call(function, *arguments)
        finally:
            self._give_back(process)

    def close(self) -> None:
        """End all processes; calls in progress fail. Idempotent."""
        self._timer.close()
        with self._lock:
            self._closed = True
            for process in self._busy:
                process.kill()
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()
        self.executor.shutdown(wait=False, cancel_futures=True)

    def _take(self) -> CodecProcess:
        with self._lock:
            if self._closed:
                raise unavailable("the server is shutting down; send the message to another one")
            # The one that was used last: the others get old.
            process = self._idle.pop() if self._idle else None
        if process is not None and not process.is_alive():
            process.close()
            process = None
        if process is None:
            try:
                process = self._start()
            except OSError as error:
                raise shortage(error) from error
        self._use(process)
        return process

    def _use(self, process: CodecProcess) -> None:
        with self._lock:
            self._busy.add(process)
            if self._closed:  # while it was started
                process.kill()

    def _give_back(self, process: CodecProcess) -> None:
        with self._lock:
            self._busy.discard(process)
            if not self._closed and process.is_alive():
                self._idle.append(process)
                return
        process.close()

    def _ended(self, work: "asyncio.Future[typing.Any]") -> None:
        self._pending -= 1

    def _end_idle(self) -> bool:
        """End the processes, unless one of them is used; on the loop."""
        with self._lock:
            if self._pending or self._busy:  # a call goes on when its future was cancelled
                return False
            idle, self._idle = self._idle, []
        if idle:
            with contextlib.suppress(RuntimeError):  # the executor is shut
                self.executor.submit(_close, idle)
        return True


def _close(idle: list[CodecProcess]) -> None:
    for process in idle:
        process.close()
