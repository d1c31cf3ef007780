"""Asks an instance whether it is ready: one question at a time, whose answer everybody gets who asks meanwhile."""

import asyncio
import collections.abc

READY_TIMEOUT_S = 5.0
"""How long an instance may take to say whether it is ready (row 2.12)."""


class Probe:
    """Of one instance. All of it is on the event loop.

    Args:
        loop: whose futures it makes.
    """

    __slots__ = ("_answer", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answer: asyncio.Future[bool] | None = None

    async def ask(self, begin: collections.abc.Callable[[], None]) -> bool:
        """The answer to a question; no answer within `READY_TIMEOUT_S` means no.

        Args:
            begin: asks, unless a question is under way.
        """
        answer = self._answer
        if answer is None or answer.done():
            answer = self._answer = self._loop.create_future()
            begin()
        done, _ = await asyncio.wait({answer}, timeout=READY_TIMEOUT_S)
        return bool(done) and answer.result()

    def answer(self, ready: bool) -> None:  # noqa: FBT001  the answer itself
        """The answer came, or none will."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(ready)
