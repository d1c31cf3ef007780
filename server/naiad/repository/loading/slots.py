"""Bounds the models that are read or loaded at the same time (`--model-load-thread-count`, row 7.32)."""

import asyncio
import collections.abc
import contextlib


class LoadSlots(asyncio.Semaphore):
    """One slot per load. A load holds its slot while it works, and not while it waits for another load, which may need that slot."""

    @contextlib.asynccontextmanager
    async def released(self) -> collections.abc.AsyncIterator[None]:
        """Release the slot of the caller for the duration of a wait."""
        self.release()
        try:
            yield
        finally:
            await self.acquire()
