"""The settings of a response cache, as the command line gives them."""

import msgspec
from typing_extensions import override

LEAST_BYTES = 1024
"""The smallest size of a store, as in the reference."""


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A cache in the server's memory.

    Attributes:
        size: bytes.
        full_key: whether shapes, parameters and requested outputs are part of the key, beyond the reference's.
    """

    size: int
    full_key: bool = False


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A cache in Redis, which several servers may share.

    Attributes:
        user, password: "" for none.
        db: the number of the database.
        socket_timeout_ms: how long a request waits for Redis at most.
        connect_timeout_ms: how long a connection may take; no request waits for it.
        tls: whether the connection is encrypted.
        cert, key: files of a client's certificate and its key; "" for none.
        cacert, cacertdir: the certificates that the server's is checked against; "" for those of the system.
        sni: the name that the server's certificate must have; "" for the host.
        full_key: as of `LocalSettings`.
    """

    host: str
    port: int
    user: str = ""
    password: str = ""
    db: int = 0
    socket_timeout_ms: int = 20
    connect_timeout_ms: int = 1_000
    tls: bool = False
    cert: str = ""
    key: str = ""
    cacert: str = ""
    cacertdir: str = ""
    sni: str = ""
    full_key: bool = False

    @override
    def __repr__(self) -> str:
        return f"RedisSettings(host={self.host!r}, port={self.port})"  # no password


CacheSettings = LocalSettings | RedisSettings
