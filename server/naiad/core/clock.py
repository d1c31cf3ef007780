"""Time as an argument: one clock for durations and one for the wall, so that tests can turn it."""

import time
import typing


class Clock(typing.Protocol):
    """What code asks for the time. Deadlines and durations use `monotonic_ns` only."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since some fixed moment; never goes back."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since 1970, as people read time; may jump."""
        ...


class SystemClock:
    """The machine's clock. Static methods are the C functions themselves: a call costs 40 ns."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)


class ManualClock:
    """A clock that stands still until somebody moves it: for pure tests of anything that takes a clock."""

    def __init__(self, *, now_ns: int = 0, wall_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now_ns = now_ns
        self._wall_ns = wall_ns

    def monotonic_ns(self) -> int:
        """The moment it was moved to."""
        return self._now_ns

    def wall_ns(self) -> int:
        """The wall's moment, moved along with `advance`."""
        return self._wall_ns

    def advance(self, *, ns: int) -> None:
        """Move both clocks forward by `ns`."""
        self._now_ns += ns
        self._wall_ns += ns
