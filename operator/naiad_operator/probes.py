"""/healthz, /readyz and /metrics, on a port of their own.

Ours and not kopf's endpoint: that one answers from a cache of ten seconds, has no readiness, and waits for ever where a probe
raises. /healthz fails when a restart would help (the queue does not move, a watch has died), /readyz until every service that
was there at the start has been looked at once.
"""

import collections.abc
import contextlib
import logging
import os

from aiohttp import web

from naiad_operator.runtime import Runtime

_log = logging.getLogger(__name__)
_PAGE = "text/plain; version=0.0.4"


class PortUnavailable(Exception):  # noqa: N818 - reads as what happened
    """Nothing can be served on the port that was asked for."""


_LEAVE_S = 1.0
"""How long an answer that is on its way when the port is closed may take; none of them waits for anything."""


class Probes:
    """The port, while it is served.

    Args:
        runner: what serves it.
    """

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner

    @property
    def port(self) -> int:
        """Its number."""
        port: int = self._runner.addresses[0][1]
        return port

    async def close(self) -> None:
        """Serves no more, and lets go of every connection, also of those that say nothing. Safe to call again."""
        await self._runner.cleanup()


@contextlib.asynccontextmanager
async def serving(runtime: Runtime) -> collections.abc.AsyncIterator[Probes]:
    """Serves as long as the block runs, or until it is closed before.

    Raises:
        PortUnavailable: see there; the message says what to do.
    """
    app = web.Application()
    app.router.add_get("/healthz", _answering(runtime.stuck))
    app.router.add_get("/readyz", _answering(runtime.unready))
    app.router.add_get("/metrics", _metrics(runtime))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_LEAVE_S)
    await runner.setup()
    probes = Probes(runner)
    try:
        host, asked = runtime.options.http_host, runtime.options.http_port
        try:
            await web.TCPSite(runner, host, asked).start()
        except OSError as error:
            raise PortUnavailable(
                f"cannot listen on {host}:{asked} for probes and metrics: {os.strerror(error.errno or 0)}; choose another --http-port or --http-host"
            ) from error
        _log.info("/healthz, /readyz and /metrics are on port %d", probes.port)
        yield probes
    finally:
        await probes.close()


_Handler = collections.abc.Callable[[web.Request], collections.abc.Awaitable[web.Response]]


def _answering(problem: collections.abc.Callable[[], str]) -> _Handler:
    async def answer(_: web.Request) -> web.Response:
        said = problem()
        return web.Response(status=503 if said else 200, text=f"{said or 'ok'}\n")

    return answer


def _metrics(runtime: Runtime) -> _Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=runtime.page().encode(), headers={"Content-Type": _PAGE})

    return answer
