"""Opens sessions that send requests to the API server with the operator's credentials: those of `client`, and kopf's own."""

import collections.abc
from asyncio import sslproto

import aiohttp

from naiad_operator.cluster.credentials import Credentials

_UNAUTHORIZED = 401
_TLS_BUFFER = 1 << 16
"""In bytes; a record of TLS has at most 16 KiB."""


def open_session(
    access: Credentials,
    *,
    agent: str,
    middlewares: collections.abc.Sequence[aiohttp.ClientMiddlewareType] = (),
    response_class: type[aiohttp.ClientResponse] = aiohttp.ClientResponse,
) -> aiohttp.ClientSession:
    """Opens a session that adds the credentials to each request, and has them loaded again after a 401.

    Args:
        access: the credentials.
        agent: what the session calls itself.
        middlewares: more of them, around the one with the credentials.
        response_class: the class of its responses.
    """

    async def authorize(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        endpoint = await access.current()
        if endpoint.authorization:
            request.headers["Authorization"] = endpoint.authorization
        if endpoint.server_name:
            request.server_hostname = endpoint.server_name
        if endpoint.tls:
            # There is no public way to a new client certificate, short of another session.
            request._ssl = endpoint.tls  # noqa: SLF001 - see above
        response = await handler(request)
        if response.status == _UNAUTHORIZED:
            access.forget(endpoint)
        return response

    # asyncio reserves this for each connection, 256 KiB by default: with a watch per kind and a request per worker, seven megabytes.
    sslproto.SSLProtocol.max_size = _TLS_BUFFER
    # No connection limit: each watch holds one connection, and the number of workers bounds the rest.
    connector = aiohttp.TCPConnector(limit=0, ssl=access.endpoint.tls or False)
    return aiohttp.ClientSession(
        connector=connector,
        headers={"User-Agent": agent},
        middlewares=(*middlewares, authorize),
        response_class=response_class,
        proxy=access.endpoint.proxy or None,
    )
