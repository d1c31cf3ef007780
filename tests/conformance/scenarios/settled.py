"""Counters of a server once they rest: Triton counts a request after it has answered it."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SECONDS = 5
_PAUSE_S = 0.05


def settled(observe: Callable[[], T], last: T) -> T:
    """What is observed once it differs from the last state and twice in a row is the same; whatever it is after five seconds."""
    before, now = last, observe()
    end = time.monotonic() + _SECONDS
    while (now == last or now != before) and time.monotonic() < end:
        time.sleep(_PAUSE_S)
        before, now = now, observe()
    return now
