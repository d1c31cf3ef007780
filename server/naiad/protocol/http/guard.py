"""Restricted APIs before the control plane: which category a path belongs to, and which calls are admitted (rows 17.15, 17.16).

An ASGI wrapper, so that it comes before the router: a call without the header learns nothing, not even which verb was wrong.
Only there when something is restricted. The fast lane guards its own paths (`routes.py`).

Deny by default: the router and these patterns could read a path differently, so a path under `/v2` that has no category
needs the header of every restriction.
"""

import re

from naiad.protocol.http.message import AsgiApp, HttpReply, Receive, Scope, Send
from naiad.protocol.http.replies import refusal
from naiad.protocol.http.transport.head import holds_control
from naiad.protocol.restricted import Category, Restriction, Restrictions

_MODEL = r"/v2/models/[^/]+(/versions/[0-9]+)?"
_CATEGORIES: tuple[tuple["re.Pattern[str]", Category], ...] = (
    (re.compile(r"/v2"), Category.METADATA),
    (re.compile(r"/v2/health/[^/]+"), Category.HEALTH),
    (re.compile(r"/v2/models/stats"), Category.STATISTICS),
    (re.compile(_MODEL), Category.METADATA),
    (re.compile(rf"{_MODEL}/stats"), Category.STATISTICS),
    (re.compile(rf"{_MODEL}/config"), Category.MODEL_CONFIG),
    (re.compile(rf"{_MODEL}/ready"), Category.HEALTH),
    (re.compile(rf"{_MODEL}/(infer|generate|generate_stream)"), Category.INFERENCE),
    (re.compile(r"/v2(/models/[^/]+)?/trace/setting"), Category.TRACE),
    (re.compile(r"/v2/logging"), Category.LOGGING),
    (re.compile(r"/v2/repository/.+"), Category.MODEL_REPOSITORY),
    (re.compile(r"/v2/(system|cuda)sharedmemory/.+"), Category.SHARED_MEMORY),
)
"""The first that matches counts."""


def category_of(path: str) -> Category | None:
    """The category of a decoded path; None for one that has none, such as the docs page or an unknown path."""
    if holds_control(path):
        return None
    for pattern, category in _CATEGORIES:
        if pattern.fullmatch(path):
            return category
    return None


class Guard:
    """Asks for the header of a restricted category, then hands the call on.

    Args:
        app: who answers.
        restrictions: at least one.
    """

    def __init__(self, app: AsgiApp, restrictions: Restrictions) -> None:
        self._app = app
        self._restrictions = restrictions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, or let the call through."""
        for restriction in self._required(scope["path"]):
            if not restriction.admits(header_of(scope, restriction.header)):
                await answer(refusal(403, restriction.refusal), send)
                return
        await self._app(scope, receive, send)

    def _required(self, path: str) -> list[Restriction]:
        """Every restriction that a call of this path has to meet."""
        category = category_of(path)
        if category is None:
            return list(self._restrictions.values()) if path.startswith("/v2") else []
        restriction = self._restrictions.get(category)
        return [] if restriction is None else [restriction]


def is_open(scope: Scope) -> bool:
    """Whether a call is about health, which asks nobody for a token."""
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
