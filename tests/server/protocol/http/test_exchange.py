"""Bodies collected for the fast lane."""

from naiad.protocol.http.exchange import WholeBody
from naiad.protocol.http.head import NO_HEAD
from naiad.protocol.http.message import HttpRequest, OnReply


def handler(request: HttpRequest, on_reply: OnReply) -> None: ...


def test_a_single_piece_is_kept_without_a_copy() -> None:
    piece = bytes(100)
    body = WholeBody(NO_HEAD, handler, 0)
    body.feed(piece)
    assert body.whole() is piece


def test_several_pieces_become_one() -> None:
    body = WholeBody(NO_HEAD, handler, 0)
    for piece in (b"a", b"bc", b"def"):
        body.feed(piece)
    assert body.whole() == b"abcdef"


def test_no_piece_is_an_empty_body() -> None:
    assert WholeBody(NO_HEAD, handler, 0).whole() == b""
