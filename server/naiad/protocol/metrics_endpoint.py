"""The metrics port: `/metrics` for Prometheus (row 8.12) and `/status` for machines that watch models (design: Decided).

Both are open: they tell no secret and change nothing, and probes and the operator must reach them when APIs are restricted.
"""

import collections.abc

from naiad.protocol.http.message import (
    Cancellable,
    FastHandler,
    Headers,
    HttpReply,
    HttpRequest,
    OnReply,
)
from naiad.protocol.http.replies import json_reply, wrong_method
from naiad.protocol.metrics_page import Collect, MetricsPage
from naiad.repository.manager import VersionState

_METRICS_PATHS = frozenset(("/metrics", "/metrics/"))
_STATUS_PATH = "/status"
_NO_BODY = 0

_NOT_ALLOWED = wrong_method(b"GET")
_NOTHING = HttpReply(200, (), (b"",))


class MetricsRoutes:
    """The `FastRoutes` of the metrics port.

    Args:
        collect: gives the families to show now.
        states: gives every model version's state now.
    """

    def __init__(
        self,
        *,
        collect: Collect,
        states: collections.abc.Callable[[], collections.abc.Iterable[VersionState]],
    ) -> None:
        self._page = MetricsPage(collect)
        self._states = states

    def find(self, method: bytes, path: str, headers: Headers) -> FastHandler | None:
        """Every path is answered here."""
        if method != b"GET":
            return _answer_not_allowed
        if path in _METRICS_PATHS:
            return self._metrics
        if path == _STATUS_PATH:
            return self._status
        return _answer_nothing

    def may_stream(self, path: str, headers: Headers) -> bool:
        """Nothing here does."""
        return False

    def refusal(self, method: bytes, path: str, headers: Headers) -> HttpReply | None:
        """Bodies are refused by their length."""
        return None

    def body_limit(self, path: str, headers: Headers) -> int:
        """Nothing here takes a body."""
        return _NO_BODY

    def _metrics(self, request: HttpRequest, reply: OnReply) -> Cancellable | None:
        self._page.answer(reply)
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
        reply(json_reply({"models": models}))
        return None


def _answer_not_allowed(request: HttpRequest, reply: OnReply) -> Cancellable | None:
    reply(_NOT_ALLOWED)
    return None


def _answer_nothing(request: HttpRequest, reply: OnReply) -> Cancellable | None:
    """Row 8.12: any other path is 200 without a body."""
    reply(_NOTHING)
    return None
