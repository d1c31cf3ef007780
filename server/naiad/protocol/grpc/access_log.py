"""Methods whose calls are observed: when they begin, and when they are answered, refused or cancelled.

Put around the methods only when there is an observer.
"""

import functools
import urllib.parse

from naiad.core.inference import Cancellable, RequestContext
from naiad.protocol.grpc.call import (
    ContextCall,
    LongMessage,
    OnRpcResponse,
    Response,
    RpcCall,
    RpcStatus,
    StreamHandler,
    Streaming,
    StreamWriter,
    Unary,
)
from naiad.protocol.observer import Ended, Observer

_STATUS_NAMES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
    "UNAUTHENTICATED",
)  # fmt: skip
_CANCELLED = 1


def logged(path: str, method: Unary, observer: Observer) -> Unary:
    """The method of a path, recording each call."""

    def unary(
        body: bytes | memoryview, call: RpcCall, on_response: OnRpcResponse
    ) -> Cancellable | None:
        if not observer.follows(functools.partial(header_of, call)):
            return method(body, call, on_response)
        logged_call = _LoggedUnary(path, call, observer, on_response)
        context = logged_call.context
        context.request_bytes = len(body)
        logged_call.begin(method(body, ContextCall(call, context), logged_call.response))
        return logged_call

    return unary


def logged_stream(path: str, streaming: Streaming, observer: Observer) -> Streaming:
    """The streaming method of a path, recording each stream when it ends."""

    def begin(call: RpcCall, writer: StreamWriter) -> StreamHandler:
        if not observer.follows(functools.partial(header_of, call)):
            return streaming(call, writer)
        logged_call = _LoggedStream(path, call, observer, writer)
        logged_call.begin(streaming(call, logged_call))
        return logged_call

    return begin


def record_refused(path: str, refused: RpcStatus, observer: Observer) -> None:
    """Record a call that was refused before it began; the client's address is unknown then."""
    if observer.follows(_nothing):
        _end(path, "", refused.status, observer.begin(_nothing, observer.now_ns(), 0), observer)


class _LoggedCall:
    """A call that gets one entry."""

    __slots__ = ("_call", "_observer", "_path", "_recorded", "context")

    def __init__(self, path: str, call: RpcCall, observer: Observer) -> None:
        self._path = path
        self._call = call
        self._observer = observer
        self._recorded = False
        header = functools.partial(header_of, call)
        self.context = observer.begin(header, observer.now_ns(), 0)

    def record(self, status: int) -> None:
        """The call has ended: log its entry. Further calls have no effect."""
        if self._recorded:
            return
        self._recorded = True
        # The inference in it holds the callback of the call, and so this object: without a cycle the call ends here.
        context, self.context = self.context, RequestContext(0)
        if self._observer.records:
            _end(self._path, _address(self._call), status, context, self._observer)
        else:
            self._observer.finish(context)


class _LoggedUnary(_LoggedCall):
    """Implements `Cancellable`."""

    __slots__ = ("_on_response", "_responded", "_work")

    def __init__(
        self, path: str, call: RpcCall, observer: Observer, on_response: OnRpcResponse
    ) -> None:
        super().__init__(path, call, observer)
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
        self.context.send_ns = self._observer.now_ns()
        self._on_response(response)
        if isinstance(response, RpcStatus):
            self.record(response.status)
        else:
            self.context.response_bytes = len(response)
            self.record(0)

    def cancel(self) -> None:
        """The client has gone, its deadline has passed, or the server ends the call."""
        work, self._work = self._work, None
        self.record(_CANCELLED)
        if work is not None:
            work.cancel()


class _LoggedStream(_LoggedCall):
    """Implements `StreamWriter` for the method, and `StreamHandler` for the transport."""

    __slots__ = ("_cancel", "_end", "_send", "_take", "capacity", "half_close", "has_sequences", "may_take", "pause", "resume")  # fmt: skip

    def __init__(self, path: str, call: RpcCall, observer: Observer, writer: StreamWriter) -> None:
        super().__init__(path, call, observer)
        self._send, self._end, self.capacity = writer.send, writer.end, writer.capacity

    def begin(self, handler: StreamHandler) -> None:
        """The method has begun; this is its side of the stream."""
        self._take, self._cancel, self.half_close = handler.take, handler.cancel, handler.half_close
        self.pause, self.resume, self.may_take = handler.pause, handler.resume, handler.may_take
        self.has_sequences = handler.has_sequences

    def take(self, body: bytes | memoryview) -> None:
        """See `StreamHandler`."""
        self.context.request_bytes += len(body)
        self._take(body)

    def send(self, message: bytes | LongMessage) -> None:
        """See `StreamWriter`."""
        self.context.response_bytes += len(message)
        self._send(message)

    def end(self, refused: RpcStatus | None) -> None:
        """See `StreamWriter`."""
        self._end(refused)
        self.record(0 if refused is None else refused.status)

    def cancel(self) -> None:
        """See `StreamHandler`; on a stream that has ended, this has no effect."""
        self.record(_CANCELLED)
        self._cancel()


def _end(path: str, peer: str, status: int, context: RequestContext, observer: Observer) -> None:
    name = path.rpartition("/")[2]
    observer.end(Ended("grpc", peer, name, path, _STATUS_NAMES[status], context))


def header_of(call: RpcCall, name: bytes) -> bytes | str | None:
    """The first value of a call's metadata; see `HeaderLookup`."""
    wanted = name.decode()
    for key, value in call.invocation_metadata() or ():
        if key == wanted:
            return value
    return None


def _nothing(name: bytes) -> None:
    return None


def _address(call: RpcCall) -> str:
    """The client's address, without the family of an IP address in front; gRPC escapes the brackets of IPv6."""
    peer = call.peer()
    family, _, address = peer.partition(":")
    return urllib.parse.unquote(address) if family in ("ipv4", "ipv6") else peer
