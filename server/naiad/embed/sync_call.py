"""A request for which a thread of the program waits: on an eventfd, which is written and read without the interpreter lock.

A lock wakes the waiting thread while the loop still holds the interpreter lock, so that it sleeps again at once (`hosts.thread_queues` says how long).
"""

import collections.abc
import os
import select
import threading
import time

from naiad.core.inference import Inference
from naiad.core.request import InferRequest
from naiad.core.response import InferResponse
from naiad.embed.async_calls import late
from naiad.embed.calls import STOPPED, Calls, Post
from naiad.embed.requests import Result, result_of
from naiad.errors import unavailable


class Wake:
    """One thread waits, any other one wakes it."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_CLOEXEC)

    def set(self) -> None:
        """Have the thread look again whether what it waits for is there; it is at this moment."""
        os.eventfd_write(self._event, 1)

    def wait(self, is_there: collections.abc.Callable[[], bool], seconds: float | None) -> bool:
        """Wait until something is there; whether it is in that time. An earlier wait that was given up may have left a wake-up behind."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not is_there():
            if deadline is not None:
                left = deadline - time.monotonic()
                if not self._ready(left):
                    return is_there()
            try:
                os.eventfd_read(self._event)
            except InterruptedError:  # by a signal whose handler did not raise
                continue
        return True

    def _ready(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._event, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds * 1000)))

    def __del__(self) -> None:
        os.close(self._event)


class _Own(threading.local):
    """What a thread waits on.

    Attributes:
        wake: None while a call waits on it: code that interrupts the call (a signal's handler, a finalizer) and calls the server as well takes another one.
    """

    def __init__(self) -> None:
        self.wake: Wake | None = Wake()


_OWN = _Own()


def _forget() -> None:
    """In the child of a fork: the parent's thread waits on the same eventfd."""
    _OWN.wake = Wake()


os.register_at_fork(after_in_child=_forget)


def taken_wake() -> Wake:
    """That of the calling thread, until it gives it back."""
    wake, _OWN.wake = _OWN.wake, None
    return wake or Wake()


class SyncCall:
    """A request that has one response, for which a thread waits; a `Caller`."""

    __slots__ = ("_abandoned", "_calls", "_handle", "_request", "_response", "_wake")

    def __init__(self, calls: Calls, request: InferRequest) -> None:
        self._calls = calls
        self._request = request
        self._response: InferResponse | None = None
        self._handle: Inference | None = None
        self._abandoned = False
        self._wake = taken_wake()

    def run(self, post: Post, seconds: float | None) -> Result:
        """Send it and wait for its response; an interrupt of the thread cancels it.

        Raises:
            InferenceError: it failed.
            TimeoutError: the seconds have passed.
        """
        if not post(self._begin):
            # Perhaps the loop took it after all, which changes nothing.
            raise unavailable(STOPPED)
        answered = False
        try:
            answered = self._wake.wait(self._is_answered, seconds)
        finally:
            _OWN.wake = self._wake
            if not answered:
                post(self._cancel)
        response = self._response
        if response is None:
            raise late(self._request, seconds)
        return result_of(response)

    def take(self, response: InferResponse) -> None:
        """See `Caller`."""
        if self._response is None and not self._abandoned:
            self._response = response
            self._handle = None  # which refers to this
            self._calls.end(self)
            self._wake.set()

    def _is_answered(self) -> bool:
        return self._response is not None

    def _begin(self) -> None:
        if not self._abandoned:
            handle = self._calls.begin(self, self._request)
            if self._response is None:
                self._handle = handle

    def _cancel(self) -> None:
        self._abandoned = True
        self._calls.end(self)
        if self._handle is not None:
            self._handle.cancel()
