"""One record a request that was answered, for whoever wants to write it down.

The connection calls an `AccessLog` when it has one and does not even read the clock when it has none.
"""

import collections.abc
import logging

from naiad.core.clock import Clock
from naiad.core.record import Record
from naiad.protocol.http.head import RequestHead
from naiad.protocol.http.message import HttpReply

_logger = logging.getLogger(__name__)


class AccessEntry(Record, frozen=True):
    """A request that got its reply.

    Attributes:
        peer: the client's address, "" when the socket had none any more.
        method: as the client sent it; "-" when the request could not be read.
        target: path and query as the client sent them, not decoded.
        status: of the reply.
        size: bytes of the reply's body that were sent.
        seconds: from the end of the request's headers (its end, when it came in one piece) to the reply.
        request_id: the client's own name for the request; "" when it gave none.
    """

    peer: str
    method: str
    target: str
    status: int
    size: int
    seconds: float
    request_id: str


AccessLog = collections.abc.Callable[[AccessEntry], None]


class AccessRecorder:
    """Makes the entries of a service's connections.

    Args:
        log: gets each entry; what it raises is logged and harms no reply.
        clock: for the durations.
    """

    def __init__(self, log: AccessLog, *, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    def stamp(self) -> int:
        """Now, in monotonic nanoseconds."""
        return self._clock.monotonic_ns()

    def record(
        self,
        head: RequestHead,
        peer: tuple[str, int] | None,
        reply: HttpReply,
        size: int,
        since_ns: int,
    ) -> None:
        """A reply was sent: `size` bytes of its body, for a request whose `stamp` is `since_ns`."""
        entry = AccessEntry(
            f"{peer[0]}:{peer[1]}" if peer else "",
            "HEAD" if head.head_only else head.method.decode("latin-1"),
            head.target.decode("latin-1"),
            reply.status,
            size,
            (self._clock.monotonic_ns() - since_ns) / 1e9,
            reply.request_id,
        )
        try:
            self._log(entry)
        except Exception:
            _logger.exception("the access log failed")


def access_line(entry: AccessEntry) -> str:
    """One line for people; what could break the line is escaped, since a client chose it."""
    request_id = _printable(entry.request_id) or "-"
    return (
        f"{entry.peer or '-'} {entry.method} {_printable(entry.target)} {entry.status} {entry.size} "
        f"{entry.seconds * 1000:.3f}ms {request_id}"
    )


class LoggedAccess:
    """An `AccessLog` that writes `access_line` to a logger, the request id beside it as `request_id`.

    Args:
        logger: where to; at level INFO.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def __call__(self, entry: AccessEntry) -> None:
        """Write it."""
        if self._logger.isEnabledFor(logging.INFO):
            self._logger.info("%s", access_line(entry), extra={"request_id": entry.request_id})


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
