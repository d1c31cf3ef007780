"""The access log: one entry per request or call that got its response, for both protocols, and how an entry is written.

The protocols call an `AccessLog` when there is one and do not even read the clock when there is none. An entry is one line of text, and
in JSON one field per fact.
"""

import collections.abc
import logging
import re

from naiad.core.clock import Clock
from naiad.core.inference import RequestContext
from naiad.core.record import Record

_logger = logging.getLogger(__name__)

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_INVALID_TRACE_ID = "0" * 32


class AccessEntry(Record, frozen=True):
    """A request that got its response.

    Attributes:
        peer: the client's address, "" when the socket had none any more.
        method: HTTP's, as the client sent it, or the name of the RPC; "-" when the request could not be read.
        target: path and query as the client sent them, not decoded; for gRPC the whole path of the RPC.
        status: of the response: a number for HTTP, a name such as "OK" for gRPC.
    """

    protocol: str
    peer: str
    method: str
    target: str
    status: int | str
    context: RequestContext

    @property
    def seconds(self) -> float:
        """From the end of the request's headers to the response."""
        return (self.context.sent_ns - self.context.received_ns) / 1e9


AccessLog = collections.abc.Callable[[AccessEntry], None]


class Recorder:
    """Makes the entries of a protocol.

    Args:
        log: gets each entry; an exception of it is logged, and the response is sent all the same.
    """

    def __init__(self, log: AccessLog, *, clock: Clock) -> None:
        self._log = log
        self.stamp = clock.monotonic_ns
        """Now, in monotonic nanoseconds."""

    def write(self, entry: AccessEntry) -> None:
        """A response was sent now: log its entry."""
        entry.context.sent_ns = self.stamp()
        try:
            self._log(entry)
        except Exception:
            _logger.exception("the access log failed")


def trace_id_of(traceparent: str | bytes) -> str:
    """The id of the trace that the header `traceparent` of W3C Trace Context names; "" if it is not valid: then it counts as not sent."""
    text = traceparent if isinstance(traceparent, str) else traceparent.decode("latin-1")
    match = _TRACEPARENT.fullmatch(text)
    return "" if match is None or match[1] == _INVALID_TRACE_ID else match[1]


class LoggedAccess:
    """An `AccessLog` that writes to a logger.

    Args:
        every: write every entry, at level INFO.
        slow_ms: write those that took at least so many milliseconds at level WARNING; 0 switches that off.
    """

    def __init__(self, logger: logging.Logger, *, every: bool = True, slow_ms: float = 0) -> None:
        self._logger = logger
        self._every = every
        self._slow_seconds = slow_ms / 1000

    def __call__(self, entry: AccessEntry) -> None:
        """Write an entry, if the settings ask for it."""
        slow = bool(self._slow_seconds) and entry.seconds >= self._slow_seconds
        level = logging.WARNING if slow else logging.INFO
        if (slow or self._every) and self._logger.isEnabledFor(level):
            fields = access_fields(entry)
            message, suffix = access_line(fields, slow=slow)
            self._logger.log(level, "%s", message, extra={**fields, "suffix": suffix})


def access_fields(entry: AccessEntry) -> dict[str, object]:
    """An entry as the fields of a JSON line; times in milliseconds."""
    context = entry.context
    fields: dict[str, object] = {
        "protocol": entry.protocol,
        "peer": entry.peer,
        "method": entry.method,
        "path": entry.target,
        "status": entry.status,
        "bytes_in": context.request_bytes,
        "bytes_out": context.response_bytes,
        "total_ms": round(entry.seconds * 1000, 3),
    }
    inference = context.inference
    if inference is not None:
        fields["model"] = inference.request.model_name
        times = inference.execution
        if times is not None:
            fields["version"] = times.version
            fields["queue_ms"] = _ms(times.start_ns - inference.queued_ns)
            fields["compute_ms"] = _ms(times.end_ns - times.start_ns)
            fields["compute_input_ms"] = _ms(times.input_end_ns - times.start_ns)
            fields["compute_infer_ms"] = _ms(times.output_start_ns - times.input_end_ns)
            fields["compute_output_ms"] = _ms(times.end_ns - times.output_start_ns)
    if context.trace_id:
        fields["trace_id"] = context.trace_id
    request_id = context.request_id or ("" if inference is None else inference.request.id)
    if request_id:
        fields["request_id"] = request_id
    return fields


def access_line(fields: dict[str, object], *, slow: bool = False) -> tuple[str, str]:
    """One line for people, in two parts.

    The request's id is not part of it: log lines begin with that.

    Returns:
        Client, request and status; and the rest, which JSON lines have as fields only.
    """
    line = f"{fields['peer'] or '-'} {fields['method']} {fields['path']} {fields['status']}"
    rest = f" in={fields['bytes_in']} out={fields['bytes_out']} total={fields['total_ms']}ms"
    if "compute_ms" in fields:
        rest += f" queue={fields['queue_ms']}ms compute={fields['compute_ms']}ms"
    if "model" in fields:
        rest += f" model={fields['model']}"
    if "version" in fields:
        rest += f" version={fields['version']}"
    return (f"slow: {line}" if slow else line), rest


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
