"""An ASGI application that imports and builds the control plane when its first request comes.

FastAPI costs 20 to 40 MB and a few tenths of a second; a server that only infers and answers probes never pays. It is built on
another thread, so that inference continues meanwhile.
"""

import asyncio
import importlib
import logging

from naiad.engine.api import Engine
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.guard import Guard, answer, header_of, is_open
from naiad.protocol.http.message import AsgiApp, FastRoutes, Receive, Scope, Send
from naiad.protocol.http.replies import RETRY_AFTER, refusal
from naiad.protocol.http.routes import NO_TOKEN
from naiad.protocol.restricted import Restrictions
from naiad.protocol.tokens import HEADER, TokenFile

log = logging.getLogger("naiad.http")

_NOT_STARTED = "the control plane could not be started"
_NOT_NOW = refusal(
    503,
    "the server has no file descriptor or no memory left to answer this: send the request again later, and if this happens often, give "
    "the server a higher limit of open files (ulimit -n) or more memory",
    extra=(RETRY_AFTER,),
)


class ControlPlane:
    """The ASGI application to give to the listener.

    Args:
        engine: knows the models.
        routes: the fast lane, for paths that both have.
        restrictions: the headers that calls of some categories need; may be empty.
        tokens: every call except those about health needs one of them; None requires no token.
        codec: decodes large bodies; without it the loop does.
    """

    def __init__(
        self,
        engine: Engine,
        routes: FastRoutes,
        restrictions: Restrictions,
        tokens: TokenFile | None = None,
        codec: Codec | None = None,
    ) -> None:
        self._codec = codec
        self._engine = engine
        self._routes = routes
        self._restrictions = restrictions
        self._tokens = tokens
        self._app: AsgiApp | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        # Before the application is made: a call without a token does not cost its memory either.
        if not (
            self._tokens is None or is_open(scope) or self._tokens.admits(header_of(scope, HEADER))
        ):
            await answer(NO_TOKEN, send)
            return
        try:
            app = self._app or await self.load()
        except OSError as error:
            log.error("%s: the next request tries again: %s", _NOT_STARTED, error)  # noqa: TRY400 - the message is the whole story
            await answer(_NOT_NOW, send)
            return
        if scope["method"] == "HEAD":
            # HEAD is handled as GET; the connection leaves out the body.
            scope["method"] = "GET"
        await app(scope, receive, send)

    async def load(self) -> AsgiApp:
        """Make the application now; once, however many requests come at the same time."""
        async with self._lock:
            if self._app is None:
                self._app = await asyncio.get_running_loop().run_in_executor(None, self._make)
            return self._app

    def _make(self) -> AsgiApp:
        module = importlib.import_module("naiad.protocol.http.admin.app")
        app: AsgiApp = module.build(self._engine, self._routes, self._codec)
        return Guard(app, self._restrictions) if self._restrictions else app
