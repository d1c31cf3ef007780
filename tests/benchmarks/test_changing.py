"""Requests that change: no two that wrk sends are alike, in the head or in the body, and a server takes each."""

import http.server
import json
import re
import shutil
import threading
import typing

import pytest
from typing_extensions import override

from benchmarks.changing import changing, new_connections
from benchmarks.load import HttpRequest, wrk
from benchmarks.requests import small, strings

pytestmark = pytest.mark.skipif(shutil.which("wrk") is None, reason="needs wrk")


Seen = list[tuple[dict[str, str], bytes]]


class _Server(http.server.ThreadingHTTPServer):
    seen: Seen
    daemon_threads = True


class _Recorder(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, _Server)
        self.server.seen.append((dict(self.headers.items()), body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


def _sent(request: typing.Callable[[str], HttpRequest]) -> Seen:
    """What a server gets."""
    with _Server(("127.0.0.1", 0), _Recorder) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever).start()
        try:
            wrk(request(f"127.0.0.1:{server.server_port}"), connections=2, seconds=1)
        finally:
            server.shutdown()
    assert len(server.seen) > 1
    return server.seen


def test_no_two_json_requests_are_alike() -> None:
    seen = _sent(lambda address: changing(small("identity").json(address)))
    assert len({headers["traceparent"] for headers, _ in seen}) == len(seen)
    bodies = [json.loads(body) for _, body in seen]
    assert len({body["id"] for body in bodies}) == len(seen)
    assert all(re.fullmatch("[0-9]{12}", body["id"]) for body in bodies)
    assert len({headers["Content-Length"] for headers, _ in seen}) > 1
    assert len({tuple(body["inputs"][0]["data"]) for body in bodies}) > 1
    assert {tuple(body["parameters"]) for body in bodies} == {("tenant", "score")}
    assert {tuple(body["inputs"][0]["shape"]) for body in bodies} == {(1, 4)}


def test_the_json_of_a_binary_request_is_as_long_as_its_header_says() -> None:
    for sample in (small("identity"), strings(3)):
        seen = _sent(lambda address, sample=sample: changing(sample.binary(address)))  # type: ignore[misc]
        for headers, body in seen:
            size = int(headers["Inference-Header-Content-Length"])
            said = json.loads(body[:size])["inputs"][0]["parameters"]["binary_data_size"]
            assert len(body) - size == said
    assert len({body for _, body in seen}) == len(seen)


def test_strings_stay_whole_when_they_change() -> None:
    request = changing(strings(3).binary("localhost:1"))
    for body, _ in request.others:
        assert body[-72:-68] == body[-48:-44] == body[-24:-20] == b"\x14\0\0\0"
    assert len({body[-72:] for body, _ in request.others}) == 3


def test_a_new_connection_for_each_request() -> None:
    seen = _sent(lambda address: new_connections(small("identity").json(address)))
    assert {headers["Connection"] for headers, _ in seen} == {"close"}
