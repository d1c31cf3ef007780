"""The limits and times of the HTTP transport, each with its default and the reason for it.

Times are seconds. They are watched by one coarse timer for all connections (`registry.py`), so that a request costs no
timer: a time is never cut short and is overrun by at most `tick`.
"""

import msgspec


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may turn.

    Attributes:
        keep_alive_timeout: how long a connection may stay without a request before it is closed. Longer than the 60 s
            after which common load balancers drop theirs, so that the server is not the one who closes first.
        head_timeout: from the first byte of a request to the end of its headers; a total, so that a byte now and then does
            not hold a connection for ever. Then 408.
        body_idle_timeout: how long a body may stay without a byte. Then 408.
        write_stall_timeout: how long a client may take nothing of a reply that waits for it. Then the connection is cut.
        linger_timeout: how long to go on reading, and throwing away, what a refused client still sends. Closed at once,
            the kernel would answer its bytes with a reset that destroys the reply which says what was wrong.
        tick: how often the times above are looked at.
        max_head_bytes: request line and headers together; more is 431.
        max_line_bytes: the request line; more is 414. Model names and versions need less than 1 KiB.
        max_chunks: transfer chunks of one body; more is 400 (row 1.13: exactly the maximum passes).
        max_pipelined: requests of one connection that may wait for their replies; the next is not read until one left.
        turn_seconds: after so long a connection that has further requests waiting lets others have the event loop, and goes on in
            the loop's next turn. Each turn takes one request at least.
        turn_bytes: the same after so many unsent reply bytes.
        write_high_bytes: unsent reply bytes of a connection above which it gets no further request.
        body_high_bytes: body bytes that the ASGI application has not taken, above which reading stops.
        discard_bytes: what may be left of a body that nobody wants for the connection to be kept: reading so little is
            cheaper than a new connection.
        join_bytes: replies up to this size are joined and written at once; larger parts are handed over as they are.
        known_heads: how many header blocks are remembered in parsed form (they repeat); 0 switches it off.
        known_head_bytes: longer header blocks are not remembered.
        backlog: connections that the kernel may hold before they are accepted.
        probe_idle: SO_KEEPALIVE finds peers that vanished without a word: first probe after so many seconds,
        probe_interval: the next ones after so many seconds,
        probe_count: and the connection is lost after so many without an answer.
    """

    keep_alive_timeout: float = 75.0
    head_timeout: float = 30.0
    body_idle_timeout: float = 60.0
    write_stall_timeout: float = 60.0
    linger_timeout: float = 5.0
    tick: float = 1.0
    max_head_bytes: int = 65536
    max_line_bytes: int = 16384
    max_chunks: int = 65536
    max_pipelined: int = 64
    turn_seconds: float = 0.002
    turn_bytes: int = 65536
    write_high_bytes: int = 262144
    body_high_bytes: int = 262144
    discard_bytes: int = 65536
    join_bytes: int = 65536
    known_heads: int = 1024
    known_head_bytes: int = 2048
    backlog: int = 2048
    probe_idle: int = 60
    probe_interval: int = 15
    probe_count: int = 4
