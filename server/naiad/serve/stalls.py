"""When a late heartbeat of the event loop is a stall, and when it is reported. Pure: times are arguments, in nanoseconds."""

import enum

from naiad.serve.loop_lag import INTERVAL_NS

STALL_NS = 50_000_000
"""A heartbeat that is later than this is a stall."""

REPORT_INTERVAL_NS = 1_000_000_000
"""Between two reports, and from the first sight of a stall that does not end to its report."""

POLL_NS = 10_000_000
"""Between two looks at a stall."""


class Step(enum.Enum):
    """What the watchdog does after a look."""

    WAIT = "wait"
    SAMPLE = "sample the stack"
    REPORT_ENDED = "report a stall that is over"
    REPORT_ONGOING = "report a stall that goes on"


class StallRule:
    """Decides what to do about the heartbeat; call `look` no later than `wait_ns` after the look before.

    A stall is sampled when it is noticed and reported when it is over, so that the report says how long it was; one that goes on is
    reported every second.

    Attributes:
        stalled_ns: how late the heartbeat of the stall that is reported was, or is so far.
    """

    def __init__(self) -> None:
        self._stalled_beat_ns = 0
        self._sampled_ns = 0
        self._quiet_until_ns = 0
        self.stalled_ns = 0

    def look(self, *, beat_ns: int, now_ns: int) -> Step:
        """Take notice of the last heartbeat."""
        if self._sampled_ns:
            return self._look_at_stall(beat_ns, now_ns)
        if now_ns - beat_ns - INTERVAL_NS <= STALL_NS or now_ns < self._quiet_until_ns:
            return Step.WAIT
        self._stalled_beat_ns = beat_ns
        self._sampled_ns = now_ns
        return Step.SAMPLE

    def wait_ns(self, *, beat_ns: int, now_ns: int) -> int:
        """How long to wait before the next look: until the next heartbeat would be a stall."""
        return max(POLL_NS, beat_ns + INTERVAL_NS + STALL_NS - now_ns)

    def _look_at_stall(self, beat_ns: int, now_ns: int) -> Step:
        if beat_ns != self._stalled_beat_ns:
            self.stalled_ns = beat_ns - self._stalled_beat_ns - INTERVAL_NS
            self._sampled_ns = 0
            self._quiet_until_ns = now_ns + REPORT_INTERVAL_NS
            return Step.REPORT_ENDED
        if now_ns - self._sampled_ns < REPORT_INTERVAL_NS:
            return Step.WAIT
        self.stalled_ns = now_ns - beat_ns - INTERVAL_NS
        self._sampled_ns = 0
        return Step.REPORT_ONGOING
