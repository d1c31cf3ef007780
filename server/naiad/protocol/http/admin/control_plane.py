"""An ASGI application that imports and builds the control plane when its first request comes.

FastAPI costs 20 to 40 MB and a few tenths of a second; a server that only infers and answers probes never pays. It is built on
another thread, so that inference continues meanwhile. Restricted APIs (rows 17.15, 17.16) are checked before its router, so that a call without
the header learns nothing, not even that its method is wrong; the fast lane guards its own paths (`routes.py`).
"""

import asyncio
import importlib
import logging

from naiad.engine.api import Engine
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.message import AsgiApp, FastRoutes, HttpReply, Receive, Scope, Send
from naiad.protocol.http.paths import BASE_PATH, category_of, without_base
from naiad.protocol.http.replies import RETRY_AFTER, refusal
from naiad.protocol.http.routes import NO_TOKEN
from naiad.protocol.restricted import Category, Restriction, Restrictions
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
        tokens: every call except those about health needs one of them; None requires no token.
        base_path: every path is served below it as well; "" for no prefix.
    """

    def __init__(
        self,
        engine: Engine,
        routes: FastRoutes,
        restrictions: Restrictions,
        tokens: TokenFile | None = None,
        codec: Codec | None = None,
        *,
        base_path: str = "",
    ) -> None:
        self._codec = codec
        self._base_path = base_path
        self._engine = engine
        self._routes = routes
        self._restrictions = restrictions
        self._tokens = tokens
        self._app: AsgiApp | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        path = scope["path"]
        # In `path` and not as ASGI's `root_path`: the router would remove that again, from a path that has it twice.
        scope["path"] = without_base(self._base_path, path)
        if scope["path"] != path:
            scope[BASE_PATH] = self._base_path
        # Before the application is made: a call without a token does not cost its memory either.
        if not (
            self._tokens is None or is_open(scope) or self._tokens.admits(header_of(scope, HEADER))
        ):
            await respond(NO_TOKEN, send)
            return
        try:
            app = self._app or await self.load()
        except OSError as error:
            log.error("%s: the next request tries again: %s", _NOT_STARTED, error)  # noqa: TRY400 - the message is the whole story
            await respond(_NOT_NOW, send)
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
        app: AsgiApp = module.build(
            self._engine, self._routes, self._codec, base_path=self._base_path
        )
        return Guard(app, self._restrictions) if self._restrictions else app


class Guard:
    """Checks the header of a restricted category, then calls the application. It exists only if something is restricted.

    Deny by default: the framework's router and `paths.py` could read a path differently, so a path under `/v2` that has no category
    needs the header of every restriction.
    """

    def __init__(self, app: AsgiApp, restrictions: Restrictions) -> None:
        self._app = app
        self._restrictions = restrictions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with 403, or call the application."""
        for restriction in self._required(scope["path"]):
            if not restriction.admits(header_of(scope, restriction.header)):
                await respond(refusal(403, restriction.refusal), send)
                return
        await self._app(scope, receive, send)

    def _required(self, path: str) -> list[Restriction]:
        """The restrictions that a call of this path has to meet."""
        category = category_of(path)
        if category is None:
            return list(self._restrictions.values()) if path.startswith("/v2") else []
        restriction = self._restrictions.get(category)
        return [] if restriction is None else [restriction]


def is_open(scope: Scope) -> bool:
    """Whether a call is about health, which needs no token."""
    return category_of(scope["path"]) is Category.HEALTH


async def respond(reply: HttpReply, send: Send) -> None:
    """Send a whole reply of one part."""
    (body,) = reply.body
    headers = [(name.lower(), value) for name, value in reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def header_of(scope: Scope, name: str) -> bytes | None:
    """A header of a request; None when it did not come."""
    wanted = name.lower().encode()
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value for key, value in headers if key == wanted), None)
