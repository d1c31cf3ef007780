"""Bodies cut out of a stream: by length, and by chunks in whatever pieces they come."""

import itertools

import pytest
from hypothesis import given, strategies as st

from naiad.protocol.http.message import HttpRequest, OnReply
from naiad.protocol.http.transport.body import Body, ChunkedBody, LengthBody, WholeBody
from naiad.protocol.http.transport.framing import HttpError
from naiad.protocol.http.transport.head import NO_HEAD


def take_all(body: Body, data: bytes, step: int) -> tuple[bytes, bytes]:
    """Feed `data` in steps; what was the body, and what was behind it."""
    pieces: list[bytes] = []
    at = 0
    while at < len(data) and not body.done():
        part = data[at : at + step]
        used = 0
        while used < len(part) and not body.done():
            before, used = used, body.take(part, used, pieces.append)
            assert used > before
        at += used
    return b"".join(pieces), data[at:]


def test_a_read_that_is_all_body_is_passed_on_without_a_copy() -> None:
    data = bytes(100)
    pieces: list[bytes] = []
    assert LengthBody(200).take(data, 0, pieces.append) == 100
    assert pieces[0] is data


@given(st.binary(min_size=1, max_size=50), st.binary(max_size=20), st.integers(1, 60))
def test_a_body_of_known_length_ends_where_it_should(body: bytes, rest: bytes, step: int) -> None:
    assert take_all(LengthBody(len(body)), body + rest, step) == (body, rest)


def test_what_is_left_is_known_by_length_and_unknown_by_chunks() -> None:
    body = LengthBody(10)
    body.take(b"abc", 0, lambda _: None)
    assert body.left() == 7
    assert ChunkedBody(limit=1, max_chunks=1, too_large="above the limit").left() is None


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    st.sampled_from([b"", b";name=value", b' ; a="b"']),
    st.sampled_from([b"", b"Trailer: 1\r\nOther:\r\n~x: \t\xff\r\n"]),
    st.integers(1, 100),
)
def test_chunks_are_put_together_whatever_the_pieces(
    chunks: list[bytes], extension: bytes, trailers: bytes, step: int
) -> None:
    stream = b"".join(b"%x%b\r\n%b\r\n" % (len(c), extension, c) for c in chunks)
    stream += b"000" + extension + b"\r\n" + trailers + b"\r\n"
    body = ChunkedBody(limit=1000, max_chunks=10, too_large="above the limit")
    assert take_all(body, stream + b"GET /", step) == (b"".join(chunks), b"GET /")


@pytest.mark.parametrize(
    ("data", "status", "text"),
    [
        (b"zz\r\n", 400, "hexadecimal"),
        (b"\r\n", 400, "hexadecimal"),
        (b"4 \r\n", 400, "hexadecimal"),
        (b"4\t\r\n", 400, "hexadecimal"),
        (b" 4\r\n", 400, "hexadecimal"),
        (b" 4;x\r\n", 400, "hexadecimal"),
        (b"-1\r\n", 400, "hexadecimal"),
        (b"0x1\r\n", 400, "hexadecimal"),
        (b"1_0\r\n", 400, "hexadecimal"),
        (b"1" * 16 + b"\r\n", 400, "hexadecimal"),
        (b"1;\na", 400, "without CR"),
        (b"1\r\nabc", 400, "longer than its size"),
        (b"1\r\na\rb", 400, "longer than its size"),
        (b"1;" + b"x" * 5000, 400, "extensions"),
        (b"1;" + b"x" * 5000 + b"\r\n", 400, "extensions"),
        (b"B\r\n", 400, "above the limit"),
        (b"1\r\na\r\n" * 4, 400, "more than 3 chunks"),
        (b"0\r\n" + b"A: b\r\n" * 20000, 431, "trailers"),
        (b"1;a\rb\r\na\r\n0\r\n\r\n", 400, "control character"),
        (b"1;a=\0\r\na\r\n0\r\n\r\n", 400, "control character"),
        (b"0;\x7f\r\n\r\n", 400, "control character"),
        (b"0\r\nA: b\0c\r\n\r\n", 400, "control character"),
        (b"0\r\njunk\r\n\r\n", 400, "not a header line"),
        (b"0\r\n: b\r\n\r\n", 400, "not a header line"),
        (b"0\r\nA : b\r\n\r\n", 400, "not a header line"),
        (b"0\r\nA: b\r\n c\r\n\r\n", 400, "not a header line"),
        (b"0\r\nGET / HTTP/1.1\r\n\r\n", 400, "not a header line"),
    ],
)
@pytest.mark.parametrize("step", [1, 100000])
def test_malformed_or_excessive_chunks_are_refused(
    data: bytes, status: int, text: str, step: int
) -> None:
    with pytest.raises(HttpError, match=text) as caught:
        take_all(ChunkedBody(limit=10, max_chunks=3, too_large="above the limit"), data, step)
    assert caught.value.status == status


def test_many_small_chunks_of_one_read_are_taken_a_part_at_a_time_and_joined() -> None:
    """The 40,000 that a read may hold keep the event loop for 50 ms; handed on one by one, for a fifth of a second."""
    body = ChunkedBody(limit=1_000_000, max_chunks=65_536, too_large="above the limit")
    pieces: list[bytes] = []
    data = b"1\r\nx\r\n" * 40_000 + b"2\r\ny"
    ends = [0]
    while ends[-1] < len(data):
        ends.append(body.take(data, ends[-1], pieces.append))
    assert max(after - before for before, after in itertools.pairwise(ends)) < 5000
    assert len(pieces) <= len(ends)
    assert b"".join(pieces) == b"x" * 40_000 + b"y"
    pieces.clear()
    body.take(b"z\r\n0\r\n\r\n", 0, pieces.append)
    assert body.done()
    assert pieces == [b"z"]


def test_exactly_the_limits_pass() -> None:
    stream = b"4\r\n1234\r\n3\r\n567\r\n3\r\n890\r\n0\r\n\r\n"
    assert take_all(
        ChunkedBody(limit=10, max_chunks=3, too_large="above the limit"), stream, 7
    ) == (b"1234567890", b"")


def whole(*pieces: bytes) -> bytes:
    """What a handler gets of a body that came in pieces."""
    got: list[bytes] = []
    body = WholeBody(
        NO_HEAD, _handler, 0, lambda _head, _handler, request, _now: got.append(request.body)
    )
    for piece in pieces:
        body.feed(piece)
    body.end()
    return got[0]


def _handler(request: HttpRequest, on_reply: OnReply) -> None: ...


def test_a_single_piece_is_kept_without_a_copy() -> None:
    piece = bytes(100)
    assert whole(piece) is piece


def test_several_pieces_become_one() -> None:
    assert whole(b"a", b"bc", b"def") == b"abcdef"


def test_no_piece_is_an_empty_body() -> None:
    assert whole() == b""
