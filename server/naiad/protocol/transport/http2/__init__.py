"""HTTP/2 of a server (RFC 9113) without I/O: bytes in, events out; calls in, bytes out. `connection.py` is the way in."""
