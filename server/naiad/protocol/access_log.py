"""The access log: one entry for each request or call that was answered, of both protocols, and how it is written.

The protocols call an `AccessLog` when there is one and do not even read the clock when there is none. An entry is one line of text, and
in JSON one field for each fact.
"""

import collections.abc
import logging

from naiad.core.clock import Clock
from naiad.core.inference import Inference
from naiad.core.record import Record

_logger = logging.getLogger(__name__)


class AccessEntry(Record, frozen=True):
    """A request that got its reply.

    Attributes:
        protocol: "http" or "grpc".
        peer: the client's address, "" when the socket had none any more.
        method: HTTP's, as the client sent it, or the name of the RPC; "-" when the request could not be read.
        target: path and query as the client sent them, not decoded; for gRPC the whole path of the RPC.
        status: of the reply: a number for HTTP, a name such as "OK" for gRPC.
        received: bytes of the request's body that came.
        sent: bytes of the reply's body that were sent.
        seconds: from the end of the request's headers (its end, when it came in one piece) to the reply.
        request_id: the client's own name for the request; "" when it gave none.
        inference: the inference that it caused, for model, queue time and compute time; None when there was none, or several.
    """

    protocol: str
    peer: str
    method: str
    target: str
    status: int | str
    received: int
    sent: int
    seconds: float
    request_id: str = ""
    inference: Inference | None = None


AccessLog = collections.abc.Callable[[AccessEntry], None]


class Recorder:
    """What a protocol needs to make entries.

    Args:
        log: gets each entry; what it raises is logged and harms no reply.
        clock: for the durations.
    """

    def __init__(self, log: AccessLog, *, clock: Clock) -> None:
        self._log = log
        self.stamp = clock.monotonic_ns
        """Now, in monotonic nanoseconds."""

    def seconds_since(self, since_ns: int) -> float:
        """Seconds since a stamp."""
        return (self.stamp() - since_ns) / 1e9

    def write(self, entry: AccessEntry) -> None:
        """A reply was sent."""
        try:
            self._log(entry)
        except Exception:
            _logger.exception("the access log failed")


class LoggedAccess:
    """An `AccessLog` that writes to a logger.

    Args:
        logger: where to.
        every: write every entry, at level INFO.
        slow_ms: write those that took as many milliseconds, at level WARNING; 0 writes none so.
    """

    def __init__(self, logger: logging.Logger, *, every: bool = True, slow_ms: float = 0) -> None:
        self._logger = logger
        self._every = every
        self._slow_seconds = slow_ms / 1000

    def __call__(self, entry: AccessEntry) -> None:
        """Write it, if it is to be written."""
        slow = bool(self._slow_seconds) and entry.seconds >= self._slow_seconds
        level = logging.WARNING if slow else logging.INFO
        if (slow or self._every) and self._logger.isEnabledFor(level):
            fields = access_fields(entry)
            message, suffix = access_line(fields, slow=slow)
            self._logger.log(level, "%s", message, extra={**fields, "suffix": suffix})


def access_fields(entry: AccessEntry) -> dict[str, object]:
    """What is known of a request, by the names that JSON lines give it; times in milliseconds."""
    fields: dict[str, object] = {
        "protocol": entry.protocol,
        "peer": entry.peer,
        "method": entry.method,
        "path": entry.target,
        "status": entry.status,
        "bytes_in": entry.received,
        "bytes_out": entry.sent,
        "total_ms": round(entry.seconds * 1000, 3),
    }
    inference = entry.inference
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
    request_id = entry.request_id or ("" if inference is None else inference.request.id)
    if request_id:
        fields["request_id"] = request_id
    return fields


def access_line(fields: dict[str, object], *, slow: bool = False) -> tuple[str, str]:
    """One line for people, in two parts; what could break the line is escaped, since a client chose it.

    The request's id is not in it: log lines begin with that.

    Returns:
        Who asked for what and the status; and the rest, which JSON lines have as fields alone.
    """
    line = f"{fields['peer'] or '-'} {fields['method']} {_printable(str(fields['path']))} {fields['status']}"
    rest = f" in={fields['bytes_in']} out={fields['bytes_out']} total={fields['total_ms']}ms"
    if "compute_ms" in fields:
        rest += f" queue={fields['queue_ms']}ms compute={fields['compute_ms']}ms"
    if "model" in fields:
        rest += f" model={_printable(str(fields['model']))}"
    if "version" in fields:
        rest += f" version={fields['version']}"
    return (f"slow: {line}" if slow else line), rest


def inference_of(work: object) -> Inference | None:
    """The inference behind a handle on work under way; None when there is none, or not one alone."""
    if isinstance(work, Inference):
        return work
    found = getattr(work, "inference", None)
    return found if isinstance(found, Inference) else None


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
