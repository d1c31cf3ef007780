"""Who is connected, and one coarse timer for all of their timeouts.

A `call_later` a request would cost more than the rest of its timing. So each connection only notes the roster's `now`,
which moves once a tick, and is asked once a tick whether it has waited too long. An idle server has no timer.
"""

import asyncio
import typing

from naiad.protocol.http.framing import Refusal


class Member(typing.Protocol):
    """A connection, as the roster knows it."""

    def check(self, now: float) -> None:
        """Act if something has been waited for too long. `now` is the loop's time."""
        ...

    def drain(self, *, close_idle: bool) -> None:
        """Close after the reply to what is under way; what is idle now, if `close_idle`."""
        ...

    def give_up(self, refusal: Refusal) -> None:
        """Answer so what has no reply yet, and close."""
        ...

    def cut(self) -> None:
        """Drop the connection and end what runs for it."""
        ...


class Roster:
    """The open connections.

    Args:
        loop: whose time it is.
        tick: seconds between two looks. What was noted as `now` is up to one tick older than the truth: a member
            that waits `timeout + tick` from there has really waited between `timeout` and `timeout + tick`.

    Attributes:
        now: the loop's time at the last look.
        draining: connections made from now on close after their first reply.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, tick: float) -> None:
        self.loop = loop
        self.tick = tick
        self.now = 0.0
        self.draining = False
        self._members: set[Member] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Event = asyncio.Event()
        self._emptied.set()

    def __len__(self) -> int:
        return len(self._members)

    def members(self) -> tuple[Member, ...]:
        """Everybody now connected."""
        return tuple(self._members)

    def enter(self, member: Member) -> None:
        """A connection was made."""
        if self._timer is None:
            self.now = self.loop.time()
            self._timer = self.loop.call_later(self.tick, self._look)
        self._members.add(member)
        self._emptied.clear()

    def leave(self, member: Member) -> None:
        """A connection is gone. Safe when it had left before."""
        self._members.discard(member)
        if not self._members:
            self._emptied.set()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def empty(self) -> None:
        """Wait until nobody is connected."""
        await self._emptied.wait()

    def _look(self) -> None:
        self.now = self.loop.time()
        self._timer = self.loop.call_later(self.tick, self._look)
        for member in tuple(self._members):
            member.check(self.now)
