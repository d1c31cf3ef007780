"""When a worker that died is restarted: at once the first time, with growing delays if it dies again soon. Pure."""

FIRST_DELAY_NS = 500_000_000
LONGEST_DELAY_NS = 60_000_000_000

STABLE_NS = 60_000_000_000
"""After a worker was up for this long, earlier deaths do not count."""


class RestartBackoff:
    """Counts the deaths of one instance's workers.

    Attributes:
        deaths: consecutive ones, none of them after a stable time.
    """

    __slots__ = ("_up_since_ns", "deaths")

    def __init__(self) -> None:
        self.deaths = 0
        self._up_since_ns: int | None = None

    def on_serving(self, now_ns: int) -> None:
        """A worker has loaded its model."""
        self._up_since_ns = now_ns

    def died(self, now_ns: int) -> int:
        """A worker died, or could not load; returns the nanoseconds until the next start."""
        up_since, self._up_since_ns = self._up_since_ns, None
        if up_since is not None and now_ns - up_since >= STABLE_NS:
            self.deaths = 0
        self.deaths += 1
        if self.deaths == 1:
            return 0
        # The exponent is limited: a worker may die for weeks.
        return min(FIRST_DELAY_NS << min(self.deaths - 2, 30), LONGEST_DELAY_NS)
