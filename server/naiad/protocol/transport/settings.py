"""The limits and timeouts of connections, whatever protocol they carry, each with its default and the reason for it.

Times are seconds. They are checked by one coarse timer for all connections (`connection_registry.py`), so that a request costs no
timer: a timeout never ends early and is overrun by at most `tick`.
"""

import msgspec


class TransportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every connection.

    Attributes:
        write_stall_timeout: how long a client may read nothing of a response that waits for it. Then the connection is aborted.
        linger_timeout: how long to go on reading, and dropping, what a refused client still sends. If the socket were closed at once,
            the kernel would answer those bytes with a reset that destroys the response which says what was wrong.
        tick: how often the timeouts are checked.
        write_high_bytes: unsent response bytes of a connection above which no further request is taken from it.
        backlog: connections that the kernel may hold before they are accepted.
        probe_idle: SO_KEEPALIVE finds peers that vanished without a word: first probe after so many seconds,
        probe_interval: the next ones after so many seconds,
        probe_count: and the connection is lost after so many without an answer.
    """

    write_stall_timeout: float = 60.0
    linger_timeout: float = 5.0
    tick: float = 1.0
    write_high_bytes: int = 262144
    backlog: int = 2048
    probe_idle: int = 60
    probe_interval: int = 15
    probe_count: int = 4
