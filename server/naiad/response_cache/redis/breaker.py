"""When Redis is asked, and when it is tried again: a circuit breaker. Pure: the time is an argument.

A Redis that fails once is not asked again by requests: they go on without it at once. In the background it is tried again, after a while that
doubles up to half a minute, until it responds.
"""

import enum

FIRST_NS = 500_000_000
LONGEST_NS = 30_000_000_000


class Circuit(enum.Enum):
    """The states."""

    CLOSED = "closed"
    """Requests ask Redis."""

    OPEN = "open"
    """They do not."""


class CircuitBreaker:
    """The state, and the time of the next try. It begins open: nothing is connected yet.

    Attributes:
        state: the state.
        retry_at_ns: when to try again while it is open.
    """

    def __init__(self) -> None:
        self.state = Circuit.OPEN
        self.retry_at_ns = 0
        self._wait_ns = FIRST_NS
        self._reported = False

    def failed(self, now_ns: int) -> bool:
        """A command, or a try, failed; returns whether that is news: the first failure since Redis responded."""
        if self.state is Circuit.CLOSED:
            self._wait_ns = FIRST_NS
        self.state = Circuit.OPEN
        self.retry_at_ns = now_ns + self._wait_ns
        self._wait_ns = min(self._wait_ns * 2, LONGEST_NS)
        news, self._reported = not self._reported, True
        return news

    def responded(self) -> bool:
        """A try succeeded; returns whether a failure was reported before."""
        was_reported, self._reported = self._reported, False
        self.state = Circuit.CLOSED
        return was_reported
