"""Header blocks: what is read from them, and which ones are refused."""

import pytest

from naiad.protocol.http.transport.framing import HttpError
from naiad.protocol.http.transport.head import CHUNKED, find_end, parse_head

BLOCK = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 7\r\n\r\n"


def test_everything_the_connection_needs_is_read() -> None:
    head = parse_head(BLOCK)
    assert (head.method, head.path, head.length) == (b"POST", "/v2/models/m/infer", 7)
    assert head.headers == {b"host": b"h", b"content-length": b"7"}
    assert (head.minor, head.keep_alive, head.plain) == (1, True, True)


def test_repeated_headers_are_joined_in_order_and_names_are_lowered() -> None:
    head = parse_head(b"GET / HTTP/1.1\r\nA: 1\r\nB: 2\r\na: 3\r\nA: 4\r\n\r\n")
    assert head.headers == {b"a": b"1, 3, 4", b"b": b"2"}


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/a?b=/c", "/a"),
        (b"/a%20%C3%A4?x=%20", "/a ä"),
        (b"/%zz", "/%zz"),
        (b"http://host:8000/a/b?c", "/a/b"),
        (b"http://host", "/"),
        (b"*", "*"),
        (b"/a#b", "/a"),
    ],
)
def test_targets_in_every_form_become_a_path(target: bytes, path: str) -> None:
    assert parse_head(b"GET " + target + b" HTTP/1.1\r\n\r\n").path == path


@pytest.mark.parametrize(
    "escaped", ["%0A", "%0d", "%00", "%0B", "%0c", "%1F", "%7F", "%C2%85", "%E2%80%A8", "%E2%80%A9"]
)
@pytest.mark.parametrize("target", ["/v2{}", "/{}v2", "/v2/models/m{}/config?x=1", "http://h/v2{}"])
def test_a_path_with_a_control_character_is_refused(target: str, escaped: str) -> None:
    with pytest.raises(HttpError, match="control character") as caught:
        parse_head(f"GET {target.format(escaped)} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    assert caught.value.status == 400


def test_a_query_may_hold_anything() -> None:
    assert parse_head(b"GET /v2?x=%0A HTTP/1.1\r\nHost: h\r\n\r\n").path == "/v2"


@pytest.mark.parametrize(
    ("version", "connection", "stays"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: CLOSE\r\n", False),
        (b"1.1", b"Connection: keep-alive, close\r\n", False),
        (b"1.1", b"Connection: closed\r\n", True),
        (b"1.0", b"", False),
        (b"1.0", b"Connection: Keep-Alive\r\n", True),
    ],
)
def test_whether_the_connection_stays_is_the_client_s_to_say(
    version: bytes, connection: bytes, *, stays: bool
) -> None:
    head = parse_head(b"GET / HTTP/" + version + b"\r\n" + connection + b"\r\n")
    assert head.keep_alive is stays


def test_head_is_asked_of_handlers_as_get() -> None:
    head = parse_head(b"HEAD / HTTP/1.1\r\n\r\n")
    assert (head.method, head.head_only, head.plain) == (b"GET", True, False)


def test_chunked_and_expectations_are_seen() -> None:
    head = parse_head(
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\nExpect: 100-Continue\r\n\r\n"
    )
    assert (head.length, head.expects_continue, head.plain) == (CHUNKED, True, False)


@pytest.mark.parametrize("behind", [b"", b" ", b"\t", b" \t  "])
def test_white_space_behind_a_value_is_not_part_of_it(behind: bytes) -> None:
    block = b"GET / HTTP/1.1\r\nA: b c%b\r\nX-Request-Id: 7%b\r\nE:%b\r\n\r\n"
    assert parse_head(block % (behind, behind, behind)).headers == {
        b"a": b"b c",
        b"x-request-id": b"7",
        b"e": b"",
    }


def test_http_1_0_cannot_expect() -> None:
    assert not parse_head(b"PUT / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").expects_continue


@pytest.mark.parametrize(
    ("block", "status", "text"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "exactly one"),
        (b"CONNECT a:1 HTTP/1.1\r\n\r\n", 400, "Send GET or POST"),
        (b"FOO / HTTP/1.1\r\n\r\n", 400, "malformed"),
        (b"GET /\r\n\r\n", 505, "HTTP/1.1"),
        (b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400, "malformed"),
        (b"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400, "malformed"),
        (b"GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n", 400, "malformed"),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", 400, "malformed"),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, "Content-Encoding"),
        (b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "Content-Length"),
        (b"GET / HTTP/1.1\r\nExpect: x\r\n\r\n", 417, "100-continue"),
        (b"GET  / HTTP/1.1\r\n\r\n", 400, "one space"),
        (b"GET /  HTTP/1.1\r\n\r\n", 400, "one space"),
        (b"\nGET / HTTP/1.1\r\n\r\n", 400, "one space"),
        (b"\rGET / HTTP/1.1\r\n\r\n", 400, "one space"),
        (b"SOURCE / ICE/1.0\r\n\r\n", 400, "HTTP/1.1"),
    ],
)
def test_what_is_ambiguous_or_not_spoken_is_refused_with_what_to_send(
    block: bytes, status: int, text: str
) -> None:
    with pytest.raises(HttpError, match=text) as caught:
        parse_head(block)
    assert caught.value.status == status


def find(data: bytes, start: int = 0, scan: int = 0) -> int:
    return find_end(data, start, scan, max_head=200, max_line=50)


def test_the_end_is_found_wherever_the_search_before_stopped() -> None:
    assert find(b"xx" + BLOCK + b"body", 2) == 2 + len(BLOCK)
    for scanned in range(1, len(BLOCK)):
        assert find(BLOCK[:scanned]) == -1
        assert find(BLOCK, 0, scanned) == len(BLOCK)


@pytest.mark.parametrize("beginning", [b"G", b"GET", b"GET ", b"M-SEARCH ", b"GET / HTTP/1.1\r"])
def test_what_can_still_become_a_request_is_waited_for(beginning: bytes) -> None:
    assert find(beginning) == -1


@pytest.mark.parametrize("beginning", [b"\x16\x03", b"get /", b"{", b" GET", b"GET / HTTP/1.1\nA"])
def test_what_cannot_become_a_request_is_refused_at_once(beginning: bytes) -> None:
    with pytest.raises(HttpError) as caught:
        find(beginning)
    assert caught.value.status == 400


def test_the_limits_of_line_and_block_are_exact() -> None:
    line = b"GET /" + b"x" * 36 + b" HTTP/1.1"  # 50 bytes
    block = line + b"\r\nA: "
    block += b"x" * (200 - len(block) - 4) + b"\r\n\r\n"
    assert find(line[:50]) == -1
    assert find(block) == 200
    assert find(line + b"\r") == -1
    for data, status in ((b"GET /x" + line[5:] + b"\r", 414), (block[:-4] + b"x\r\n\r\n", 431)):
        with pytest.raises(HttpError) as caught:
            find(data)
        assert caught.value.status == status


@pytest.mark.parametrize(
    "digits",
    ["9" * 20, "9" * 4301, "0" * 20, "0" * 5000 + "7"],
    ids=["a large number", "a very large number", "zeros", "zeros and a number"],
)
def test_a_length_of_more_digits_than_any_body_has_is_refused(digits: str) -> None:
    with pytest.raises(HttpError, match="Content-Length") as caught:
        parse_head(f"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {digits}\r\n\r\n".encode())
    assert caught.value.status == 400


def test_a_length_of_19_digits_is_a_length() -> None:
    block = f"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {'9' * 19}\r\n\r\n".encode()
    assert parse_head(block).length == int("9" * 19)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_request_without_host_is_served_as_by_triton(version: str) -> None:
    assert parse_head(f"GET /v2 HTTP/{version}\r\n\r\n".encode()).path == "/v2"
