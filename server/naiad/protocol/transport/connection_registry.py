"""The open connections, and one coarse timer for all of their timeouts.

One `call_later` per request would cost more than the rest of its timing. So each connection only notes the registry's `now`,
which is updated once per tick, and checks its timeouts once per tick. A server without connections has no timer from the next tick on,
once their memory was given back. Connections whose client sends nothing are idle (`idle_reader.py`): with none but these, no client is there.
"""

import asyncio
import collections.abc
import typing
import weakref

from naiad.protocol.transport.disposal import Disposal
from naiad.protocol.transport.frontend import unheard
from naiad.protocol.transport.idle_reader import IdleReader
from naiad.tensors.shared_pool import SharedPool


class RegisteredConnection(typing.Protocol):
    """A connection, as the registry uses it."""

    def check(self, now: float) -> None:
        """Apply the timeouts. `now` is the loop's time."""

    def drain(self, *, close_idle: bool) -> None:
        """Close after the replies to the requests in progress; if idle, close now if `close_idle`."""

    def give_up(self) -> None:
        """Send `UNANSWERED` to every request without a response, and close."""

    def cut(self) -> None:
        """Abort the connection and cancel its requests."""


class ConnectionRegistry:
    """The open connections.

    Args:
        tick: seconds between two checks. `now` is up to one tick old: a connection that waits `timeout + tick` from there has
            really waited between `timeout` and `timeout + tick`.

    Attributes:
        now: the loop's time at the last tick.
        arrivals: how many connections were made until now, and how many idle ones went on.
        draining: connections made from now on close after their first reply.
        disposal: frees what connections leave behind.
        memory: shared memory for the large messages of connections.
        on_arrival: called with each of these, see `Frontend.announce`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, tick: float) -> None:
        self.loop = loop
        self.tick = tick
        self.now = 0.0
        self.arrivals = 0
        self.draining = False
        self._begun = 0
        self.on_arrival: collections.abc.Callable[[], None] = unheard
        self.disposal = Disposal(loop)
        self.memory = SharedPool()
        self._connections: set[RegisteredConnection] = set()
        self._idle: set[object] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._expected: weakref.WeakKeyDictionary[object, float] = weakref.WeakKeyDictionary()
        self._emptied: asyncio.Event = asyncio.Event()
        self._emptied.set()

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def awake(self) -> int:
        """How many connections are not idle."""
        return len(self._connections) - len(self._idle)

    @property
    def accepted(self) -> int:
        """Grows with each client that was accepted, those included whose connections are still to be secured, and as a connection that was idle wakes."""
        return self.arrivals + self._begun

    def connections(self) -> tuple[RegisteredConnection, ...]:
        """The connections that are open now."""
        return tuple(self._connections)

    def expect(self, connection: asyncio.Protocol) -> None:
        """A connection was accepted that will be added once it is secured, if its client goes on."""
        self._begun += 1
        self._expected[connection] = self.loop.time()

    def expects(self, seconds: float) -> bool:
        """Whether one is still to be added that was accepted in the last `seconds`."""
        since = self.loop.time() - seconds
        return any(accepted > since for accepted in tuple(self._expected.values()))

    def add(self, connection: RegisteredConnection) -> None:
        """Add a new connection."""
        if self._timer is None:
            self.now = self.loop.time()
            self._timer = self.loop.call_later(self.tick, self._on_tick)
        self._connections.add(connection)
        if self._expected:
            self._expected.pop(connection, None)
        self.arrivals += 1
        self.on_arrival()
        self._emptied.clear()

    def remove(self, connection: RegisteredConnection) -> None:
        """Remove a closed connection. Idempotent."""
        self._connections.discard(connection)
        self._idle.discard(connection)
        if not self._connections:
            self._emptied.set()

    def rest(self, connection: asyncio.Protocol, transport: asyncio.Transport) -> None:
        """A connection of the registry is idle, until something comes; `transport` reads for it. Idempotent."""
        if connection not in self._idle and not transport.is_closing():
            self._idle.add(connection)
            transport.set_protocol(IdleReader(connection, self, transport))

    def woken(self, connection: asyncio.Protocol) -> None:
        """See `KeepsAwake`."""
        self._idle.discard(connection)
        self.arrivals += 1
        self.on_arrival()

    async def empty(self) -> None:
        """Wait until there is no connection."""
        await self._emptied.wait()

    def _on_tick(self) -> None:
        # The timer ends only here: connections that come one at a time would each start one and cancel it.
        if not self.memory.tick() and not self._connections:
            self._timer = None
            return
        self._timer = self.loop.call_later(self.tick, self._on_tick)
        self.check()

    def check(self) -> None:
        """Have each connection apply its timeouts now."""
        self.now = self.loop.time()
        for connection in tuple(self._connections):
            connection.check(self.now)
