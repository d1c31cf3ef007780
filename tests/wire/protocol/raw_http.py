"""Bytes sent to a server over a plain socket, for requests that no HTTP library would write."""

import contextlib
import http.client
import socket

GIVE_UP_S = 60


def connect(address: str) -> socket.socket:
    """A connection to `host:port`; a read that takes longer than a minute fails the test."""
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=GIVE_UP_S)


def exchange(address: str, data: bytes, *, method: str = "GET") -> tuple[int, bytes]:
    """Send bytes that hold one request of `method`, and read one reply: its status and body.

    Raises:
        http.client.HTTPException: the server closed without a reply.
    """
    with contextlib.closing(connect(address)) as peer:
        peer.sendall(data)
        reply = http.client.HTTPResponse(peer, method=method)
        reply.begin()
        return reply.status, reply.read()
