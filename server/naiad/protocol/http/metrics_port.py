"""The metrics port: `/metrics` for Prometheus (row 8.12), as text or OpenMetrics, and `/status` for programs that watch models.

Both are open: they expose no secrets and change nothing, and probes and the Kubernetes operator must reach them when APIs are restricted.
The page of many models, or of many series of one, is rendered in slices, so that it does not keep the event loop from requests.
"""

import asyncio
import collections.abc
import logging

from naiad import __version__
from naiad.core.inference import Cancellable
from naiad.core.record import Record
from naiad.metrics.exposition import (
    CONTENT_TYPE,
    OPEN_METRICS_END,
    OPEN_METRICS_TYPE,
    Rendered,
    Series,
    open_metrics_pieces,
    pieces,
)
from naiad.protocol.http import replies
from naiad.protocol.http.accept import offers
from naiad.protocol.http.load_progress import load_progress
from naiad.protocol.http.message import FastHandler, Headers, HttpReply, HttpRequest, OnReply
from naiad.repository.loading.progress import LoadProgress
from naiad.repository.manager import VersionState

log = logging.getLogger("naiad.metrics")

Collect = collections.abc.Callable[[], collections.abc.Iterable[Series | Rendered]]


class Format(Record, frozen=True):
    """A format of the page.

    Attributes:
        content_type: of the response.
        pieces: writes a family.
        end: comes after the last family.
    """

    content_type: bytes
    pieces: collections.abc.Callable[[Series | Rendered], collections.abc.Iterator[bytes]]
    end: bytes


TEXT = Format(CONTENT_TYPE, pieces, b"")
OPEN_METRICS = Format(OPEN_METRICS_TYPE, open_metrics_pieces, OPEN_METRICS_END)

_METRICS_PATHS = frozenset(("/metrics", "/metrics/"))
_STATUS_PATH = "/status"
_FORMATS = {
    (b"application/openmetrics-text", b""): True,
    (b"application/openmetrics-text", b"1.0.0"): True,
    (b"text/plain", b""): False,
    (b"text/plain", b"0.0.4"): False,
}
"""The formats that there are, as `Accept` names them with their versions; whether it is OpenMetrics."""
_NO_BODY = 0

_NOT_ALLOWED = replies.refusal(
    405,
    "Method Not Allowed: this is the metrics port, which takes GET; inference is on the ports of HTTP and gRPC, 8000 and 8001 by default",
    extra=((b"Allow", b"GET"),),
)
_EMPTY = HttpReply(200, (), (b"",))


class MetricsPage:
    """Renders the page of the families that `collect` gives; it may compute each when the next is requested. All methods on the event loop.

    One page is rendered at a time. Requests that come meanwhile share the next: each page shows what was counted after its request came.
    """

    def __init__(self, collect: Collect, form: Format = TEXT) -> None:
        self._collect = collect
        self._form = form
        self._waiting: list[OnReply] = []
        self._task: asyncio.Task[None] | None = None

    def send(self, reply: OnReply) -> None:
        """Send the page once it is rendered; the next page if one is being rendered."""
        self._waiting.append(reply)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._render())

    async def _render(self) -> None:
        form = self._form
        headers = ((replies.CONTENT_TYPE, form.content_type),)
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                parts = list[bytes]()
                for family in self._collect():
                    for piece in form.pieces(family):
                        parts.append(piece)
                        await asyncio.sleep(0)
                response = HttpReply(200, headers, (b"".join((*parts, form.end)),))
            except Exception:  # a bug of ours must not leave the request without a response
                log.exception("the metrics page could not be rendered")
                response = replies.server_fault()
            for reply in waiting:
                try:
                    reply(response)
                except Exception:  # nor may it end the pages of all others
                    log.exception("the metrics page could not be sent")
        self._task = None


class MetricsRoutes:
    """The `FastRoutes` of the metrics port.

    Args:
        collect: gives the families.
        states, loads: of models.
        open_metrics: gives the families of a page in OpenMetrics; None: there is only text.
    """

    def __init__(
        self,
        *,
        collect: Collect,
        states: collections.abc.Callable[[], collections.abc.Iterable[VersionState]],
        loads: collections.abc.Callable[[], collections.abc.Iterable[LoadProgress]],
        open_metrics: Collect | None = None,
    ) -> None:
        self._page = MetricsPage(collect)
        self._open_metrics = (
            None if open_metrics is None else MetricsPage(open_metrics, OPEN_METRICS)
        )
        self._states = states
        self._loads = loads

    def find(self, method: bytes, path: str, headers: Headers) -> FastHandler | None:
        """The handler of any path."""
        if method != b"GET":
            return _respond_not_allowed
        if path in _METRICS_PATHS:
            return self._metrics
        if path == _STATUS_PATH:
            return self._status
        return _respond_empty

    def tensors_from(self, path: str, headers: Headers) -> int:
        """No body holds tensors."""
        return 0

    def may_stream(self, path: str, headers: Headers) -> bool:
        """No response is a stream."""
        return False

    def refusal(self, method: bytes, path: str, headers: Headers) -> HttpReply | None:
        """Any verb but GET is refused, whatever its body."""
        return None if method == b"GET" else _NOT_ALLOWED

    def body_limit(self, path: str, headers: Headers) -> int:
        """No path takes a body."""
        return _NO_BODY

    def too_large(self, path: str, headers: Headers, size: int | None) -> str:
        """See `FastRoutes`."""
        return "the metrics port takes no request body: send GET without one; inference is on the port of HTTP, 8000 by default"

    def _metrics(self, request: HttpRequest, reply: OnReply) -> Cancellable | None:
        page = self._page
        if self._open_metrics is not None and _prefers_open_metrics(
            request.headers.get(b"accept", b"")
        ):
            page = self._open_metrics
        page.send(reply)
        return None

    def _status(self, request: HttpRequest, reply: OnReply) -> Cancellable | None:
        models = [
            {
                "name": state.name,
                "version": None if state.version is None else str(state.version),
                "state": state.state.value,
                "reason": state.reason,
            }
            for state in self._states()
        ]
        # HTTP and gRPC do not accept before the models are loaded: here a load at start is visible.
        running = load_progress(load for load in self._loads() if not load.is_over)
        reply(replies.json_reply({"version": __version__, "models": models, **running}))
        return None


def _prefers_open_metrics(accept: bytes) -> bool:
    """Whether OpenMetrics is the format that a scraper likes best, as Prometheus' own library chooses: the first of those with the highest weight.

    Text is for all other scrapers: types with a wildcard, and versions that do not exist here, name no format.
    """
    known = [offer for offer in offers(accept) if offer.weight and offer[:2] in _FORMATS]
    return bool(known) and _FORMATS[max(known, key=lambda offer: offer.weight)[:2]]


def _respond_not_allowed(request: HttpRequest, reply: OnReply) -> Cancellable | None:
    reply(_NOT_ALLOWED)
    return None


def _respond_empty(request: HttpRequest, reply: OnReply) -> Cancellable | None:
    """Any other path is 200 without a body (row 8.12)."""
    reply(_EMPTY)
    return None
