"""`asyncio.timeout`, right also in a task that was cancelled before.

Python's own had a fault until 3.11.4 (gh-102780; Debian 12 has 3.11.2): in a task with a cancel that nothing took back, such as one that cleans up or one in which a
task group failed, it raised CancelledError where its time was over.
"""

import asyncio
import collections.abc
import contextlib


@contextlib.asynccontextmanager
async def timeout(seconds: float | None) -> collections.abc.AsyncIterator[asyncio.Timeout]:
    """Cancel what is within the `async with` after this time, if any, and raise TimeoutError there.

    Raises:
        TimeoutError: the time was over.
    """
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    before = task.cancelling()
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield limit
    except asyncio.CancelledError as error:
        if limit.expired() and task.cancelling() <= before:
            raise TimeoutError from error
        raise
