"""Requests that are refused on their head: their bodies cost the server no memory, whatever they say of their length."""

import collections.abc
import concurrent.futures
import contextlib
import http.client
import pathlib

import pytest

from tests.reference.process import ServerProcess
from tests.wire.plain_http import call
from tests.wire.process.test_process import ADD, launched
from tests.wire.protocol.raw_http import connect

pytestmark = pytest.mark.slow

_CLIENTS = 8
_PIECE = b"x" * (1 << 20)
_PIECES = 48
_TWO_GIB = 2**31 - 1
_ROOM_MIB = 64


@pytest.fixture(scope="module")
def server(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "token").write_text("open\n")
    with launched(models, folder, *ADD, f"--auth-token-file={folder / 'token'}") as running:
        yield running


def peak_mib(server: ServerProcess) -> float:
    """The most memory that the server's process has ever held."""
    assert server.process is not None
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def upload(address: str, head: list[str]) -> int:
    """Send a head and up to 48 MiB of body, as far as the server takes it: the status of the reply."""
    with contextlib.closing(connect(address)) as peer:
        peer.sendall("\r\n".join([*head, "", ""]).encode())
        reply = http.client.HTTPResponse(peer)
        reply.begin()
        with contextlib.suppress(OSError):
            for _ in range(_PIECES):
                peer.sendall(_PIECE)
        return reply.status


def post(path: str, *lines: str) -> list[str]:
    return [f"POST {path} HTTP/1.1", "Host: h", *lines]


_TOKEN = "Authorization: open"
_LIFTED = "Inference-Header-Content-Length: 1"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (post("/v2/models/add/infer", f"Content-Length: {_TWO_GIB}", _LIFTED), 401),
        (post("/v2/models/add/infer", "Content-Length: 60000000"), 401),
        (post("/v2/models/add/infer", "Transfer-Encoding: chunked", _LIFTED), 401),
        (post("/v2/models/add/generate", "Content-Length: 60000000"), 401),
        (post("/v2/repository/models/add/load", "Content-Length: 60000000"), 401),
        (post("/v2/models/nope/infer", f"Content-Length: {_TWO_GIB}", _LIFTED, _TOKEN), 404),
        (post("/v2/models/add/infer", f"Content-Length: {_TWO_GIB + 1}", _LIFTED, _TOKEN), 400),
        (post("/v2/models/add/infer", "Content-Length: 68000000", _TOKEN), 400),
        (post("/v2/health/live", "Content-Length: 60000000"), 400),
    ],
)
def test_a_body_that_is_refused_on_its_head_is_not_kept(
    server: ServerProcess, head: list[str], status: int
) -> None:
    before = peak_mib(server)
    with concurrent.futures.ThreadPoolExecutor(_CLIENTS) as clients:
        statuses = list(clients.map(upload, [server.http] * _CLIENTS, [head] * _CLIENTS))
    assert statuses == [status] * _CLIENTS
    assert peak_mib(server) - before < _ROOM_MIB
    assert call(server.http, "GET", "/v2/models/add", Authorization="open")[0] == 200
