"""The metrics port: the page, the states of models, and the answers to everything else (row 8.12)."""

import json

import pytest

from naiad.metrics.exposition import Sample, Series
from naiad.metrics.families import Family
from naiad.protocol.http.message import HttpReply, HttpRequest
from naiad.protocol.metrics_endpoint import MetricsRoutes
from naiad.repository.lifecycle import State
from naiad.repository.manager import VersionState


def ask(method: bytes, path: str) -> HttpReply:
    routes = MetricsRoutes(
        collect=lambda: [Series(Family("f", "help", "gauge"), (Sample((), 1),))],
        states=lambda: [
            VersionState(name="m", version=2, state=State.READY, reason=""),
            VersionState(name="n", version=None, state=State.UNAVAILABLE, reason="no config"),
        ],
    )
    replies: list[HttpReply] = []
    handler = routes.find(method, path, {})
    assert handler is not None
    handler(HttpRequest(method, path, {}, b""), replies.append)
    (reply,) = replies
    return reply


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
def test_the_page_is_prometheus_text(path: str) -> None:
    reply = ask(b"GET", path)
    assert (reply.status, reply.body) == (200, (b"# HELP f help\n# TYPE f gauge\nf 1\n",))
    assert reply.headers == ((b"Content-Type", b"text/plain; charset=utf-8"),)


def test_the_states_of_all_models_are_json() -> None:
    assert json.loads(b"".join(map(bytes, ask(b"GET", "/status").body))) == {
        "models": [
            {"name": "m", "version": "2", "state": "READY", "reason": ""},
            {"name": "n", "version": None, "state": "UNAVAILABLE", "reason": "no config"},
        ]
    }


def test_any_other_path_is_an_empty_200_and_any_other_verb_405() -> None:
    assert ask(b"GET", "/").status == 200
    assert b"".join(map(bytes, ask(b"GET", "/").body)) == b""
    assert ask(b"POST", "/metrics").status == 405
