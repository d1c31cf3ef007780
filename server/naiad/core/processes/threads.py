"""Starts threads so that the event loop does not wait until they run: on a busy machine it stood still for 200 ms.

`Thread.start` waits until the new thread runs. So does an executor, which starts a thread when work comes, in the thread that submits it: its threads are
started before they are needed.
"""

import _thread
import collections.abc
import concurrent.futures
import threading

from typing_extensions import override

from naiad.core.processes.inherited import be_free


def start_aside(
    thread: threading.Thread, failed: collections.abc.Callable[[RuntimeError], None] | None = None
) -> None:
    """Start a thread, and do not wait until it runs.

    Args:
        thread: not started.
        failed: called, in another thread, if the system has no room for it after all.

    Raises:
        RuntimeError: the system has no room for a thread.
    """
    _thread.start_new_thread(_start, (thread, failed))


def _start(
    thread: threading.Thread, failed: collections.abc.Callable[[RuntimeError], None] | None
) -> None:
    be_free()
    try:
        thread.start()
    except RuntimeError as error:
        if failed is not None:
            failed(error)


def start_all(executor: concurrent.futures.ThreadPoolExecutor, count: int) -> None:
    """Start so many threads of an executor that has none yet; it returns once they run.

    Args:
        executor: idle.
        count: how many, at most its own number.
    """
    begun, together = threading.Semaphore(0), threading.Event()

    def wait() -> None:
        begun.release()
        together.wait()

    for _ in range(count):
        executor.submit(wait)
    for _ in range(count):
        begun.acquire()
    together.set()


class UnwaitedExecutor(concurrent.futures.ThreadPoolExecutor):
    """The event loop's threads for blocking work. Its shutdown returns at once: a call that hangs, in a driver, must not keep the loop open."""

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)
