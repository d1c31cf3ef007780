"""Waits until a scheduler that accepts no more requests has finished all that it owns, and gives up those that may never end."""

import asyncio
import collections.abc
import contextlib

from naiad.core.inference import Inference
from naiad.errors import ErrorCode, FailureReason

UNLOAD_GRACE_S = 30.0
"""How long a model that is being unloaded may take to finish requests whose clients have all gone, including a batch that hangs."""

UNLOAD_LIMIT_S = 3600.0
"""How long it may take for other requests. A client that still waits then gets an error."""

Abort = collections.abc.Callable[[str, ErrorCode, FailureReason], None]


async def drain(
    drained: asyncio.Event,
    *,
    abandoned: collections.abc.Callable[[], set[Inference]],
    abort: Abort,
) -> None:
    """Wait for the end of all requests.

    Args:
        drained: set once there is none left.
        abandoned: all requests that are left, if no client waits for any of them; else none.
        abort: fails all that are left: why, and the code and reason of their error. It sets `drained`.
    """
    now = asyncio.get_running_loop().time
    last = now() + UNLOAD_LIMIT_S
    while not drained.is_set():
        before = abandoned()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(drained.wait(), UNLOAD_GRACE_S)
            return
        still = abandoned()
        if still and still <= before:
            why = f"every client has gone for more than {UNLOAD_GRACE_S:g} s"
            abort(why, ErrorCode.CANCELLED, FailureReason.CANCELED)
        elif now() >= last:
            why = f"they did not end in {UNLOAD_LIMIT_S:g} s"
            abort(why, ErrorCode.UNAVAILABLE, FailureReason.BACKEND)
