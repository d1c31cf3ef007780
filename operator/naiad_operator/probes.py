"""Serves /healthz, /readyz and /metrics on one port.

kopf's own endpoint is not used: it responds from a cache of ten seconds, has no readiness, and never responds when a probe
raises. /healthz fails when a restart would help (the queue makes no progress, a watch task has died). /readyz fails until every
service that existed at the start has been reconciled once.
"""

import collections.abc
import contextlib
import logging
import os

from aiohttp import web

from naiad_operator.runtime import Runtime
from naiad_operator.runtime.health import Report

_log = logging.getLogger(__name__)
_PAGE = "text/plain; version=0.0.4"


class PortUnavailable(Exception):  # noqa: N818 - reads as what happened
    """The configured port cannot be opened."""


_SHUTDOWN_TIMEOUT_S = 1.0
"""How long a response that is in flight may take when the port is closed; no handler waits for anything."""


class Probes:
    """The port while it is served.

    Args:
        runner: the aiohttp runner that serves it.
    """

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner

    @property
    def port(self) -> int:
        """The port number."""
        port: int = self._runner.addresses[0][1]
        return port

    async def close(self) -> None:
        """Stops serving and closes every connection, including idle ones. Safe to call again."""
        await self._runner.cleanup()


@contextlib.asynccontextmanager
async def serving(runtime: Runtime) -> collections.abc.AsyncIterator[Probes]:
    """Serves as long as the block runs, or until it is closed before.

    Raises:
        PortUnavailable: the port cannot be opened; the message says what to do.
    """
    app = web.Application()
    app.router.add_get("/healthz", _text_handler(runtime.health.liveness))
    app.router.add_get("/readyz", _text_handler(runtime.health.readiness))
    app.router.add_get("/metrics", _metrics(runtime))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    probes = Probes(runner)
    try:
        host, port = runtime.options.http_host, runtime.options.http_port
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise PortUnavailable(
                f"cannot listen on {host}:{port} for probes and metrics: {os.strerror(error.errno or 0)}; choose another --http-port or --http-host"
            ) from error
        _log.info("/healthz, /readyz and /metrics are on port %d", probes.port)
        yield probes
    finally:
        await probes.close()


_Handler = collections.abc.Callable[[web.Request], collections.abc.Awaitable[web.Response]]


def _text_handler(check: collections.abc.Callable[[], Report]) -> _Handler:
    async def handle(_: web.Request) -> web.Response:
        report = check()
        return web.Response(status=200 if report.ok else 503, text=f"{report.text}\n")

    return handle


def _metrics(runtime: Runtime) -> _Handler:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=runtime.page().encode(), headers={"Content-Type": _PAGE})

    return handle
