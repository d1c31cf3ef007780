"""The access log's lines and records."""

import logging

import pytest

from naiad.core.clock import ManualClock
from naiad.protocol.http.access_log import AccessEntry, AccessRecorder, LoggedAccess, access_line
from naiad.protocol.http.head import parse_head
from naiad.protocol.http.message import HttpReply


def entry(target: str = "/v2", request_id: str = "") -> AccessEntry:
    return AccessEntry("10.0.0.9:1", "GET", target, 200, 12, 0.00125, request_id)


def test_a_line_says_who_what_and_how_long() -> None:
    assert access_line(entry(request_id="a1")) == "10.0.0.9:1 GET /v2 200 12 1.250ms a1"
    assert access_line(entry()).endswith(" -")


def test_a_client_cannot_break_the_line() -> None:
    line = access_line(entry("/\x1b[2J", "a\nERROR forged"))
    assert line.isprintable()
    assert "a\\nERROR forged" in line


def test_the_logger_gets_the_line_and_the_id_beside_it(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test.access")
    with caplog.at_level(logging.INFO, logger="test.access"):
        LoggedAccess(logger)(entry(request_id="a1"))
    (record,) = caplog.records
    assert record.getMessage() == access_line(entry(request_id="a1"))
    assert vars(record)["request_id"] == "a1"


def test_a_logger_that_is_off_costs_no_line(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test.access")
    with caplog.at_level(logging.WARNING, logger="test.access"):
        LoggedAccess(logger)(entry())
    assert caplog.records == []


def test_the_recorder_measures_from_its_stamp() -> None:
    found: list[AccessEntry] = []
    clock = ManualClock(now_ns=5)
    recorder = AccessRecorder(found.append, clock=clock)
    since = recorder.stamp()
    clock.advance(ns=2_000_000)
    head = parse_head(b"HEAD /a HTTP/1.1\r\n\r\n")
    recorder.record(head, None, HttpReply(404, (), (), "x"), 0, since)
    (got,) = found
    assert (got.peer, got.method, got.target, got.status) == ("", "HEAD", "/a", 404)
    assert (got.seconds, got.request_id) == (0.002, "x")
