"""When a connection is pinged, called dead, too old, or pings too often (rows 10.38, 10.39). Pure: time is an argument, in seconds."""

import enum

from naiad.protocol.grpc.settings import GrpcSettings

_IDLE_PING_INTERVAL_S = 7_200.0
"""What a client without calls must leave between pings unless it may ping without calls: grpc's two hours."""

NEVER = float("inf")


class Verdict(enum.Enum):
    """What to do with a connection now."""

    NOTHING = "nothing"
    PING = "ping the client"
    DEAD = "close it: the client does not answer"
    OLD = "ask the client to go"
    TOO_OLD = "close it: its grace is over"


class Keepalive:
    """The times of one connection.

    Args:
        now: when it began.
        age_factor: by which this connection's greatest age differs from the setting, so that those of one moment do not end in one.
    """

    __slots__ = ("_age_at", "_grace_at", "_heard", "_last_ping", "_pinged", "_settings", "_strikes", "_without_data")  # fmt: skip

    def __init__(self, settings: GrpcSettings, now: float, age_factor: float = 1.0) -> None:
        self._settings = settings
        age = settings.max_connection_age_ms
        self._age_at = now + age / 1e3 * age_factor if age else NEVER
        self._grace_at = NEVER
        self._heard = now
        self._pinged: float | None = None
        self._without_data = 0
        self._last_ping: float | None = None
        self._strikes = 0

    def heard(self, now: float) -> None:
        """The client has sent something."""
        self._heard = now
        self._pinged = None

    def silent_s(self, now: float) -> float:
        """For how long the client has sent nothing."""
        return now - self._heard

    def sent_data(self) -> None:
        """Headers, data or window were sent: pings are counted again from 0, in both directions."""
        self._without_data = 0
        self._strikes = 0
        self._last_ping = None

    def verdict(self, now: float, *, calls: bool) -> Verdict:
        """What to do. Each but NOTHING is said once, or again when it is due again."""
        settings = self._settings
        if now >= self._grace_at:
            return Verdict.TOO_OLD
        if now >= self._age_at:
            self._age_at = NEVER
            grace = settings.max_connection_age_grace_ms
            self._grace_at = now + grace / 1e3 if grace else NEVER
            return Verdict.OLD
        if self._pinged is not None:
            late = now - self._pinged >= settings.keepalive_timeout_ms / 1e3
            return Verdict.DEAD if late else Verdict.NOTHING
        if not self._may_ping(now, calls=calls):
            return Verdict.NOTHING
        self._without_data += 1
        self._pinged = now
        return Verdict.PING

    def _may_ping(self, now: float, *, calls: bool) -> bool:
        settings = self._settings
        most = settings.max_pings_without_data
        return (
            now - self._heard >= settings.keepalive_time_ms / 1e3
            and (calls or settings.keepalive_permit_without_calls)
            and (not most or self._without_data < most)
        )

    def is_ping_too_many(self, now: float, *, calls: bool) -> bool:
        """The client pings: whether that is one more than it may (grpc's ping strikes)."""
        settings = self._settings
        interval = settings.min_recv_ping_interval_ms / 1e3
        if not calls and not settings.keepalive_permit_without_calls:
            interval = max(interval, _IDLE_PING_INTERVAL_S)
        last, self._last_ping = self._last_ping, now
        if last is not None and now - last < interval:
            self._strikes += 1
        most = settings.max_ping_strikes
        return bool(most) and self._strikes > most
