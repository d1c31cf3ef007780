"""The steps of a command, each printed with its seconds since the command began."""

import time
from collections.abc import Callable


def printer() -> Callable[[str], None]:
    """What prints a step; the time counts from this call."""
    started = time.monotonic()

    def step(message: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {message}", flush=True)

    return step
