"""What all connections of a gRPC port share: the methods, the settings, the header blocks seen, the deadlines."""

import asyncio
import functools
import logging
import typing

import msgspec

from naiad.protocol.grpc.call import (
    Metadata,
    MethodTable,
    RpcCall,
    RpcStatus,
    Streaming,
    Unary,
    ValuesIn,
    rpc_status,
)
from naiad.protocol.grpc.settings import COMPRESSION_LEVELS, GrpcSettings
from naiad.protocol.grpc.transport.message_memory import MessageMemory
from naiad.protocol.grpc.transport.native.call_head import CallHead
from naiad.protocol.grpc.transport.native.deadlines import Deadlines
from naiad.protocol.grpc.transport.native.direct_reader import BUFFER_BYTES
from naiad.protocol.grpc.transport.native.messages import Lend
from naiad.protocol.transport.connection_registry import ConnectionRegistry
from naiad.protocol.transport.http2.connection import Http2Server, Limits
from naiad.protocol.transport.http2.errors import ErrorCode
from naiad.protocol.transport.http2.header_blocks import MAX_LIST_BYTES, BlockCache, Headers
from naiad.protocol.transport.http2.streams import Filling, Stream
from naiad.protocol.transport.listener import UNANSWERED
from naiad.protocol.transport.sockets import TransportSettings

_UNIMPLEMENTED, _DEADLINE_EXCEEDED, _RESOURCE_EXHAUSTED, _INTERNAL, _UNAVAILABLE = 12, 4, 8, 13, 14

NO_METHOD = RpcStatus(_UNIMPLEMENTED, "Method not found!")
DEADLINE = RpcStatus(_DEADLINE_EXCEEDED, "Deadline Exceeded")
NO_TIMEOUT = RpcStatus(_INTERNAL, "Error parsing 'grpc-timeout' metadata")
"""In grpc's words."""
TOO_MUCH_METADATA = RpcStatus(
    _RESOURCE_EXHAUSTED,
    f"received metadata size exceeds hard limit of {MAX_LIST_BYTES} bytes: send less metadata",
)
GIVEN_UP = rpc_status(UNANSWERED)
TOO_OLD = RpcStatus(_UNAVAILABLE, "max connection age")
"""Of calls that the grace of their connection was too short for; in grpc's words."""

_LOG_EVERY_S = 60.0

_ALIGNED = 64
"""The first tensor of a message in shared memory begins at a multiple of what any datatype needs."""

_log = logging.getLogger(__name__)


class Entry(msgspec.Struct, frozen=True):
    """The method of a path.

    Attributes:
        compresses: its responses may be compressed (row 10.36).
        values_in: see `MethodTable.values_in`.
    """

    unary: Unary | None = None
    streaming: Streaming | None = None
    refused: RpcStatus | None = None
    compresses: bool = False
    values_in: ValuesIn | None = None


class BegunCall(msgspec.Struct, frozen=True, gc=False):
    """A call that was admitted. `timeout`: seconds until its deadline, None for none."""

    stream: Stream
    headers: Headers
    head: CallHead
    entry: Entry
    timeout: float | None


class Extras(msgspec.Struct, kw_only=True):
    """What a method sends beside its messages: metadata, and whether the messages that it sends from now on may be compressed."""

    initial: Metadata = ()
    trailing: Metadata = ()
    compress: bool = True


class NativeCall(RpcCall, typing.Protocol):
    """What a call of this engine has beyond `RpcCall`, for services other than Triton's.

    Attributes:
        compressed: whether the message that the method has now came compressed.
        extras: set by the method before it sends; None for what nearly all calls send.
    """

    compressed: bool
    extras: Extras | None


class CallTransport(typing.Protocol):
    """A connection, as its calls see it.

    Attributes:
        h2: its HTTP/2.
        peer: the client's address behind its family.
    """

    h2: Http2Server
    peer: str

    def flush_soon(self) -> None:
        """Write what is to be sent at the end of this iteration of the loop."""


class GrpcService:
    """The parts.

    Attributes:
        entries: by path.
        read_into: what connections read long messages into, see `direct_reader`.
        encodings: of compressed responses, the one that is liked best first; none for no compression.
    """

    def __init__(
        self, methods: MethodTable, settings: GrpcSettings, registry: ConnectionRegistry, transport: TransportSettings,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.transport = transport
        self.registry = registry
        self.methods = methods
        self.limits = Limits()
        self.blocks = BlockCache()
        self.read_into = bytearray(BUFFER_BYTES)
        self.deadlines = Deadlines(registry.loop)
        self.memory = MessageMemory()
        self.encodings = encodings(settings.infer_response_compression_level)
        compresses = bool(self.encodings)
        self.entries = {
            path: Entry(
                unary=method,
                compresses=compresses and path in methods.compressed,
                values_in=methods.values_in.get(path),
            )
            for path, method in methods.unary.items()
        }
        self.entries |= {
            path: Entry(
                streaming=streaming,
                compresses=compresses and path in methods.compressed,
                values_in=methods.values_in.get(path),
            )
            for path, streaming in methods.streaming.items()
        }
        self.entries |= {path: Entry(refused=refused) for path, refused in methods.refused.items()}
        self._logged: dict[ErrorCode, float] = {}

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The server's."""
        return self.registry.loop

    def lender(self, entry: Entry) -> Lend | None:
        """Gives memory for the long messages of a method, if they hold tensors."""
        values_in = entry.values_in
        return None if values_in is None else functools.partial(self._lend, values_in)

    def _lend(self, values_in: ValuesIn, beginning: memoryview, length: int) -> Filling | None:
        found = values_in(beginning)
        if found is None:
            return None
        owner, values_at = found
        at = -values_at % _ALIGNED
        lease = self.registry.memory.take(at + length, owner)
        return None if lease is None else Filling(lease.data[at : at + length])

    def log_failure(self, address: str, code: ErrorCode, why: str) -> None:
        """Log a connection that a client made fail: the first of each kind in a minute, so that an attack does not fill the log."""
        now = self.registry.now
        first = now - self._logged.get(code, -_LOG_EVERY_S) >= _LOG_EVERY_S
        if first:
            self._logged[code] = now
        calm = code is ErrorCode.ENHANCE_YOUR_CALM
        level = logging.DEBUG if not first else logging.WARNING if calm else logging.INFO
        _log.log(level, "closed the gRPC connection of %s: %s, %s", address, code.name, why)

    def close(self) -> None:
        """Stop the timers."""
        self.deadlines.close()
        self.memory.close()


def encodings(level: str) -> tuple[bytes, ...]:
    """What a level of compression means (row 10.36): grpc takes gzip for low, and deflate above, if the client reads it."""
    match COMPRESSION_LEVELS.index(level):
        case 0:
            return ()
        case 1:
            return (b"gzip", b"deflate")
        case _:
            return (b"deflate", b"gzip")
