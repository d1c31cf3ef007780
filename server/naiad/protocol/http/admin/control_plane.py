"""The control plane before it is there: an ASGI application that makes the real one when its first request comes.

FastAPI costs 20 to 40 MB and a few tenths of a second; a server that only infers and answers probes never pays. Making it happens on
another thread, so that inference goes on meanwhile.
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

_NOT_MADE = "the control plane could not be made"
_NOT_NOW = refusal(
    503,
    "the server has no file descriptor or no memory left to answer this: send the request again later, and if this happens often, give "
    "the server a higher limit of open files (ulimit -n) or more memory",
    extra=(RETRY_AFTER,),
)


class ControlPlane:
    """The ASGI application to give to the listener.

    Args:
        engine: who knows the answers.
        routes: the fast lane, for paths that both have.
        restrictions: what calls of some categories have to bring; may be empty.
        tokens: the tokens of which every call but those about health has to bring one; None asks nobody.
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
        self._making = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # Before the application is made: who has no token does not cost its memory either.
        if not (
            self._tokens is None or is_open(scope) or self._tokens.admits(header_of(scope, HEADER))
        ):
            await answer(NO_TOKEN, send)
            return
        try:
            app = self._app or await self.load()
        except OSError as error:
            log.error("%s: the next request tries again: %s", _NOT_MADE, error)  # noqa: TRY400 - the message is the whole story
            await answer(_NOT_NOW, send)
            return
        if scope["method"] == "HEAD":
            # Whatever GET answers, HEAD answers too; the connection leaves out the body.
            scope["method"] = "GET"
        await app(scope, receive, send)

    async def load(self) -> AsgiApp:
        """Make the application now; once, however many ask at the same time."""
        async with self._making:
            if self._app is None:
                self._app = await asyncio.get_running_loop().run_in_executor(None, self._make)
            return self._app

    def _make(self) -> AsgiApp:
        module = importlib.import_module("naiad.protocol.http.admin.app")
        app: AsgiApp = module.build(self._engine, self._routes, self._codec)
        return Guard(app, self._restrictions) if self._restrictions else app
