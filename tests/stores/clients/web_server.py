"""A web server whose replies a test decides: for archives, registries, the Hub's API, and stores that refuse."""

import collections.abc
import contextlib
import dataclasses
import hashlib
import http.server
import json
import pathlib
import ssl
import subprocess
import threading
import typing

from typing_extensions import override


class Request(typing.NamedTuple):
    """What arrived; `path` is without its query."""

    method: str
    path: str
    query: str
    headers: typing.Any
    body: bytes


@dataclasses.dataclass(frozen=True)
class Reply:
    """What is sent.

    Attributes:
        cut_at: after so many bytes of the body the connection is closed.
    """

    status: int
    body: bytes = b""
    headers: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    cut_at: int | None = None

    @classmethod
    def json(
        cls, value: object, headers: collections.abc.Mapping[str, str] | None = None
    ) -> "Reply":
        """A value as JSON."""
        return cls(
            200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})}
        )

    @classmethod
    def file(cls, request: Request, content: bytes, *, cut_at: int | None = None) -> "Reply":
        """A file with an ETag, as a web server sends it: ranges, and 304 for one that the client has."""
        etag = f'"{hashlib.md5(content).hexdigest()}"'
        if request.headers["If-None-Match"] == etag:
            return cls(304, headers={"ETag": etag})
        headers = {"ETag": etag, "Accept-Ranges": "bytes"}
        wanted = request.headers["Range"]
        if wanted is None:
            return cls(200, content, headers, cut_at)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1 if last else None]
        span = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        return cls(206, part, {**headers, "Content-Range": span}, cut_at)


Respond = collections.abc.Callable[[Request], Reply]


@contextlib.contextmanager
def web_server(
    respond: Respond, *, certificate: pathlib.Path | None = None
) -> collections.abc.Iterator[str]:
    """The URL of a server for a context.

    Args:
        respond: the reply to a request; called in several threads.
        certificate: a file of `make_certificate`; None is plain HTTP.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            reply = respond(Request(self.command, path, query, self.headers, body))
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body[: reply.cut_at])
            self.close_connection = reply.cut_at is not None

        do_GET = do_HEAD = do_POST = handle_request  # noqa: N815 - the names that the base class calls

        @override
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        @override
        def handle_error(self, request: object, client_address: object) -> None:
            """A client may disconnect."""

    with Server(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"{scheme}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def make_certificate(folder: pathlib.Path) -> pathlib.Path:
    """A key and a certificate of its own for 127.0.0.1, in one file, which is also what clients have to trust."""
    path, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(path)],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return path
