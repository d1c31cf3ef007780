"""Renders the metrics page in slices, so that a page of many models does not keep the event loop from requests.

One page is rendered at a time. Requests that come meanwhile share the next one: each page shows what was counted after its request came.
"""

import asyncio
import collections.abc
import logging

from naiad.metrics.exposition import CONTENT_TYPE, Rendered, Series, page
from naiad.protocol.http import replies
from naiad.protocol.http.message import HttpReply, OnReply

log = logging.getLogger("naiad.metrics")

_HEADERS = ((replies.CONTENT_TYPE, CONTENT_TYPE),)

Collect = collections.abc.Callable[[], collections.abc.Iterable[Series | Rendered]]


class MetricsPage:
    """The page; all methods on the event loop.

    Args:
        collect: gives the families to show now; it may compute each when it is asked for the next.
    """

    def __init__(self, collect: Collect) -> None:
        self._collect = collect
        self._waiting: list[OnReply] = []
        self._task: asyncio.Task[None] | None = None

    def answer(self, reply: OnReply) -> None:
        """Send the page once it is rendered."""
        self._waiting.append(reply)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._render())

    async def _render(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                parts = list[bytes]()
                for family in self._collect():
                    parts.append(page((family,)))
                    await asyncio.sleep(0)
                answer = HttpReply(200, _HEADERS, (b"".join(parts),))
            except Exception:  # a bug of ours must not leave the request without an answer
                log.exception("the metrics page could not be rendered")
                answer = replies.server_fault()
            for reply in waiting:
                try:
                    reply(answer)
                except Exception:  # nor may it end the pages of all others
                    log.exception("the metrics page could not be sent")
        self._task = None
