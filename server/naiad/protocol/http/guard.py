"""Restricted APIs before the control plane: which calls are admitted (rows 17.15, 17.16).

An ASGI wrapper, so that it comes before the router: a call without the header learns nothing, not even which verb was wrong.
It exists only if something is restricted. The fast lane guards its own paths (`routes.py`).

Deny by default: the framework's router and `paths.py` could read a path differently, so a path under `/v2` that has no category
needs the header of every restriction.
"""

from naiad.protocol.http.message import AsgiApp, HttpReply, Receive, Scope, Send
from naiad.protocol.http.paths import category_of
from naiad.protocol.http.replies import refusal
from naiad.protocol.restricted import Category, Restriction, Restrictions


class Guard:
    """Checks the header of a restricted category, then calls the application.

    Args:
        app: the application.
        restrictions: at least one.
    """

    def __init__(self, app: AsgiApp, restrictions: Restrictions) -> None:
        self._app = app
        self._restrictions = restrictions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with 403, or call the application."""
        for restriction in self._required(scope["path"]):
            if not restriction.admits(header_of(scope, restriction.header)):
                await answer(refusal(403, restriction.refusal), send)
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


async def answer(reply: HttpReply, send: Send) -> None:
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
