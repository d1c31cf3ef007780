"""The access log: one entry per request or call that got its response, for both protocols, and how an entry is written.

The protocols call an `AccessLog` when there is one and do not even read the clock when there is none. An entry is one line of text, and
in JSON one field per fact.
"""

import collections.abc
import logging

from naiad.core.clock import Clock
from naiad.core.inference import RequestContext
from naiad.protocol.observer import TRACEPARENT, Ended, HeaderLookup, trace_parent

_logger = logging.getLogger(__name__)


AccessLog = collections.abc.Callable[[Ended], None]


class AccessObserver:
    """An `Observer` that gives each ended request to access logs.

    Args:
        logs: an exception of one is logged, and the response is sent all the same.
    """

    def __init__(self, *logs: AccessLog, clock: Clock) -> None:
        self._logs = logs
        self.records = bool(logs)
        self.now_ns = clock.monotonic_ns

    def follows(self, header: HeaderLookup) -> bool:
        """See `Observer`."""
        return True

    def follow(
        self, headers: collections.abc.Mapping[bytes, bytes], received_ns: int, read_ns: int = 0
    ) -> RequestContext | None:
        """See `Observer`."""
        return self.begin(headers.get, received_ns, 0)

    def begin(self, header: HeaderLookup, received_ns: int, size: int) -> RequestContext:
        """See `Observer`."""
        traceparent = header(TRACEPARENT)
        trace = None if traceparent is None else trace_parent(traceparent)
        return RequestContext(received_ns, size, trace=trace)

    def finish(self, context: RequestContext) -> None:
        """See `Observer`."""
        context.sent_ns = self.now_ns()

    def end(self, ended: Ended) -> None:
        """See `Observer`."""
        ended.context.sent_ns = self.now_ns()
        for log in self._logs:
            try:
                log(ended)
            except Exception:
                _logger.exception("the access log failed")


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

    def __call__(self, entry: Ended) -> None:
        """Write an entry, if the settings ask for it."""
        slow = bool(self._slow_seconds) and entry.seconds >= self._slow_seconds
        level = logging.WARNING if slow else logging.INFO
        if (slow or self._every) and self._logger.isEnabledFor(level):
            fields = access_fields(entry)
            message, suffix = access_line(fields, slow=slow)
            self._logger.log(level, "%s", message, extra={**fields, "suffix": suffix})


def access_fields(entry: Ended) -> dict[str, object]:
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
    if context.trace is not None:
        fields["trace_id"] = context.trace.trace_id
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
