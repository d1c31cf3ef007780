"""A server of models as an ASGI application, to run by itself under any ASGI server, or to mount in an application of yours (docs/asgi.md).

    from naiad.asgi import create_app, mount

    app = create_app(model_repository="models")             # uvicorn module:app

    mine = fastapi.FastAPI()
    mount(mine, "/triton", create_app(model_repository="models"))

Every HTTP path of `naiad serve` is there, answered by the same handlers. The models run in this process's workers and threads and are loaded and
unloaded with the application's lifespan.
"""

import asyncio
import collections.abc
import contextlib
import logging
import pathlib
import typing

import fastapi
import msgspec
from starlette.applications import Starlette

from naiad.core.clock import SystemClock
from naiad.errors import unavailable
from naiad.options.keywords import LOGGING, Values, keyword_options, repositories
from naiad.options.options import Options
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.admin.app import build
from naiad.protocol.http.admin.control_plane import Gate
from naiad.protocol.http.asgi.fast_call import send_reply
from naiad.protocol.http.asgi.middleware import RequestMiddleware, RequestSettings
from naiad.protocol.http.asgi.services import LateServices, Services
from naiad.protocol.http.message import AsgiApp, Receive, Scope, Send
from naiad.protocol.http.replies import error_reply
from naiad.protocol.http.routes import HttpOptions, Routes
from naiad.protocol.tokens import TokenFile
from naiad.serve.assembly import Assembly, AssemblyError, tracer_of
from naiad.serve.embedded import StartError, embedded
from naiad.serve.frontends import http_options, observer_of
from naiad.tracing.tracer import Tracer

__all__ = ("StartError", "create_app", "mount")

log = logging.getLogger("naiad.asgi")

_SERVERS_OWN = "the ASGI server that runs the application owns ports and connections: tell it there"
_REFUSED = {
    "allow_http": _SERVERS_OWN,
    "http_address": _SERVERS_OWN,
    "http_port": _SERVERS_OWN,
    "reuse_http_port": _SERVERS_OWN,
    "http_engine": _SERVERS_OWN,
    "http_idle_timeout_secs": _SERVERS_OWN,
    "shutdown_delay_secs": "the ASGI server that runs the application decides how long it accepts",
    **LOGGING,
}
_OF_RUNNING = frozenset(
    (
        "http_max_input_size", "http_header_forward_pattern", "http_restricted_api", "http_base_path", "http_body_timeout_secs",
        "allow_kserve_v1",
        "auth_token_file", "access_log", "slow_request_ms",
    )
)  # fmt: skip
"""The options of an application for a server that runs already."""


def create_app(
    server: Assembly | None = None,
    *,
    model_repository: str | pathlib.Path | collections.abc.Sequence[str | pathlib.Path] = (),
    **options: Values,
) -> fastapi.FastAPI:
    """An application with every HTTP path of Naiad.

    It starts and stops with its lifespan; an application that is mounted without `mount` starts with its first request, which waits for the
    models, and stops with the event loop. gRPC and metrics have ports of their own with `allow_grpc=True` and `allow_metrics=True`.

    Args:
        server: parts that run already and stay the caller's (`naiad.serve.assembly`), in place of a repository.
        model_repository: a folder or an address of an object store, or several.
        options: those of `naiad serve`, with underscores; a list for one that may be given several times.

    Raises:
        ValueError: an option is unknown, has a wrong value, or belongs to the ASGI server.
    """
    parsed = _parsed(server, model_repository, options)
    clock = SystemClock()
    try:
        tokens = TokenFile(parsed.auth_token_file, clock=clock) if parsed.auth_token_file else None
        http = http_options(parsed, tokens, None)
        http.limits()
    except OSError as error:
        raise ValueError(f"auth_token_file={parsed.auth_token_file}: {error.strerror}") from None
    services = LateServices()
    try:
        tracer = tracer_of(parsed, clock) if server is None else server.engine.tracer
    except AssemblyError as error:
        raise ValueError(str(error)) from None
    running = _Running(parsed, http, services, server, tracer)

    @contextlib.asynccontextmanager
    async def lifespan(_: fastapi.FastAPI) -> collections.abc.AsyncIterator[None]:
        try:
            await running.start()
            yield
        finally:
            await running.stop()

    app = build(
        services,
        base_path=parsed.http_base_path,
        kserve_v1=parsed.allow_kserve_v1,
        lifespan=lifespan,
    )
    # The last one is the first to see a request.
    app.add_middleware(Gate, http.restrictions, tokens, base_path=parsed.http_base_path)
    app.add_middleware(
        RequestMiddleware,
        lambda: services.now.routes,
        RequestSettings(body_idle_timeout=parsed.http_body_timeout_secs),
        observer_of(parsed, tracer, clock, protocol="HTTP"),
    )
    app.add_middleware(_Started, running)
    return app


def mount(app: Starlette, path: str, naiad: fastapi.FastAPI) -> None:
    """Mount an application of `create_app` in another one, whose lifespan starts and stops it: a framework's `mount` alone does not.

    Args:
        app: FastAPI's or Starlette's.
        path: the prefix of every path, e.g. "/triton".
        naiad: what `create_app` made.
    """
    outer = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(of: typing.Any) -> collections.abc.AsyncIterator[typing.Any]:
        async with naiad.router.lifespan_context(naiad), outer(of) as state:
            yield state

    app.router.lifespan_context = lifespan
    app.mount(path, naiad)


def _parsed(
    server: Assembly | None,
    repository: str | pathlib.Path | collections.abc.Sequence[str | pathlib.Path],
    options: collections.abc.Mapping[str, Values],
) -> Options:
    found = repositories(repository)
    if server is not None:
        wrong = sorted(options.keys() - _OF_RUNNING) or (["model_repository"] if found else [])
        if wrong:
            raise ValueError(
                f"{wrong[0]}: the server runs already: an application for it takes {', '.join(sorted(_OF_RUNNING))}"
            )
        found = ["."]  # not read
    return keyword_options(found, options, refused=_REFUSED)


class _Running:
    """The server behind an application. A task holds it, so that it ends in order also where nothing but the event loop ends."""

    def __init__(
        self,
        options: Options,
        http: HttpOptions,
        services: LateServices,
        server: Assembly | None,
        tracer: Tracer,
    ) -> None:
        self._tracer = tracer
        self._options = options
        self._http = http
        self._services = services
        self._server = server
        self._clock = SystemClock()
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Load the models and serve; waits for a start in progress.

        Raises:
            StartError: the server cannot start.
        """
        if self._started is None:
            loop = asyncio.get_running_loop()
            self._stopping = asyncio.Event()
            self._started = loop.create_future()
            self._task = loop.create_task(self._run(self._started))
        await asyncio.shield(self._started)

    async def stop(self) -> None:
        """Finish requests and unload the models. It may be started again."""
        task, self._task, self._started = self._task, None, None
        if task is not None:
            self._stopping.set()
            await task

    async def _run(self, started: asyncio.Future[None]) -> None:
        try:
            if self._server is not None:
                await self._serve(self._server, started)
                return
            async with embedded(self._options, clock=self._clock, tracer=self._tracer) as running:
                await self._serve(running.assembly, started)
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)
            started.exception()  # it counts as read, also where no request waits for the start any more
        finally:
            self._services.close()
            if not started.done():
                started.cancel()

    async def _serve(self, assembly: Assembly, started: asyncio.Future[None]) -> None:
        codec = Codec()
        routes = Routes(assembly.engine, msgspec.structs.replace(self._http, codec=codec))
        self._services.open(Services(assembly.engine, routes, codec))
        try:
            started.set_result(None)
            await self._stopping.wait()
        finally:
            codec.close()


class _Started:
    """Middleware that has a request wait for the server; without a lifespan the first one starts it."""

    def __init__(self, app: AsgiApp, running: _Running) -> None:
        self._app = app
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await self._running.start()
            except StartError as error:
                await send_reply(error_reply(unavailable(str(error))), send)
                return
        await self._app(scope, receive, send)
