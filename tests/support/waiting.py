"""Waiting for what another process or thread does: where real servers and workers run there is no virtual time."""

import asyncio
import collections.abc
import time

PAUSE_S = 0.01
"""Between two requests of a client that asks all the time: as fast as it can, it would mostly take the processor from what is to happen meanwhile."""

TIMEOUT_S = 60.0
"""How long what comes at once may take: a busy machine takes twenty times as long for everything."""

_LOOK_AGAIN_S = 0.01
_LONGEST_PAUSE_S = 0.05
_TRIES = 6


def pause(waited_s: float, look_s: float, *, shortest_s: float, longest_s: float = 0.3) -> float:
    """How long to pause before the next look, in seconds.

    What has not come soon is looked for less often: the pauses are an eighth of the wait so far, between `shortest_s` and `longest_s`. A look that
    asks a server takes its time from what is waited for, so at most a quarter of the time goes into looking.

    Args:
        waited_s: since the first look began.
        look_s: how long the last look took.
        shortest_s: the first pause.
        longest_s: the longest one, but for looks that take long.
    """
    return max(min(max(shortest_s, waited_s / 8), longest_s), 3 * look_s)


def wait_until(
    condition: collections.abc.Callable[[], bool],
    *,
    seconds: float = TIMEOUT_S,
    what: str = "it did not come true in time",
) -> None:
    """Look until something is so.

    Raises:
        AssertionError: it was not within `seconds`; says `what`.
    """
    began = looked = time.monotonic()
    while not condition():
        now = time.monotonic()
        assert now < began + seconds, what
        waited, look = now - began, now - looked
        time.sleep(pause(waited, look, shortest_s=_LOOK_AGAIN_S, longest_s=_LONGEST_PAUSE_S))
        looked = time.monotonic()


async def until(
    condition: collections.abc.Callable[[], object],
    *,
    seconds: float = TIMEOUT_S,
    what: str = "it did not come true in time",
) -> None:
    """The same in a coroutine, while the event loop runs on.

    Raises:
        AssertionError: it was not within `seconds`; says `what`.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(_LOOK_AGAIN_S)


def within(seconds: float, attempt: collections.abc.Callable[[], float]) -> bool:
    """Whether something takes less than so many seconds, as is promised of it, at one of a few attempts.

    A busy machine makes once slow what is quick; what is slow by itself is slow each time.

    Args:
        seconds: the promise.
        attempt: does it once, and gives back how long that took.
    """
    return any(attempt() < seconds for _ in range(_TRIES))
