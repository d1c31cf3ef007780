"""Header blocks: from the bytes up to the empty line to what the connection must know of a request.

httptools checks the grammar; this module checks the meaning (length, chunking, persistence, expectations) and
refuses what two servers could read differently. Blocks that come again, but for a few values, are remembered in `head_cache.py`. Pure: no sockets, no
time.
"""

import functools
import re
import urllib.parse

import httptools
import msgspec

from naiad.core.record import Record
from naiad.protocol.http.message import Headers, HttpRequest, SpelledHeaders
from naiad.protocol.http.transport.framing import HttpError

CHUNKED = -1

_END = b"\r\n\r\n"
_BEGINNING = re.compile(rb"[A-Z][A-Z-]{0,31}(?:\Z| )")
_ASKED = re.compile(rb"([A-Z][A-Z-]{0,31}) ([^ \r\n]{1,1024})( ?)")
_LENGTH_DIGITS = 19
_REQUEST_LINE = re.compile(rb"[A-Z-]+ [^ ]+ HTTP/").match
"""One space between two parts, nothing in front: llhttp takes more, and what a proxy before us makes of that is its own choice."""
_BARE_LF = re.compile(rb"(?<!\r)\n")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters and Unicode's line separators. In a path they serve only to let two readers of it disagree."""
CONTROL_IN_PATH = "The path holds a control character or a line separator (such as %0A). No path of this server does: send it without."
_HELP = (
    "send METHOD SP target SP HTTP/1.1, then header lines, each ending in CRLF, then an empty line"
)


class RequestHead(Record, frozen=True):
    """A request up to its body.

    Attributes:
        method: upper case; GET for a HEAD request, since the handler makes the same reply.
        path: percent-decoded, without the query.
        headers: shared by all requests with the same header block: read-only.
        length: body bytes to come; CHUNKED when it is not known.
        minor: 1 for HTTP/1.1, 0 for HTTP/1.0.
        keep_alive: whether the client lets the connection stay open.
        expects_continue: the client waits for `100 Continue` before it sends the body.
        head_only: the request was HEAD: the reply goes without its body.
        plain: HTTP/1.1, stays open, body of known length, no expectation, not HEAD: nothing to think about.
    """

    method: bytes
    path: str
    target: bytes
    headers: Headers
    length: int
    minor: int
    keep_alive: bool
    expects_continue: bool
    head_only: bool
    plain: bool

    def request(self, body: bytes) -> HttpRequest:
        """The request with its whole body."""
        return HttpRequest(self.method, self.path, self.headers, body)


NO_HEAD = RequestHead(b"-", "", b"-", {}, 0, 1, False, False, False, False)
"""Stands for a request of which nothing could be read."""


class _Callbacks:
    """What httptools calls while it parses one header block."""

    def __init__(self) -> None:
        self.target = b""
        self.headers = SpelledHeaders()
        self.headers.spelling = {}
        self.repeated: dict[bytes, list[bytes]] = {}

    def on_url(self, target: bytes) -> None:
        self.target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        spelled, name, value = name, name.lower(), value.rstrip(b" \t")  # RFC 9112 5.1
        if spelled != name:
            self.headers.spelling.setdefault(name, spelled)
        if name in self.headers:
            # joined once at the end: joining each time would make 64 KiB of repeats cost quadratic time
            self.repeated.setdefault(name, [self.headers[name]]).append(value)
        else:
            self.headers[name] = value


def find_end(data: bytes, start: int, scan: int, *, max_head: int, max_line: int) -> int:
    """Where the header block that begins at `start` ends (behind its empty line), or -1 while it is incomplete.

    An earlier call has looked up to `scan`. The whole block and its first line have limits in bytes.

    Raises:
        HttpError: 431, 414, or 400 for what cannot become a request whatever follows (so that the rest is not waited for).
    """
    end = data.find(_END, max(start, scan - len(_END)))
    size = (len(data) if end < 0 else end + len(_END)) - start
    if size > max_line + 1 and data.find(b"\r\n", start, start + max_line + 2) < 0:
        raise HttpError(
            414, f"The request line is longer than {max_line} bytes. Send a shorter path or query."
        )
    if size > max_head:
        raise HttpError(
            431,
            f"The request headers are longer than {max_head} bytes together. Send fewer or shorter headers.",
        )
    if end >= 0:
        return end + len(_END)
    if not _BEGINNING.match(data, start) or _BARE_LF.search(data, max(start, scan)):
        raise HttpError(400, f"This is not an HTTP/1.1 request: {_HELP}.")
    return -1


def glimpse(data: bytes) -> RequestHead:
    """What the first line of a request tells of one that is refused unread: its method and target, the rest as in `NO_HEAD`.

    A target that is incomplete, or too long for a log line, ends in three dots.
    """
    match = _ASKED.match(data)
    if match is None:
        return NO_HEAD
    method, target, behind = match.groups()
    head_only = method == b"HEAD"
    return msgspec.structs.replace(
        NO_HEAD,
        method=b"GET" if head_only else method,
        target=target if behind else target + b"...",
        head_only=head_only,
    )


def parse_head(block: bytes) -> RequestHead:
    """Read a complete header block, the empty line included.

    Raises:
        HttpError: 400 for a malformed or ambiguous one, 417, 501 or 505 for what this server does not do.
    """
    callbacks = _Callbacks()
    parser = httptools.HttpRequestParser(callbacks)
    try:
        parser.feed_data(block)
    except httptools.HttpParserUpgrade:
        pass  # an offer the server may ignore (RFC 9110 7.8): answered as an ordinary request
    except httptools.HttpParserError as error:
        raise HttpError(
            400, f"The request is malformed: {error}. Check its first line and headers: {_HELP}."
        ) from None
    version = parser.get_http_version()
    if version not in ("1.1", "1.0"):
        raise HttpError(505, f"HTTP/{version} is not spoken here. Send HTTP/1.1 requests.")
    if not _REQUEST_LINE(block):
        raise HttpError(
            400, f"The request line does not have one space between its parts: {_HELP}."
        )
    method: bytes = parser.get_method()
    if method == b"CONNECT":
        raise HttpError(
            400,
            "CONNECT is for proxies, and this server is not a proxy. Send GET or POST with a path.",
        )
    headers = callbacks.headers
    for name, values in callbacks.repeated.items():
        headers[name] = b", ".join(values)
    # A request without Host is served, as by Triton: nothing here depends on it, and old health checks send none.
    if b"host" in callbacks.repeated:
        raise HttpError(400, "The request has more than one Host header. Send exactly one.")
    minor = 1 if version == "1.1" else 0
    length = _length(headers, minor=minor)
    expects = _expects_continue(headers, minor=minor)
    wish = headers.get(b"connection")
    if minor:
        keep_alive = wish is None or not has_token(wish, b"close")  # close wins over keep-alive
    else:
        keep_alive = wish is not None and has_token(wish, b"keep-alive")
    head_only = method == b"HEAD"
    return RequestHead(
        b"GET" if head_only else method,
        _path(callbacks.target),
        callbacks.target,
        headers,
        length,
        minor,
        keep_alive,
        expects,
        head_only,
        bool(minor and keep_alive and not expects and not head_only and length != CHUNKED),
    )


def _length(headers: Headers, *, minor: int) -> int:
    """Body bytes to come. What reads in two ways is how requests are smuggled past a proxy: refused (RFC 9112 11.2)."""
    coding = headers.get(b"transfer-encoding")
    given = headers.get(b"content-length")
    if coding is not None:
        if given is not None:
            raise HttpError(
                400, "Content-Length and Transfer-Encoding contradict each other. Send one of them."
            )
        if not minor:
            raise HttpError(
                400, "HTTP/1.0 has no Transfer-Encoding. Send HTTP/1.1 or a Content-Length."
            )
        if coding.strip().lower() != b"chunked":
            raise HttpError(
                501,
                "This Transfer-Encoding is not supported. Send chunked alone, and name compression in Content-Encoding.",
            )
        return CHUNKED
    if given is None:
        return 0
    digits = given.strip()
    if not digits.isdigit():
        raise HttpError(
            400, "Content-Length is not a number. Send the body's length in bytes, once."
        )
    # Python converts no number of more than 4,300 digits, and no body is as long as one of 20 says.
    if len(digits) > _LENGTH_DIGITS:
        raise HttpError(
            400,
            f"Content-Length has {len(digits)} digits, at most {_LENGTH_DIGITS} are expected. Send the body's length in bytes.",
        )
    return int(digits)


def _expects_continue(headers: Headers, *, minor: int) -> bool:
    expectation = headers.get(b"expect")
    if expectation is None or not minor:
        return False
    if expectation.strip().lower() != b"100-continue":
        raise HttpError(
            417, "This expectation cannot be met. Send `Expect: 100-continue` or no Expect header."
        )
    return True


def has_token(value: bytes, token: bytes) -> bool:
    """Whether a comma-separated header value has a token, in any case."""
    return token in [part.strip() for part in value.lower().split(b",")]


@functools.lru_cache(maxsize=1024)
def _path(target: bytes) -> str:
    """The decoded path of a target in origin form (/path?query) or absolute form (http://host/path?query)."""
    if not target.startswith(b"/"):
        if target == b"*":
            return "*"
        try:
            target = httptools.parse_url(target).path or b"/"
        except httptools.HttpParserInvalidURLError:
            raise HttpError(
                400, "The request target is malformed. Send a path that begins with a slash."
            ) from None
    path = target.partition(b"?")[0].partition(b"#")[0].decode("latin-1")
    if "%" in path:
        path = urllib.parse.unquote(path)
    if holds_control(path):
        raise HttpError(400, CONTROL_IN_PATH)
    return path


def holds_control(path: str) -> bool:
    """Whether a decoded path holds a control character or a line separator."""
    return _CONTROL.search(path) is not None
