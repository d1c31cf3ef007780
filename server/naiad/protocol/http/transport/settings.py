"""The limits and timeouts of HTTP connections, each with its default and the reason for it. Times are seconds."""

from naiad.protocol.transport.sockets import TransportSettings


class HttpSettings(TransportSettings, frozen=True, kw_only=True):
    """What holds for every HTTP connection.

    Attributes:
        keep_alive_timeout: how long a connection may stay without a request before it is closed. Longer than the 60 s
            after which common load balancers drop theirs, so that the server is not the first to close.
        head_timeout: from the first byte of a request to the end of its headers; a total, so that a byte now and then does
            not hold a connection for ever. Then 408.
        body_idle_timeout: how long a body may stay without a byte. Then 408.
        max_head_bytes: request line and headers together; more is 431.
        max_line_bytes: the request line; more is 414. Model names and versions need less than 1 KiB.
        max_chunks: transfer chunks of one body; more is 400 (row 1.13: exactly the maximum passes).
        max_pipelined: requests of one connection that may wait for their responses; the next is not read before one of them is sent.
        iteration_seconds: after so long a connection that has further requests waiting lets others have the event loop, and continues in
            the next iteration of the loop. Each iteration takes one request at least.
        iteration_bytes: the same after so many unsent reply bytes.
        body_high_bytes: body bytes that the ASGI application has not taken, above which reading stops.
        discard_bytes: how much of a body that no handler wants may be left if the connection is to be kept: reading so little is
            cheaper than a new connection.
        join_bytes: replies up to this size are joined and written at once; larger parts are handed over as they are.
        known_heads: how many header blocks are remembered in parsed form (they repeat); 0 switches it off.
        known_head_bytes: longer header blocks are not remembered.
    """

    keep_alive_timeout: float = 75.0
    head_timeout: float = 30.0
    body_idle_timeout: float = 60.0
    max_head_bytes: int = 65536
    max_line_bytes: int = 16384
    max_chunks: int = 65536
    max_pipelined: int = 64
    iteration_seconds: float = 0.002
    iteration_bytes: int = 65536
    body_high_bytes: int = 262144
    discard_bytes: int = 65536
    join_bytes: int = 65536
    known_heads: int = 1024
    known_head_bytes: int = 2048
