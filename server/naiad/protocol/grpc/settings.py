"""The gRPC options as one value, and their names in grpc (rows 10.7, 10.36-10.39, 17.4)."""

import types

import msgspec

from naiad.protocol.restricted import Restrictions
from naiad.protocol.tokens import TokenFile
from naiad.protocol.transport.sockets import bind_error, written

MAX_MESSAGE_BYTES = 2**31 - 1
"""The largest message that grpc can send or receive (row 10.7)."""

_MAX_INT = 2**31 - 1
"""Channel arguments are C ints."""

_PENDING_CALLS = 10_000
"""Calls that may wait in grpc until the event loop takes them. Above it grpc refuses new calls by chance, and above twice as
many all of them, with CANCELLED: by its default of 1,000 a burst of one client's calls ended other clients' calls. A waiting
call takes about 16 KB."""


class CannotServeError(ValueError):
    """gRPC cannot be served with these settings; the message says which option to change."""


COMPRESSION_LEVELS = ("none", "low", "medium", "high")


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`--grpc-use-ssl` and its files (row 10.37).

    Attributes:
        server_cert: PEM file with the server's certificate chain.
        root_cert: PEM file with the authorities that client certificates are checked against; "" for none.
    """

    server_cert: str
    server_key: str
    root_cert: str = ""
    mutual: bool = False


class GrpcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an administrator may set; names and defaults are Triton's without `grpc-`.

    Attributes:
        address: host name or address, an IPv6 one without brackets.
        reuse_port: whether other servers may listen on the same port (row 1.23).
        reflection: whether the services of grpc.reflection are served; ours.
        max_decompressed_bytes: of one message.
        infer_response_compression_level: one of COMPRESSION_LEVELS (row 10.36).
        keepalive_time_ms, keepalive_timeout_ms, keepalive_permit_without_calls, max_pings_without_data,
            min_recv_ping_interval_ms, max_ping_strikes: row 10.38.
        max_connection_age_ms, max_connection_age_grace_ms: row 10.39; 0 means no limit.
    """

    address: str = "0.0.0.0"  # noqa: S104 - Triton's default
    port: int = 8001
    reuse_port: bool = False
    header_forward_pattern: str = ""
    reflection: bool = False
    restrictions: Restrictions = msgspec.field(default_factory=lambda: types.MappingProxyType({}))
    tokens: TokenFile | None = None
    tls: TlsSettings | None = None
    max_decompressed_bytes: int = 256 * 1024 * 1024
    infer_response_compression_level: str = "none"
    keepalive_time_ms: int = 7_200_000
    keepalive_timeout_ms: int = 20_000
    keepalive_permit_without_calls: bool = False
    max_pings_without_data: int = 2
    min_recv_ping_interval_ms: int = 300_000
    max_ping_strikes: int = 2
    max_connection_age_ms: int = 0
    max_connection_age_grace_ms: int = 0


def channel_arguments(settings: GrpcSettings) -> tuple[tuple[str, int], ...]:
    """The settings under their names in grpc; a number that is too large for grpc becomes the largest possible."""
    arguments = {
        "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
        "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
        # We do it ourselves: see `codec/compression.py`.
        "grpc.per_message_decompression": 0,
        "grpc.server.max_pending_requests": _PENDING_CALLS,
        "grpc.server.max_pending_requests_hard_limit": 2 * _PENDING_CALLS,
        "grpc.so_reuseport": int(settings.reuse_port),
        "grpc.keepalive_time_ms": settings.keepalive_time_ms,
        "grpc.keepalive_timeout_ms": settings.keepalive_timeout_ms,
        "grpc.keepalive_permit_without_calls": int(settings.keepalive_permit_without_calls),
        "grpc.http2.max_pings_without_data": settings.max_pings_without_data,
        "grpc.http2.min_ping_interval_without_data_ms": settings.min_recv_ping_interval_ms,
        "grpc.http2.max_ping_strikes": settings.max_ping_strikes,
    }
    if settings.max_connection_age_ms:
        arguments["grpc.max_connection_age_ms"] = settings.max_connection_age_ms
    if settings.max_connection_age_grace_ms:
        arguments["grpc.max_connection_age_grace_ms"] = settings.max_connection_age_grace_ms
    level = COMPRESSION_LEVELS.index(settings.infer_response_compression_level)
    if level:
        # As a level, not as an algorithm: grpc then takes one that the client accepts (gzip for low, deflate above).
        arguments["grpc.default_compression_level"] = level
    return tuple((name, min(value, _MAX_INT)) for name, value in arguments.items())


def cannot_listen(settings: GrpcSettings) -> CannotServeError:
    """The error of a port that cannot be taken, with the kernel's reason."""
    why = bind_error(settings.address, settings.port) or "the system gives no reason"
    return CannotServeError(
        f"cannot listen for gRPC on {target(settings)}: {why}; choose another --grpc-port or --grpc-address, or let "
        "servers share the port with --reuse-grpc-port=true"
    )


def target(settings: GrpcSettings) -> str:
    """Address and port in one, as grpc wants them: `127.0.0.1:8001`, `[::1]:8001`."""
    return written(settings.address, settings.port)
