"""gRPC's entries in the access log: methods that record each call when it is answered, refused or cancelled.

Put around the methods only when there is such a log.
"""

from naiad.core.context import RequestContext
from naiad.core.inference import Cancellable
from naiad.protocol.access_log import AccessEntry, Recorder
from naiad.protocol.grpc.call import (
    Call,
    ContextCall,
    OnResponse,
    Response,
    RpcStatus,
    StreamHandler,
    Streaming,
    StreamWriter,
    Unary,
)
from naiad.protocol.trace_context import trace_id_of

_STATUS_NAMES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
    "UNAUTHENTICATED",
)  # fmt: skip
_CANCELLED = 1


def logged(path: str, method: Unary, recorder: Recorder) -> Unary:
    """The method of a path, recording each call."""

    def unary(body: bytes, call: Call, on_response: OnResponse) -> Cancellable:
        record = _Record(path, call, recorder)
        context = record.context
        context.request_bytes = len(body)
        logged_call = _UnaryCall(record, on_response)
        logged_call.begin(method(body, ContextCall(call, context), logged_call.response))
        return logged_call

    return unary


def logged_stream(path: str, streaming: Streaming, recorder: Recorder) -> Streaming:
    """The streaming method of a path, recording each stream when it ends."""

    def begin(call: Call, writer: StreamWriter) -> StreamHandler:
        record = _Record(path, call, recorder)
        return _LoggedHandler(record, streaming(call, _LoggedWriter(record, writer)))

    return begin


def record_refused(path: str, refused: RpcStatus, recorder: Recorder) -> None:
    """Record a call that was refused before it began; the client's address is unknown then."""
    name = path.rpartition("/")[2]
    context = RequestContext(recorder.stamp())
    recorder.write(AccessEntry("grpc", "", name, path, _STATUS_NAMES[refused.status], context))


class _Record:
    """A call that gets one entry."""

    __slots__ = ("_call", "_path", "_recorder", "context", "written")

    def __init__(self, path: str, call: Call, recorder: Recorder) -> None:
        self._path = path
        self._call = call
        self._recorder = recorder
        self.context = RequestContext(recorder.stamp(), trace_id=_trace_id(call))
        self.written = False

    def write(self, status: int) -> None:
        """The call has ended: log its entry. Further calls have no effect."""
        if self.written:
            return
        self.written = True
        # The inference in it holds the callback of the call, and so this record: without a cycle the call ends here.
        context, self.context = self.context, RequestContext(0)
        self._recorder.write(
            AccessEntry(
                "grpc",
                _address(self._call),
                self._path.rpartition("/")[2],
                self._path,
                _STATUS_NAMES[status],
                context,
            )
        )


class _UnaryCall:
    """One call; implements `Cancellable`."""

    __slots__ = ("_on_response", "_responded", "_work", "record")

    def __init__(self, record: _Record, on_response: OnResponse) -> None:
        self.record = record
        self._on_response = on_response
        self._work: Cancellable | None = None
        self._responded = False

    def begin(self, work: Cancellable | None) -> None:
        """The method has begun; unless it has answered already, this is the handle on its work."""
        if not self._responded:
            self._work = work

    def response(self, response: Response) -> None:
        """The method's callback."""
        self._responded = True
        self._work = None
        self._on_response(response)
        if isinstance(response, RpcStatus):
            self.record.write(response.status)
        else:
            self.record.context.response_bytes = len(response)
            self.record.write(0)

    def cancel(self) -> None:
        """The client has gone, its deadline has passed, or the server ends the call."""
        work, self._work = self._work, None
        self.record.write(_CANCELLED)
        if work is not None:
            work.cancel()


class _LoggedWriter:
    """Implements `StreamWriter`."""

    __slots__ = ("_record", "_writer")

    def __init__(self, record: _Record, writer: StreamWriter) -> None:
        self._record = record
        self._writer = writer

    def send(self, message: bytes) -> None:
        """See `StreamWriter`."""
        self._record.context.response_bytes += len(message)
        self._writer.send(message)

    def capacity(self) -> None:
        """See `StreamWriter`."""
        self._writer.capacity()

    def end(self, refused: RpcStatus | None) -> None:
        """See `StreamWriter`."""
        self._writer.end(refused)
        self._record.write(0 if refused is None else refused.status)


class _LoggedHandler:
    """Implements `StreamHandler`."""

    __slots__ = ("_handler", "_record", "half_close", "may_take", "pause", "resume")

    def __init__(self, record: _Record, handler: StreamHandler) -> None:
        self._record = record
        self._handler = handler
        self.half_close = handler.half_close
        self.pause = handler.pause
        self.resume = handler.resume
        self.may_take = handler.may_take

    def take(self, body: bytes) -> None:
        """See `StreamHandler`."""
        self._record.context.request_bytes += len(body)
        self._handler.take(body)

    def cancel(self) -> None:
        """See `StreamHandler`; on a stream that has ended, this has no effect."""
        self._record.write(_CANCELLED)
        self._handler.cancel()


def _trace_id(call: Call) -> str:
    for key, value in call.invocation_metadata() or ():
        if key == "traceparent":
            return trace_id_of(value)
    return ""


def _address(call: Call) -> str:
    """The client's address, without the family of an IP address in front."""
    peer = call.peer()
    family, _, address = peer.partition(":")
    return address if family in ("ipv4", "ipv6") else peer
