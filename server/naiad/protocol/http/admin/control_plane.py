"""An ASGI application that imports and builds the control plane when its first request comes.

FastAPI costs 20 to 40 MB and a few tenths of a second; a server that only infers and answers probes never pays. It is built on
another thread, so that inference continues meanwhile. Tokens and restricted APIs (rows 17.15, 17.16) are checked before its router, so that a call without
them learns nothing, not even that its method is wrong; the fast lane guards its own paths (`routes.py`).
"""

import asyncio
import importlib
import logging
import typing

from naiad.engine.api import Engine
from naiad.protocol.codec.pool import Codec
from naiad.protocol.http.asgi.fast_call import CHECK_HEAD, send_reply
from naiad.protocol.http.asgi.services import LateServices, Services
from naiad.protocol.http.message import AsgiApp, FastRoutes, Receive, Scope, Send
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
        kserve_v1: whether the paths of KServe's v1 exist.
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
        kserve_v1: bool = True,
    ) -> None:
        self._services = Services(engine, routes, codec)
        self._base_path = base_path
        self._kserve_v1 = kserve_v1
        # Its checks come before the application is made: a call without a token does not cost its memory either.
        self._gate = Gate(self._call, restrictions, tokens, base_path=base_path)
        self._app: AsgiApp | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        await self._gate(scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            app = self._app or await self.load()
        except OSError as error:
            log.error("%s: the next request tries again: %s", _NOT_STARTED, error)  # noqa: TRY400 - the message is the whole story
            await send_reply(_NOT_NOW, send)
            return
        await app(scope, receive, send)

    async def load(self) -> AsgiApp:
        """Make the application now; once, however many requests come at the same time."""
        async with self._lock:
            if self._app is None:
                self._app = await asyncio.get_running_loop().run_in_executor(None, self._make)
            return self._app

    def _make(self) -> AsgiApp:
        module = importlib.import_module("naiad.protocol.http.admin.app")
        app: typing.Any = module.build(
            LateServices(self._services), base_path=self._base_path, kserve_v1=self._kserve_v1
        )
        app.openapi()  # here, so that no request waits for it later
        made: AsgiApp = app
        return made


class Gate:
    """What a request has to pass before the router sees it: the path without its prefix, the token, the header of a restricted API.

    Args:
        tokens, base_path: as for `ControlPlane`.
    """

    def __init__(
        self,
        app: AsgiApp,
        restrictions: Restrictions,
        tokens: TokenFile | None = None,
        *,
        base_path: str = "",
    ) -> None:
        self._app = app
        self._guarded = Guard(self._call, restrictions) if restrictions else self._call
        self._tokens = tokens
        self._base_path = base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with 401 or 403, with what the head of the request decides, or call the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        root = scope.get("root_path", "")  # where another application has mounted this one
        mounted = without_base(root, scope["path"])
        # In `path` and not as ASGI's `root_path`: the router would remove that again, from a path that has it twice.
        path = without_base(self._base_path, mounted)
        prefix = (root if mounted != scope["path"] else "") + (
            self._base_path if path != mounted else ""
        )
        # HEAD is handled as GET; the server leaves out the body.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        scope = {**scope, "path": path, "root_path": "", "method": method}
        if prefix:
            scope[BASE_PATH] = prefix
        if not (
            self._tokens is None or is_open(scope) or self._tokens.admits(header_of(scope, HEADER))
        ):
            await send_reply(NO_TOKEN, send)
            return
        await self._guarded(scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        check_head = scope.get(CHECK_HEAD)
        refused = None if check_head is None else check_head(scope)
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await send_reply(refused, send)


class Guard:
    """Checks the header of a restricted category, then calls the application. It exists only if something is restricted.

    Deny by default: the framework's router and `paths.py` could read a path differently, so a path under `/v2` or `/v1` that has no category
    needs the header of every restriction.
    """

    def __init__(self, app: AsgiApp, restrictions: Restrictions) -> None:
        self._app = app
        self._restrictions = restrictions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with 403, or call the application."""
        for restriction in self._required(scope["path"]):
            if not restriction.admits(header_of(scope, restriction.header)):
                await send_reply(refusal(403, restriction.refusal), send)
                return
        await self._app(scope, receive, send)

    def _required(self, path: str) -> list[Restriction]:
        """The restrictions that a call of this path has to meet."""
        category = category_of(path)
        if category is None:
            return list(self._restrictions.values()) if path.startswith(("/v2", "/v1")) else []
        restriction = self._restrictions.get(category)
        return [] if restriction is None else [restriction]


def is_open(scope: Scope) -> bool:
    """Whether a call is about health, which needs no token."""
    return category_of(scope["path"]) is Category.HEALTH


def header_of(scope: Scope, name: str) -> bytes | None:
    """A header of a request; None when it did not come."""
    wanted = name.lower().encode()
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    return next((value for key, value in headers if key == wanted), None)
