"""How often the heartbeat comes. Pure: times are arguments, in nanoseconds.

Fifty heartbeats per second cost an idle server 0.7 % of a processor. So a loop without clients and without work of its own rests, with one in half a
second.
"""

INTERVAL_NS = 20_000_000
"""Between two heartbeats. A request that arrives while the loop is busy waits as long as a heartbeat does."""

RESTING_NS = 500_000_000
"""Between two heartbeats while the loop rests."""

_UNUSED_BEATS = 25
"""Heartbeats in a row without a client and without work after which the loop rests."""

_IDLE_PART = 20
"""A loop that computes more than one part in so many of the time between two heartbeats has work of its own: models are loaded, for example."""


class HeartbeatInterval:
    """That of one loop.

    Attributes:
        rests: whether it rests.
    """

    def __init__(self) -> None:
        self.rests = False
        self._unused_beats = 0

    def next_ns(self, *, in_use: bool, computed_ns: int) -> int:
        """The time until the next heartbeat.

        Args:
            in_use: whether a client was there since the heartbeat before this one.
            computed_ns: for how long the loop has computed since then.
        """
        interval_ns = RESTING_NS if self.rests else INTERVAL_NS
        is_unused = not in_use and computed_ns * _IDLE_PART < interval_ns
        self._unused_beats = self._unused_beats + 1 if is_unused else 0
        self.rests = self._unused_beats >= _UNUSED_BEATS
        return RESTING_NS if self.rests else INTERVAL_NS

    def wake(self) -> None:
        """A client comes: the next heartbeat comes after the usual time."""
        self.rests = False
        self._unused_beats = 0
