"""Compressed infer bodies of every shape: each gets the answer it deserves, and leaves no memory behind."""

import collections.abc
import contextlib
import functools
import gzip
import itertools
import json
import pathlib
import zlib

import pytest

from tests.reference.process import ServerProcess
from tests.wire.plain_http import call
from tests.wire.process.test_process import ADD, launched
from tests.wire.protocol.raw_http import exchange

_JSON = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2,3,4]}]}'
_GZIP = gzip.compress(_JSON)
_ZLIB = zlib.compress(_JSON)
_PADDED = _JSON + b" " * 5_000_000
_HEAPS = 4
"""The server's process has so many (`naiad.core.processes.malloc`)."""

_QUICK = 1
"""The compression level of what is large: a test is not to spend its time on making it small."""

Body = bytes | collections.abc.Callable[[], bytes]
"""Large ones are made by the test that sends them: every process of a run imports this file, and one runs its tests."""


@functools.cache
def bomb() -> bytes:
    """Twice the limit of a body, which is 64 MiB, in less than a megabyte."""
    return gzip.compress(b" " * (128 << 20), _QUICK)


_FAR: list[collections.abc.Callable[[], bytes]] = [
    lambda: b"[" * 16_000_000,
    lambda: _JSON[:-2] + b"," + b" " * 16_000_000,
    lambda: b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[' + b"[]," * 4_000_000 + b"1]}]}",
    lambda: b'"' + b"x" * 16_000_000,
    lambda: b'{"inputs":[{"name":"x","datatype":"FP32","data":[1],"shape":[' + b"1," * 16_000_000 + b"1]}]}",
]  # fmt: skip


def raw_deflate(data: bytes) -> bytes:
    """Without zlib's header, as some clients take "deflate"."""
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def infer(server: ServerProcess, encoding: str, body: Body, **headers: str) -> tuple[int, bytes]:
    return call(
        server.http,
        "POST",
        "/v2/models/add/infer",
        body() if callable(body) else body,
        **{"Content-Encoding": encoding},
        **headers,
    )


def answered(server: ServerProcess) -> None:
    """Another client's request is answered."""
    assert call(server.http, "POST", "/v2/models/add/infer", _JSON)[0] == 200


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", _GZIP),
        ("deflate", _ZLIB),
        ("deflate", _GZIP),
        ("gzip", _ZLIB),
        ("GZip ", _GZIP),
        ("identity", _JSON),
        ("", _JSON),
        ("gzip", lambda: gzip.compress(_PADDED)),
        ("deflate", lambda: zlib.compress(_PADDED, 9)),
        ("gzip", gzip.compress(_JSON, compresslevel=0)),
    ],
    ids=itertools.count(),
)
def test_what_is_well_compressed_is_answered(
    server: ServerProcess, encoding: str, body: Body
) -> None:
    status, reply = infer(server, encoding, body)
    assert (status, json.loads(reply)["outputs"][0]["data"]) == (200, [2, 4, 6, 8])


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b"", 400),
        ("deflate", b"", 400),
        ("gzip", _JSON, 400),
        ("deflate", raw_deflate(_JSON), 400),
        ("gzip", gzip.compress(_GZIP), 500),
        ("gzip, gzip", gzip.compress(_GZIP), 501),
        ("gzip, identity", _GZIP, 501),
        ("br", _GZIP, 501),
        ("zstd", b"(\xb5/\xfd", 501),
        ("gzip" * 1000, _GZIP, 501),
        ("gzip", _GZIP + b"trailing", 400),
        ("gzip", _GZIP + _GZIP, 400),
        ("gzip", _GZIP[:-1], 400),
        ("gzip", _GZIP[:20], 400),
        ("gzip", _GZIP[:3], 400),
        ("gzip", _GZIP[:-8] + b"\0" * 8, 400),
        ("deflate", _ZLIB[:-1], 400),
        ("deflate", _ZLIB + b"\0", 400),
        ("gzip", gzip.compress(b""), 400),
        ("gzip", gzip.compress(b"\0" * 1000), 500),
        pytest.param("gzip", bomb, 400, marks=pytest.mark.slow),
        pytest.param(
            "deflate",
            lambda: zlib.compress(b" " * (128 << 20), _QUICK),
            400,
            marks=pytest.mark.slow,
        ),
    ],
    ids=itertools.count(),
)
def test_what_is_badly_compressed_is_refused(
    server: ServerProcess, encoding: str, body: Body, status: int
) -> None:
    found, reply = infer(server, encoding, body)
    assert found == status, reply
    assert set(json.loads(reply)) == {"error"}
    answered(server)


@pytest.mark.parametrize(
    "text", _FAR, ids=["brackets", "spaces", "empty lists", "a string", "dimensions"]
)
@pytest.mark.slow
def test_hostile_json_that_was_compressed_is_refused(
    server: ServerProcess, text: collections.abc.Callable[[], bytes]
) -> None:
    status, reply = infer(server, "gzip", gzip.compress(text(), _QUICK))
    assert status in (400, 500)
    assert set(json.loads(reply)) == {"error"}
    assert len(reply) < 1000  # what was sent is not repeated
    answered(server)


@pytest.mark.parametrize("cut", range(1, len(_GZIP), 20))
def test_a_body_that_is_cut_anywhere_is_refused(server: ServerProcess, cut: int) -> None:
    assert infer(server, "gzip", _GZIP[:cut])[0] == 400


def head(length: int, *lines: str) -> bytes:
    first = [
        "POST /v2/models/add/infer HTTP/1.1",
        "Host: h",
        "Content-Encoding: gzip",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*first, *lines, "Connection: close", "", ""]).encode()


def test_a_content_length_that_lies_is_found_out(server: ServerProcess) -> None:
    shorter = exchange(server.http, head(len(_GZIP) - 3) + _GZIP, method="POST")
    assert shorter[0] == 400
    for length in ("-1", "1e3", f"{len(_GZIP)}, {len(_GZIP)}"):
        assert (
            exchange(server.http, head(0).replace(b": 0", f": {length}".encode()) + _GZIP)[0] == 400
        )
    answered(server)


@pytest.mark.parametrize(
    "message", ["0", "1", str(len(_JSON) - 1), str(len(_JSON) + 1), str(2**31 - 1), "-1", "x"]
)
def test_a_header_length_is_that_of_the_decompressed_body(
    server: ServerProcess, message: str
) -> None:
    headers = {"Inference-Header-Content-Length": message}
    assert infer(server, "gzip", _GZIP, **headers)[0] in (400, 500)
    assert (
        infer(server, "gzip", _GZIP, **{"Inference-Header-Content-Length": str(len(_JSON))})[0]
        == 200
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", ["generate", "generate_stream"])
def test_generate_takes_no_compressed_body(server: ServerProcess, path: str) -> None:
    status, reply = call(
        server.http, "POST", f"/v2/models/add/{path}", bomb(), **{"Content-Encoding": "gzip"}
    )
    assert (status, "identity" in json.loads(reply)["error"]) == (400, True)


@pytest.fixture(scope="module")
def alone(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    """A server of this module's own, for what it holds."""
    with launched(models, tmp_path_factory.mktemp("alone"), *ADD) as running:
        yield running


def resident_mib(server: ServerProcess) -> float:
    assert server.process is not None
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def left_by_bombs(server: ServerProcess) -> float:
    """How many MiB the server's process holds more after six of them."""
    before = resident_mib(server)
    for _ in range(6):
        with contextlib.suppress(OSError):
            assert infer(server, "gzip", bomb)[0] == 400
    answered(server)
    return resident_mib(server) - before


@pytest.mark.slow
def test_bombs_leave_no_memory_behind(alone: ServerProcess) -> None:
    """Each heap of the allocator keeps a piece of memory of the first bomb in it. Which thread takes a bomb is open: a round of them may be the first in several heaps, but not each round."""
    rounds = 1 + _HEAPS
    assert any(left_by_bombs(alone) < 80 for _ in range(rounds)), "each bomb leaves something"
