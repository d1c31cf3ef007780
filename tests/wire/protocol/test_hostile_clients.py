"""Clients that send slowly, nothing, or garbage, before any token is looked at: others are answered, and nothing is left of them."""

import collections.abc
import contextlib
import pathlib
import random
import socket

import pytest
import tritonclient.grpc as grpc_client

from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until
from tests.wire.plain_http import get
from tests.wire.process.test_process import ADD, launched
from tests.wire.protocol.raw_http import connect

pytestmark = pytest.mark.slow

_CLIENTS = 200


@pytest.fixture(scope="module")
def server(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    """With tokens, so that every client below is one that was not admitted, and with short times to wait."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "token").write_text("open\n")
    options = (
        *ADD,
        f"--auth-token-file={folder / 'token'}",
        "--http-idle-timeout-secs=1",
        "--http-body-timeout-secs=1",
    )
    with launched(models, folder, *options) as running:
        # What the first requests bring with them (the application of the control plane, grpc's threads) does not count as a leak.
        answered(running)
        yield running


def descriptors(server: ServerProcess) -> int:
    """How many connections, and all else that has a descriptor, the server's process holds."""
    assert server.process is not None
    return len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir()))


def answered(server: ServerProcess) -> None:
    """Clients that behave are answered on every port."""
    assert get(server.http, "/v2/models/add", Authorization="open")[0] == 200
    assert get(server.http, "/v2/health/ready")[0] == 200
    assert get(server.metrics, "/metrics")[0] == 200
    with grpc_client.InferenceServerClient(server.grpc) as client:
        assert client.is_server_ready()


@contextlib.contextmanager
def crowd(address: str, first: bytes = b"") -> collections.abc.Iterator[list[socket.socket]]:
    """200 connections that have sent this."""
    with contextlib.ExitStack() as opened:
        peers = [opened.enter_context(connect(address)) for _ in range(_CLIENTS)]
        for peer in peers:
            if first:
                peer.sendall(first)
        yield peers


_HEAD = b"POST /v2/models/add/infer HTTP/1.1\r\nHost: h\r\n"
_BEGINNINGS = {
    "nothing": b"",
    "a letter": b"P",
    "half a head": _HEAD + b"X-Slow: ",
    "a head and no body": _HEAD + b"Content-Length: 1000\r\nAuthorization: open\r\n\r\n",
    "half a body": _HEAD + b"Content-Length: 1000\r\nAuthorization: open\r\n\r\n" + b"x" * 500,
    "half a chunk": _HEAD + b"Transfer-Encoding: chunked\r\nAuthorization: open\r\n\r\nff\r\n" + b"x" * 9,
    "a body without a token": _HEAD + b"Content-Length: 1000000\r\n\r\n" + b"x" * 500,
    "a wait for 100": _HEAD + b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
    "the application's body": b"POST /v2/repository/index HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\nAuthorization: open\r\n\r\n{",
    "a stalled TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "half an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM",
    "an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0",
}  # fmt: skip


@pytest.mark.parametrize("port", ["http", "metrics", "grpc"])
@pytest.mark.parametrize("beginning", _BEGINNINGS)
def test_others_are_answered_beside_clients_that_stop(
    server: ServerProcess, beginning: str, port: str
) -> None:
    before = descriptors(server)
    with crowd(getattr(server, port), _BEGINNINGS[beginning]):
        answered(server)
    wait_until(lambda: descriptors(server) <= before + 8)
    answered(server)


@pytest.mark.parametrize("port", ["http", "metrics"])
def test_clients_that_stop_and_stay_are_closed_by_the_server(
    server: ServerProcess, port: str
) -> None:
    """All kinds at once: the server reads on for some seconds from those to which it has sent an error."""
    before = descriptors(server)
    with contextlib.ExitStack() as opened:
        for kind in ("nothing", "half a body", "a body without a token", "a stalled TLS handshake"):
            opened.enter_context(crowd(getattr(server, port), _BEGINNINGS[kind]))
        # The times of this server are a second; that of a head is longer, and is tested with virtual time.
        wait_until(lambda: descriptors(server) <= before + 8)
        answered(server)


@pytest.mark.parametrize("port", ["http", "metrics", "grpc"])
def test_a_head_that_comes_byte_by_byte_delays_no_other_client(
    server: ServerProcess, port: str
) -> None:
    before = descriptors(server)
    with crowd(getattr(server, port)) as peers:
        for byte in b"GET /v2/hea":
            for peer in peers:
                with contextlib.suppress(
                    OSError
                ):  # grpc disconnects when it sees that this is not HTTP/2
                    peer.sendall(bytes((byte,)))
        answered(server)
    wait_until(lambda: descriptors(server) <= before + 8)


@pytest.mark.parametrize("port", ["http", "metrics", "grpc"])
def test_garbage_is_answered_or_disconnected(server: ServerProcess, port: str) -> None:
    before = descriptors(server)
    chance = random.Random(7)
    for _ in range(300):
        with (
            contextlib.closing(connect(getattr(server, port))) as peer,
            contextlib.suppress(OSError),
        ):
            peer.sendall(chance.randbytes(chance.randrange(1, 3000)))
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
    answered(server)
    wait_until(lambda: descriptors(server) <= before + 8)
    assert server.process is not None
    assert server.process.poll() is None
    assert "Traceback" not in server.output()


def test_clients_that_vanish_while_they_send_leave_nothing(server: ServerProcess) -> None:
    before = descriptors(server)
    for beginning in _BEGINNINGS.values():
        for port in (server.http, server.metrics, server.grpc):
            for _ in range(10):
                peer = connect(port)
                # Closing with unread data or this option sends a reset.
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                if beginning:
                    peer.sendall(beginning)
                peer.close()
    answered(server)
    wait_until(lambda: descriptors(server) <= before + 8)
