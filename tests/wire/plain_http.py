"""One plain HTTP request, as a client without any library of its own would send it."""

import contextlib
import http.client
import json
from typing import Any

_TIMEOUT_S = 120  # a load may install an environment; who gives up sooner has a timeout of the test


def call(
    address: str, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, bytes]:
    """Send a request on a connection of its own.

    Args:
        address: `host:port`.
        method: e.g. GET.
        path: with its query.
        body: text or bytes as they are, anything else as JSON.
        headers: as they are.

    Returns:
        The status, and the whole body of the reply.
    """
    data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
    with contextlib.closing(http.client.HTTPConnection(address, timeout=_TIMEOUT_S)) as connection:
        connection.request(method, path, data, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()


def get(address: str, path: str, **headers: str) -> tuple[int, bytes]:
    """The same for GET."""
    return call(address, "GET", path, **headers)
