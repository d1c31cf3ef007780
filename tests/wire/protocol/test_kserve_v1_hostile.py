"""Bodies and heads of KServe's v1 that no client should send, over both engines of HTTP: each is refused with words, or read as it is meant, and harms nothing else."""

import base64
import collections.abc
import gzip
import json
import pathlib
import typing
import zlib

import pytest

from tests.reference.process import ServerProcess
from tests.wire.plain_http import call
from tests.wire.process.test_process import launched
from tests.wire.protocol import test_kserve_v1 as ordinary
from tests.wire.protocol.raw_http import exchange

LIMIT = 16_000_000
ROWS = json.dumps(ordinary.ROWS).encode()
NUMBERS = b'{"instances":[{"x":[1,2,%s]}]}'
TEXT = b'{"instances":[{"x":[1,2,3],"s":%s}]}'


def gzipped(body: bytes) -> bytes:
    """The same bytes each time: they are in names of tests, and gzip writes the time."""
    return gzip.compress(body, mtime=0)


def short(value: object) -> str:
    """A parameter in the name of a test."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:24]} ({len(text)})"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("models")
    batch = 'backend: "python"\nmax_batch_size: 8\n'
    ordinary.put(root, "echo", batch + ordinary.TENSORS.format("TYPE_FP32", 3), ordinary.ECHO)
    ordinary.put(root, "wide", batch + ordinary.TENSORS.format("TYPE_FP64", "[ -1 ]"), ordinary.ECHO)  # fmt: skip
    ordinary.put(root, "whole", batch + ordinary.TENSORS.format("TYPE_INT64", "[ -1 ]"), ordinary.ECHO)  # fmt: skip
    return root


@pytest.fixture(scope="module", params=["native", "uvicorn"])
def server(
    request: pytest.FixtureRequest,
    repository: pathlib.Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    options = (f"--http-engine={request.param}", f"--http-max-input-size={LIMIT}")
    with launched(repository, tmp_path_factory.mktemp("server"), *options) as running:
        yield running


def predict(
    server: ServerProcess, body: bytes, model: str = "echo", **headers: str
) -> tuple[int, typing.Any]:
    status, text = call(server.http, "POST", f"/v1/models/{model}:predict", body, **headers)
    return status, json.loads(text)


def refused(answer: tuple[int, typing.Any], says: str, status: int = 400) -> None:
    got, reply = answer
    assert (got, list(reply)) == (status, ["error"]), reply
    assert says in reply["error"]
    assert len(reply["error"]) < 1000


def harmless(server: ServerProcess) -> None:
    assert predict(server, ROWS) == (200, ordinary.ANSWER)


@pytest.mark.parametrize(
    ("number", "model", "says"),
    [
        (b"1e400", "echo", "infinity"),
        (b"-1e400", "echo", "infinity"),
        (b"1e39", "echo", "too big for FP32"),
        (b"1" + b"0" * 400, "echo", "infinity"),
        (b"1" + b"0" * 400 + b",NaN", "wide", "infinity"),
        (b"1e400,NaN", "wide", "infinity"),
        (b"1" + b"0" * 100_000, "wide", "infinity"),
        (b"18446744073709551616", "whole", "an integer without a decimal point"),
        (b"9223372036854775808", "whole", "not in the range of INT64"),
        (b"1.0", "whole", "an integer without a decimal point"),
        (b"-", "echo", "parse"),
        (b"+1", "echo", "parse"),
        (b"01", "echo", "parse"),
        (b"1.", "echo", "parse"),
        (b".5", "echo", "parse"),
        (b"0x10", "echo", "parse"),
        (b"1_000", "echo", "parse"),
        (b"nan", "echo", "parse"),
        (b"true", "echo", "a number for FP32"),
        (b"null", "echo", "a number for FP32"),
        (b'"3"', "echo", "a number for FP32"),
        (b'{"b64":"AAA="}', "echo", "only BYTES inputs take"),
        (b"{}", "echo", "a number for FP32"),
        (b"[3]", "echo", "nested deeper than the shape"),
        (b"\xef\xbc\x93", "echo", "parse"),
    ],
    ids=short,
)  # fmt: skip
def test_numbers_that_cannot_be_read_or_do_not_fit(
    server: ServerProcess, number: bytes, model: str, says: str
) -> None:
    refused(predict(server, NUMBERS % number, model), says)
    harmless(server)


@pytest.mark.parametrize(
    ("number", "read"),
    [(b"-0", -0.0), (b"-0.0", -0.0), (b"1e-400", 0.0), (b"1E2", 100.0), (b"NaN", None), (b"-Infinity", None)],
)  # fmt: skip
def test_odd_numbers_that_are_numbers(
    server: ServerProcess, number: bytes, read: float | None
) -> None:
    status, reply = predict(server, NUMBERS % number)
    assert (status, reply["predictions"][0][2]) == (200, read)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b'{"b64":"YQ"}', "not valid base64"),
        (b'{"b64":"YQ="}', "not valid base64"),
        (b'{"b64":"YQ==YQ=="}', "not valid base64"),
        (b'{"b64":"Y Q=="}', "not valid base64"),
        (b'{"b64":"YQ==\\n"}', "not valid base64"),
        (b'{"b64":"_-=="}', "not valid base64"),
        (b'{"b64":"\\u00e4"}', "not valid base64"),
        (b'{"b64":1}', "send a string, or bytes"),
        (b'{"b64":["YQ=="]}', "send a string, or bytes"),
        (b'{"b64":null}', "send a string, or bytes"),
        (b'{"b64":"YQ==","x":1}', "send a string, or bytes"),
        (b'{"B64":"YQ=="}', "send a string, or bytes"),
        (b'"\\ud800"', ""),
        (b'["\\udc00\\ud800"]', ""),
        (b'"\\u12"', "parse"),
        (b'"a\x01b"', "parse"),
        (b'"open', "parse"),
        (b'["a","b"]', "has 2 values, expected 1"),
        (b"[]", "has 0 values, expected 1"),
        (b"7", "send a string, or bytes"),
    ],
    ids=short,
)
def test_texts_and_bytes_that_cannot_be_read(
    server: ServerProcess, value: bytes, says: str
) -> None:
    refused(predict(server, TEXT % value), says)
    harmless(server)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "The document is empty"),
        (b"null", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b'"instances"', "not a JSON object"),
        (b"{}", "neither 'instances' nor 'inputs'"),
        (b'{"Instances":[]}', "neither 'instances' nor 'inputs'"),
        (b'{"instances":[]}', "'instances' is empty"),
        (b'{"instances":{}}', "'instances' is not a list"),
        (b'{"instances":null}', "'instances' is not a list"),
        (b'{"inputs":{}}', "names no tensors"),
        (b'{"inputs":[]}', "values without a name"),
        (b'{"inputs":null}', "values without a name"),
        (b'{"instances":[{"x":[1,2,3]}],"inputs":{"x":[[1,2,3]]}}', "both 'instances' and 'inputs'"),
        (b'{"instances":[{"x":[1,2,3]},7]}', "row 1"),
        (b'{"instances":[{"x":[1,2,3]},null]}', "row 1"),
        (b'{"instances":[{"x":[1,2,3]},{}]}', "row 1 (instances[1]) lacks 'x'"),
        (b'{"instances":[{"x":[1,2,3]},{"x":[1,2,3],"s":"a"}]}', "row 1 (instances[1]) also has 's'"),
        (b'{"instances":[{"x":[1,2,3]},{"x":[1,2]}]}', "row 1 of input 'x'"),
        (b'{"instances":[{"x":[1,2,3]},{"x":[[1,2,3]]}]}', "row 1 of input 'x'"),
        (b'{"instances":[{"x":[1,2,3],"zz":1}]}', "'zz', which is not an input"),
        (b'{"instances":[[1,2,3],[4,5,6]]}', "values without a name"),
        (b'{"inputs":{"x":[[1,2,3],[4,5]]}}', "has 2 values, expected 3"),
        (b'{"inputs":{"x":[]}}', ""),
        (b'{"inputs":{"x":[[1,2,3]],"s":[["a"],["b"]]}}', ""),
        (b'{"instances":[{"x":[1,2,3]}]} {}', "parse"),
        (b'{"instances":[{"x":[1,2,3]}],}', "parse"),
        (b"{'instances':[{'x':[1,2,3]}]}", "parse"),
        (b'{"instances":[{"x":[1,2,3]}]', "parse"),
        (b'{"instances":[{"x":[1,2,3]}]}\0', "parse"),
        (b'{"instances":' + b"[" * 500_000, "nesting depth"),
        (b'{"a":' * 200_000, "nesting depth"),
        (b'{"instances":[{"x":[1,2,3]}],"signature_name":7}', "'signature_name' is not a string"),
        (b'{"instances":[{"' + b"n" * 100_000 + b'":[1,2,3]}]}', "which is not an input"),
        (b"{" + b",".join(b'"n%d":1' % n for n in range(50_000)) + b"}", "and 49992 more"),
        (b"\xef\xbb\xbf\xef\xbb\xbf" + ROWS, "parse"),
        (ROWS.decode().encode("utf-16"), "parse"),
        (ROWS.decode().encode("utf-16-le"), "parse"),
        (ROWS.decode().encode("utf-32"), "parse"),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--", "parse"),
        (b"x=1&y=2", "parse"),
        (b"<instances/>", "parse"),
    ],
    ids=short,
)  # fmt: skip
def test_bodies_of_every_wrong_form(server: ServerProcess, body: bytes, says: str) -> None:
    refused(predict(server, body), says)
    harmless(server)


def test_odd_bodies_that_are_meant(server: ServerProcess) -> None:
    for body in (
        b"\xef\xbb\xbf" + ROWS,
        b" \r\n\t" + ROWS + b"\n",
        b'{"context":{"deep":' + b"[" * 90 + b"]" * 90 + b"}," + ROWS[1:],
        b'{"instances":[{"x":[9]}],' + ROWS[1:],
        b'{"instances": [{"x": [9, 9, 9], "x": [1, 2, 3], "s": "a"}, {"x": [4, 5, 6.5], "s": {"b64": "/w=="}}]}',
        ROWS.replace(b'"x"', b'"\\u0078"'),
    ):  # fmt: skip
        assert predict(server, body) == (200, ordinary.ANSWER)
    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", "a/b" * 2000, "\xe4"):  # fmt: skip
        assert predict(server, ROWS, **{"Content-Type": kind}) == (200, ordinary.ANSWER)


@pytest.mark.parametrize(
    ("encoding", "body", "status", "says"),
    [
        ("gzip", gzipped(ROWS)[:-9], 400, "ends too early"),
        ("gzip", gzipped(ROWS) + b"more", 400, "follow the end"),
        ("gzip", gzipped(ROWS) * 2, 400, "follow the end"),
        ("gzip", ROWS, 400, "cannot decompress"),
        ("gzip", b"", 400, "nothing to be decompressed"),
        ("deflate", zlib.compress(ROWS)[:-1], 400, "ends too early"),
        ("deflate", b"\x78\x9c", 400, "ends too early"),
        ("gzip", gzipped(gzipped(ROWS)), 400, "parse"),
        ("gzip", gzipped(b" " * (LIMIT + 1)), 400, "exceeds the maximum"),
        ("br", ROWS, 501, "Unsupported compression type 'br'"),
        ("zstd", ROWS, 501, "Unsupported compression type 'zstd'"),
        ("gzip, gzip", gzipped(gzipped(ROWS)), 501, "Unsupported compression type"),
        ("x" * 4000, ROWS, 501, "Unsupported compression type"),
    ],
    ids=short,
)  # fmt: skip
def test_compressed_bodies(
    server: ServerProcess, encoding: str, body: bytes, status: int, says: str
) -> None:
    refused(predict(server, body, **{"Content-Encoding": encoding}), says, status)
    harmless(server)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", "GZIP"])
def test_compressed_bodies_that_are_read(server: ServerProcess, encoding: str) -> None:
    packed = {"gzip": gzipped(ROWS), "deflate": zlib.compress(ROWS), "identity": ROWS}[encoding.lower()]  # fmt: skip
    assert predict(server, packed, **{"Content-Encoding": encoding}) == (200, ordinary.ANSWER)


def raw(server: ServerProcess, lines: list[str], body: bytes) -> tuple[int, typing.Any]:
    head = "\r\n".join(["POST /v1/models/echo:predict HTTP/1.1", "Host: h", *lines, "", ""])
    status, text = exchange(server.http, head.encode() + body, method="POST")
    return status, json.loads(text)


def test_bodies_in_chunks(server: ServerProcess) -> None:
    chunked = ["Transfer-Encoding: chunked"]
    small = b"".join(b"1\r\n%c\r\n" % each for each in ROWS) + b"0\r\n\r\n"
    assert raw(server, chunked, small) == (200, ordinary.ANSWER)
    assert raw(server, chunked, b"%x;a=b\r\n%s\r\n0\r\nX: y\r\n\r\n" % (len(ROWS), ROWS)) == (200, ordinary.ANSWER)  # fmt: skip
    packed = gzipped(ROWS)
    halves = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (9, packed[:9], len(packed) - 9, packed[9:])
    assert raw(server, [*chunked, "Content-Encoding: gzip"], halves) == (200, ordinary.ANSWER)
    refused(raw(server, chunked, b"0\r\n\r\n"), "The document is empty")
    harmless(server)


@pytest.mark.parametrize(
    "name",
    ["a%2Fb", "a%252Fb", "%00", "%0d%0aX:%20y", "%E4%BD%A0", "%ff", "..", "%2e%2e", "a b".replace(" ", "%20"), "n" * 8000, "echo%20", "Echo", "echo;x", "%3A"],
    ids=short,
)  # fmt: skip
def test_names_that_no_model_has(server: ServerProcess, name: str) -> None:
    for verb in ("predict", "explain"):
        status, text = call(server.http, "POST", f"/v1/models/{name}:{verb}", ROWS)
        assert 400 <= status < 500, text
        assert len(text) < 1000
        assert json.loads(text)["error"]
    harmless(server)


def test_a_million_numbers_and_large_bytes_are_read_aside(server: ServerProcess) -> None:
    million = b'{"instances":[{"x":[' + b"0," * 990_000 + b"0]}]}"
    status, reply = predict(server, million, "wide")
    assert (status, len(reply["predictions"][0])) == (200, 990_001)
    rows = b'{"instances":[' + b'{"x":1},' * 200_000 + b'{"x":1}]}'
    refused(predict(server, rows, "wide"), "batch-size must be <= 8")
    text = base64.b64encode(bytes(1_400_000))
    status, reply = predict(server, TEXT % (b'{"b64":"%s"}' % text))
    assert (status, len(reply["predictions"][0]["t"][0])) == (200, 1_400_000)
    refused(predict(server, TEXT % (b'"' + b"x" * LIMIT + b'"')), "request JSON size")
    harmless(server)
