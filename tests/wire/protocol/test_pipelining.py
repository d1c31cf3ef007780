"""Pipelined requests on every port: each gets its reply, in order, and no connection has the event loop for itself."""

import contextlib
import re
import socket
import threading

import pytest
import tritonclient.grpc as grpc_client

from tests.reference.process import ServerProcess
from tests.wire.plain_http import get
from tests.wire.protocol.raw_http import connect

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_REQUESTS = 1500


class Reader:
    """Counts the replies of a connection on a thread of its own, until the server closes it."""

    def __init__(self, peer: socket.socket) -> None:
        self.statuses: list[bytes] = []
        self._peer = peer
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        rest = b""
        while data := self._peer.recv(1 << 16):
            rest += data
            for found in _STATUS.finditer(rest):
                self.statuses.append(found.group(1))
                end = found.end()
            if _STATUS.search(rest):
                rest = rest[end:]
            rest = rest[-16:]

    def join(self) -> list[bytes]:
        """Every status, once the server has closed the connection."""
        self._thread.join()
        return self.statuses


def pipelined(method: str, path: str, *lines: str, body: str = "") -> bytes:
    head = "\r\n".join([f"{method} {path} HTTP/1.1", "Host: h", *lines])
    last = "\r\nConnection: close"
    one = f"{head}\r\n\r\n{body}"
    return (one * (_REQUESTS - 1) + f"{head}{last}\r\n\r\n{body}").encode()


def test_others_are_answered_while_1500_pipelined_metrics_pages_are_made(
    server: ServerProcess,
) -> None:
    with contextlib.closing(connect(server.metrics)) as neighbour:
        with contextlib.closing(connect(server.metrics)) as peer:
            reader = Reader(peer)
            peer.sendall(pipelined("GET", "/metrics"))
            neighbour.sendall(b"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n")
            assert neighbour.recv(100).startswith(b"HTTP/1.1 200 ")
            answered = len(reader.statuses)
            assert reader.join() == [b"200"] * _REQUESTS
        assert answered < _REQUESTS


_INPUT = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}'


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (pipelined("GET", "/v2/health/live"), b"200"),
        (pipelined("GET", "/v2/models/nope/infer"), b"405"),
        (pipelined("POST", "/v2/models/add/infer", f"Content-Length: {len(_INPUT)}", body=_INPUT), b"200"),
        (pipelined("POST", "/v2/models/nope/infer", "Content-Length: 2", body="{}"), b"404"),
        (pipelined("GET", "/v2"), b"200"),
    ],
    ids=["live", "wrong method", "infer", "unknown model", "metadata"],
)  # fmt: skip
@pytest.mark.slow
def test_every_pipelined_request_gets_its_reply(
    server: ServerProcess, data: bytes, status: bytes
) -> None:
    with contextlib.closing(connect(server.http)) as peer:
        reader = Reader(peer)
        peer.sendall(data)
        assert get(server.http, "/v2/health/live")[0] == 200
        assert reader.join() == [status] * _REQUESTS


@pytest.mark.slow
def test_replies_that_a_client_does_not_read_stop_its_requests(server: ServerProcess) -> None:
    """A page is some kilobytes long, so a server that went on would have to keep them all."""
    with contextlib.closing(connect(server.metrics)) as peer:
        peer.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            for _ in range(2000):
                sent += peer.send(pipelined("GET", "/metrics"))
        assert sent < 32_000_000  # what the kernel's buffers hold
        assert get(server.metrics, "/status")[0] == 200


def test_http_1_on_the_grpc_port_is_turned_away(server: ServerProcess) -> None:
    with contextlib.closing(connect(server.grpc)) as peer:
        with contextlib.suppress(OSError):
            peer.sendall(pipelined("GET", "/v2/health/live"))
        with contextlib.suppress(ConnectionResetError):
            while peer.recv(1 << 16):
                pass
    with grpc_client.InferenceServerClient(server.grpc) as client:
        assert client.is_server_live()
