"""Replies as bytes."""

import pytest

from naiad.protocol.http.message import HttpReply
from naiad.protocol.http.transport.framing import (
    CLOSE,
    KEEP,
    ReplyFramer,
    header_lines,
    status_line,
)

JSON = ((b"Content-Type", b"application/json"),)


def test_a_small_reply_is_one_buffer() -> None:
    framer = ReplyFramer(join_bytes=4)
    assert framer.frame(HttpReply(200, JSON, (b"ab", b"cd")), KEEP) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nabcd",
        (),
    )


def test_a_large_reply_keeps_its_parts() -> None:
    body = (b"abc", memoryview(b"de"))
    first, rest = ReplyFramer(join_bytes=4).frame(HttpReply(200, (), body), CLOSE)
    assert first == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
    assert rest is body


def test_equal_status_with_other_headers_is_another_prefix() -> None:
    framer = ReplyFramer(join_bytes=100)
    first, _ = framer.frame(HttpReply(200, JSON, (b"",)), KEEP)
    second, _ = framer.frame(HttpReply(200, ((b"A", b"b"),), (b"",)), KEEP)
    assert b"Content-Type" in first
    assert b"Content-Type" not in second


def test_remembered_prefixes_are_bounded() -> None:
    framer = ReplyFramer(join_bytes=100)
    for number in range(5000):
        framer.frame(HttpReply(200, ((b"N", b"%d" % number),), ()), KEEP)
    assert len(framer._prefixes) <= 1024


def test_no_content_has_no_length() -> None:
    first, _ = ReplyFramer(join_bytes=100).frame(HttpReply(204, JSON, ()), KEEP)
    assert first == b"HTTP/1.1 204 No Content\r\nContent-Type: application/json\r\n\r\n"


def test_a_reply_to_head_has_the_length_and_no_body() -> None:
    framer = ReplyFramer(join_bytes=100)
    first, rest = framer.frame(HttpReply(200, (), (b"abc",)), KEEP, head_only=True)
    assert (first, rest) == (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", ())


@pytest.mark.parametrize("header", [(b"A", b"b\r\nC: d"), (b"A\nB", b"c"), (b"A", b"b\rc")])
def test_a_line_break_in_a_header_is_refused(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="line break"):
        header_lines((header,))


def test_statuses_without_a_name_can_be_sent() -> None:
    assert status_line(299) == b"HTTP/1.1 299 Unknown\r\n"
