"""Waiting for what another process or thread does: where real servers and workers run there is no virtual time."""

import collections.abc
import time

_LOOK_AGAIN_S = 0.01


def wait_until(
    condition: collections.abc.Callable[[], bool],
    *,
    seconds: float = 20,
    what: str = "it did not come true in time",
) -> None:
    """Look until something is so.

    Raises:
        AssertionError: it was not within `seconds`; says `what`.
    """
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(_LOOK_AGAIN_S)
