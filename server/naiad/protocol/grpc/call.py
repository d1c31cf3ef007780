"""The interface between a gRPC transport and a method: request bytes and a call in, one response out, by callback.

A transport (`aio.py` today) handles HTTP/2, framing, deadlines and compression, and not inference; a method handles
inference, and not transports. When a deadline passes, or when the client has gone, the
transport cancels the handle that the method returned (row 10.24), so methods ignore the time.
"""

import asyncio
import collections.abc
import logging
import typing

import msgspec

from naiad.core.inference import Cancellable, RequestContext
from naiad.errors import InferenceError, internal
from naiad.protocol.status import grpc_status

Metadata = collections.abc.Iterable[tuple[str, str | bytes]]
"""Keys in lower case; the value of a key that ends in -bin is bytes. A key may come several times."""


class RpcCall(typing.Protocol):
    """A call, as its method sees it."""

    def invocation_metadata(self) -> Metadata | None:
        """The metadata that the client sent. Expensive: call it only if it is needed."""

    def peer(self) -> str:
        """The client's address behind its family, such as "ipv4:10.0.0.9:1"; "" if unknown."""


class ContextCall:
    """A call with the context of its request. Implements `RpcCall`."""

    __slots__ = ("context", "invocation_metadata", "peer")

    def __init__(self, call: RpcCall, context: RequestContext) -> None:
        self.context = context
        self.invocation_metadata = call.invocation_metadata
        self.peer = call.peer


class RpcStatus(msgspec.Struct, frozen=True):
    """A status other than OK.

    Attributes:
        status: the number of the gRPC status, e.g. 3 for INVALID_ARGUMENT.
        message: what goes into grpc-message, short enough for the headers of any client.
    """

    status: int
    message: str


_PIECE_BYTES = 1_048_576


class LongMessage:
    """A response message in pieces, none of them empty, which can be sent from where they are. Its length is that of all together."""

    __slots__ = ("_size", "pieces")

    def __init__(self, pieces: collections.abc.Iterable[bytes | memoryview]) -> None:
        self.pieces = [piece for piece in pieces if len(piece)]
        self._size = sum(map(len, self.pieces))

    def __len__(self) -> int:
        return self._size

    def joined(self) -> bytes:
        """One piece. For a thread if it is long: `join` frees the interpreter lock only for parts that are `bytes`, so that they are cut into such."""
        return b"".join(self.cut())

    def cut(self) -> collections.abc.Iterator[bytes]:
        """Copies of a mebibyte at most, one after the other."""
        for piece in self.pieces:
            for at in range(0, len(piece), _PIECE_BYTES):
                yield bytes(piece[at : at + _PIECE_BYTES])


JOINED_HERE = 16_777_216
"""Bytes of a message that the event loop joins: 5 ms, or 10 with fresh memory."""

Sent = bytes | LongMessage
"""A message of a method."""


def in_one_piece(message: Sent) -> bytes:
    """See `LongMessage.joined`."""
    return message.joined() if isinstance(message, LongMessage) else message


Response = Sent | RpcStatus
"""The response message, or an error."""

OnRpcResponse = collections.abc.Callable[[Response], None]


Unary = collections.abc.Callable[[typing.Any, RpcCall, OnRpcResponse], Cancellable | None]
"""Called on the loop with a whole request message, bytes or for methods of `MethodTable.values_in` also a memoryview; calls back exactly once, perhaps before it returns, unless it is cancelled
first. It does not raise."""


class StreamWriter(typing.Protocol):
    """Writes the responses of one stream. Loop only."""

    def send(self, message: Sent) -> None:
        """Send a message, in order."""

    def capacity(self) -> None:
        """`StreamHandler.may_take` has become true: a request has its last response, perhaps without a message."""

    def end(self, refused: RpcStatus | None) -> None:
        """End the stream, with an error if there is one. Nothing is sent after it; a second call has no effect."""


class StreamHandler(typing.Protocol):
    """A stream, as its transport sees it. Loop only; no method raises."""

    def take(self, body: typing.Any) -> None:
        """Handle a request message: bytes, or for methods of `MethodTable.values_in` also a memoryview."""

    def half_close(self) -> None:
        """The client has finished sending."""

    def pause(self) -> None:
        """The client does not read."""

    def resume(self) -> None:
        """The client reads again."""

    def cancel(self) -> None:
        """The client has gone, its deadline has passed, or the stream has ended. Idempotent."""

    def may_take(self) -> bool:
        """Whether another request should be read now; called again after `resume` and after `StreamWriter.capacity`."""

    def has_sequences(self) -> bool:
        """Whether sequences that it began are open, which `cancel` before `half_close` ends."""


Streaming = collections.abc.Callable[[RpcCall, StreamWriter], StreamHandler]
"""Called on the loop when a stream begins; may end it at once. It does not raise."""


ValuesIn = collections.abc.Callable[[memoryview], tuple[str, int] | None]
"""Finds in the beginning of a message for whom its tensors are, and at which byte the first one begins; None if it has none there."""


class MethodTable(typing.Protocol):
    """A service, as a transport sees it. `methods.Methods` is Triton's.

    Attributes:
        unary: the methods with one request and one response, by path.
        streaming: the methods whose calls are streams, one way or both.
        refused: methods that are known and refused, by path.
        compressed: the paths whose responses may be compressed.
        unchecked: the paths of which `admit` refuses no call now.
        values_in: by the paths of the methods that take a long message as a view of memory, too, which is lent to one owner after the other.
    """

    unary: dict[str, Unary]
    streaming: dict[str, Streaming]
    refused: collections.abc.Mapping[str, RpcStatus]
    compressed: frozenset[str]
    unchecked: frozenset[str]
    values_in: collections.abc.Mapping[str, ValuesIn]

    def admit(self, path: str, metadata: Metadata) -> RpcStatus | None:
        """Why a call may not begin, or None; called with the metadata, before a message is received."""

    def shut(self) -> None:
        """From now on refuse new calls, and end the streams. Idempotent."""


_MAX_MESSAGE_BYTES = 2048
"""UTF-8 bytes of a message. Percent-encoding can triple them, and clients take 8 KiB of headers by default; with more
they report a header error instead."""

_log = logging.getLogger(__name__)


def rpc_status(error: InferenceError) -> RpcStatus:
    """A failure as a status (row 10.6); an overlong message is cut."""
    return RpcStatus(grpc_status(error.code), _short(error.message))


def as_inference_error(error: Exception, what: str) -> InferenceError:
    """An error for the client: an unexpected exception is logged, and INTERNAL. `what` is what failed, for the messages."""
    if isinstance(error, InferenceError):
        return error
    _log.error("%s failed", what, exc_info=error)
    return internal(f"{what} failed inside the server ({type(error).__name__}); its log says where")


def at_once(run: collections.abc.Callable[[bytes], bytes]) -> Unary:
    """Make a method of a function from request bytes to response bytes, which raises InferenceError and returns at once."""

    def unary(body: bytes, call: RpcCall, on_response: OnRpcResponse) -> None:
        response: Response
        try:
            response = run(body)
        except Exception as error:  # noqa: BLE001 - the client waits for a response
            response = rpc_status(as_inference_error(error, f"{run.__name__}()"))
        on_response(response)

    return unary


def later(
    run: collections.abc.Callable[[bytes], collections.abc.Coroutine[None, None, bytes]],
) -> Unary:
    """A unary method of a coroutine function; each call is a task, so this is not for inference."""
    tasks = set[asyncio.Task[None]]()  # the loop itself keeps only weak references

    async def run_and_respond(body: bytes, on_response: OnRpcResponse) -> None:
        response: Response
        try:
            response = await run(body)
        except Exception as error:  # noqa: BLE001 - as in at_once
            response = rpc_status(as_inference_error(error, f"{run.__name__}()"))
        on_response(response)

    def unary(body: bytes, call: RpcCall, on_response: OnRpcResponse) -> Cancellable:
        task = asyncio.get_running_loop().create_task(run_and_respond(body, on_response))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    return unary


def _short(message: str) -> str:
    if len(message) <= _MAX_MESSAGE_BYTES // 4:
        return message
    encoded = message.encode("utf-8", "replace")
    if len(encoded) <= _MAX_MESSAGE_BYTES:
        return message
    return encoded[:_MAX_MESSAGE_BYTES].decode("utf-8", "ignore") + " …"
