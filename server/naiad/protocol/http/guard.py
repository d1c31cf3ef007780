"""Restricted APIs before the control plane (rows 17.15, 17.16): which category a path is of, and who is let through.

An ASGI wrapper, so that it comes before the router: a call without the header learns nothing, not even which verb was wrong.
Only there when something is restricted. The fast lane guards its own paths (`routes.py`).
"""

import re

from naiad.protocol.http.bridge import AsgiApp, Receive, Scope, Send
from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.replies import refusal
from naiad.protocol.restricted import Category, Restrictions

_CATEGORIES: tuple[tuple["re.Pattern[str]", Category], ...] = (
    (re.compile(r"/v2"), Category.METADATA),
    (re.compile(r"/v2/health/[^/]+"), Category.HEALTH),
    (re.compile(r"/v2/models/stats"), Category.STATISTICS),
    (re.compile(r"/v2/models/.+/stats"), Category.STATISTICS),
    (re.compile(r"/v2/models/.+/config"), Category.MODEL_CONFIG),
    (re.compile(r"/v2/models/.+/ready"), Category.HEALTH),
    (re.compile(r"/v2/models/.+/(infer|generate|generate_stream)"), Category.INFERENCE),
    (re.compile(r"(/v2/models/.+|/v2)/trace/setting"), Category.TRACE),
    (re.compile(r"/v2/logging"), Category.LOGGING),
    (re.compile(r"/v2/models/.+"), Category.METADATA),
    (re.compile(r"/v2/repository/.+"), Category.MODEL_REPOSITORY),
    (re.compile(r"/v2/(system|cuda)sharedmemory/.+"), Category.SHARED_MEMORY),
)
"""The first that matches counts."""


def category_of(path: str) -> Category | None:
    """The category of a path; None for one that cannot be restricted, such as the docs page."""
    for pattern, category in _CATEGORIES:
        if pattern.fullmatch(path):
            return category
    return None


class Guard:
    """Asks for the header of a restricted category, then hands on.

    Args:
        app: who answers.
        restrictions: at least one.
    """

    def __init__(self, app: AsgiApp, restrictions: Restrictions) -> None:
        self._app = app
        self._restrictions = restrictions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, or let the call through."""
        category = category_of(scope["path"])
        restriction = None if category is None else self._restrictions.get(category)
        if restriction is None or restriction.admits(header_of(scope, restriction.header)):
            await self._app(scope, receive, send)
            return
        await answer(refusal(403, restriction.refusal), send)


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
