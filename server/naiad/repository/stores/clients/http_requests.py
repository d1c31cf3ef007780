"""HTTP requests for archives and registries, with the standard library: no package, and it reads the proxies and certificates of the system.

Every request has a timeout. Credentials go to the host that they are for: a redirect to another host goes without them.
"""

import base64
import collections.abc
import http.client
import logging
import netrc
import os
import ssl
import time
import typing
import urllib.error
import urllib.parse
import urllib.request

from typing_extensions import override

from naiad.repository.stores.objects import ChangedError, StoreError

_log = logging.getLogger("naiad.repository")

_TIMEOUT_S = 30.0
"""To connect, and between two bytes."""

_TRIES = 5
"""Attempts to read on after a connection broke, without a byte between them."""

_BACKOFF_S = 0.5

_REPORT_S = 10.0
"""Between two log lines about a download."""

_UNAUTHORIZED, _FORBIDDEN, _ABSENT, _THROTTLED, _SERVER_ERROR = 401, 403, 404, 429, 500
_PARTIAL = 206

Headers = collections.abc.Mapping[str, str]


class HttpError(StoreError):
    """A response with a status of 300 or more.

    Attributes:
        status: of HTTP.
        headers: of the response.
    """

    def __init__(self, message: str, *, status: int, headers: typing.Any) -> None:
        super().__init__(message, retry=status == _THROTTLED or status >= _SERVER_ERROR)
        self.status = status
        self.headers = headers


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to HTTP and HTTPS only, and from HTTPS to HTTPS only."""

    @override
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: typing.Any,
        code: int,
        msg: str,
        headers: typing.Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None:
            if made.type not in ("https", req.type):
                raise urllib.error.URLError(f"it redirects from {req.type} to {made.type}")
            if made.host == req.host and "Authorization" in req.unredirected_hdrs:
                made.add_unredirected_header(
                    "Authorization", req.unredirected_hdrs["Authorization"]
                )
        return made


_opener = urllib.request.build_opener(_Redirects)


def send(
    url: str, *, where: str, headers: Headers, authorization: str = "", method: str = "GET"
) -> http.client.HTTPResponse:
    """Send a request and wait for the headers of its response; the caller closes it.

    Args:
        url: of HTTP or HTTPS.
        where: what messages call it; it holds no query, which may be a secret.
        headers: go along when it redirects.
        authorization: the header of this name, for this host only; "" for none.
        method: of HTTP.

    Raises:
        HttpError: a status of 300 or more.
        StoreError: the host cannot be reached.
    """
    # Some sites refuse the standard library's own name.
    headers = {"User-Agent": "naiad", **headers}
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 - only HTTP and HTTPS come here
    if authorization:
        request.add_unredirected_header("Authorization", authorization)
    try:
        response: http.client.HTTPResponse = _opener.open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        raise HttpError(
            f"{where}: {_refusal(error.code)}", status=error.code, headers=error.headers
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise unreachable(where, error) from error
    return response


def _refusal(status: int) -> str:
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        return (
            f"no permission (HTTP {status}): check the credentials and whether they may read this"
        )
    if status == _ABSENT:
        return "there is nothing at this address (HTTP 404): check the name"
    if status == _THROTTLED or status >= _SERVER_ERROR:
        return f"the server cannot answer now (HTTP {status})"
    return f"the server answered HTTP {status}"


def unreachable(where: str, error: Exception) -> StoreError:
    """The error for a host that cannot be reached."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return StoreError(
            f"{where}: its certificate is not trusted ({reason.verify_message}): set SSL_CERT_FILE to a file with the authority's certificate, and check this machine's clock"
        )
    if isinstance(reason, ssl.SSLError):
        return StoreError(f"{where}: TLS fails ({reason.reason}): does this port speak HTTPS?")
    described = reason if isinstance(reason, str) else getattr(reason, "strerror", None)
    return StoreError(
        f"{where}: cannot be reached ({described or type(reason).__name__}): check the host, the network and HTTPS_PROXY",
        retry=True,
    )


def from_netrc(host: str) -> tuple[str, str] | None:
    """User and password of a host in ~/.netrc, or the file that NETRC names; None without an entry.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        entry = netrc.netrc(os.environ.get("NETRC")).authenticators(host)
    except FileNotFoundError:
        return None
    except (OSError, netrc.NetrcParseError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "msg", "")
        raise StoreError(
            f"the credentials in ~/.netrc (or NETRC) cannot be read: {reason}: correct the file"
        ) from None
    return None if entry is None else (entry[0], entry[2] or "")


class ResumingReader:
    """A file of a server as a stream: where a connection breaks, it reads on from there.

    Args:
        open_at: sends the request for the bytes from an offset on.
        where: what messages call it.
        sleep: waits for so many seconds.

    Attributes:
        version: what differs when the file was replaced: its ETag and the time of its last change, where the server says them.
        size: bytes of the whole file; None if the server does not say it.
    """

    def __init__(
        self,
        open_at: collections.abc.Callable[[int], http.client.HTTPResponse],
        *,
        where: str,
        sleep: collections.abc.Callable[[float], None] = time.sleep,
    ) -> None:
        self._open_at = open_at
        self._where = where
        self._sleep = sleep
        self._position = 0
        self._reported = time.monotonic()
        self._response = open_at(0)
        self.version = _version(self._response)
        self.size = self._response.length

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size` of them; none at the end.

        Raises:
            StoreError: the connection breaks again and again, or the file was replaced meanwhile.
        """
        for failures in range(_TRIES):
            try:
                if failures:
                    self._sleep(_BACKOFF_S * 2 ** (failures - 1))
                    self._reopen()
                content = self._response.read(size)
            except (OSError, http.client.HTTPException):
                content = b""
                ended = False
            except StoreError as error:
                if not error.retry:
                    raise
                continue
            else:
                ended = self.size is None or self._position >= self.size
            if content or ended:
                self._position += len(content)
                self._report()
                return content
        raise StoreError(
            f"{self._where}: the connection breaks again and again, the last time at byte {self._position}: check the network and proxies",
            retry=True,
        )

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._reported >= _REPORT_S:
            self._reported = now
            whole = "" if self.size is None else f" of {self.size / 1e6:,.0f}"
            _log.info("%s: %.0f%s MB are downloaded", self._where, self._position / 1e6, whole)

    def _reopen(self) -> None:
        self._response.close()
        self._response = self._open_at(self._position)
        if _version(self._response) != self.version:
            raise ChangedError(f"{self._where}: it was replaced while it was read")
        if self._response.status != _PARTIAL:
            skip(self._response, self._position)

    def close(self) -> None:
        """Close the connection."""
        self._response.close()


def skip(response: http.client.HTTPResponse, count: int) -> None:
    """Read and drop the first bytes of a response whose server gives no ranges."""
    while count > 0 and (dropped := response.read(min(count, 1 << 20))):
        count -= len(dropped)


def _version(response: http.client.HTTPResponse) -> tuple[str | None, str | None]:
    return response.headers["ETag"], response.headers["Last-Modified"]


def basic(user: str, password: str) -> str:
    """The Authorization header of a user and password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ranged(start: int, end: int | None = None) -> dict[str, str]:
    """The header that asks for the bytes [start, end) as they are stored."""
    last = "" if end is None else end - 1
    return {"Range": f"bytes={start}-{last}", "Accept-Encoding": "identity"}
