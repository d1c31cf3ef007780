"""How tarballs are requested over HTTPS and HTTP: broken connections, credentials, redirects, and what the messages say."""

import functools
import hashlib
import http.server
import os
import pathlib
import re
import threading

import pytest
from typing_extensions import override

from naiad.repository.stores.clients import http_requests
from naiad.repository.stores.objects import ChangedError, StoreError
from tests.stores.clients.archive.archives import CONTENT, Site, names, objects, opened
from tests.stores.clients.tarballs import repository
from tests.stores.clients.web_server import Reply, Request, web_server


def test_a_tarball_over_https(
    certificate: pathlib.Path, scratch: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(repository({"a": CONTENT, "b": b"b"}, top="models/"))
    with web_server(site, certificate=certificate) as url:
        location = f"{url}/some%20where/models.tar.gz?signature=secret"
        client = opened(location, scratch)
        with pytest.raises(StoreError, match=r"certificate is not trusted.*SSL_CERT_FILE") as error:
            names(client)
        assert "secret" not in error.value.message
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert names(client) == ["a", "b"]
        assert [(r.path, r.query) for r in site.requests] == [
            ("/some%20where/models.tar.gz", "signature=secret")
        ]
        (stored,) = objects(client, "a").values()
        assert (stored.key, stored.size) == ("a/1/model.onnx", len(CONTENT))
        assert stored.version == hashlib.sha256(CONTENT).hexdigest()
        assert b"".join(client.read(stored, 0, stored.size)) == CONTENT
        assert b"".join(client.read(stored, 5, 1000)) == CONTENT[5:1000]
        client.close()
        client.close()
        assert list(scratch.iterdir()) == []


def test_a_connection_that_breaks_is_continued_where_it_broke(
    scratch: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_requests, "_REPORT_S", 0.0)
    caplog.set_level("INFO")
    packed = repository({"a": CONTENT}, compression="")
    starts: list[str | None] = []

    def respond(request: Request) -> Reply:
        starts.append(request.headers["Range"])
        return Reply.file(request, packed, cut_at=1_000_000)

    with web_server(respond) as url:
        client = opened(f"{url}/m.tar", scratch)
        assert objects(client)["a/1/model.onnx"].version == hashlib.sha256(CONTENT).hexdigest()
        client.close()
    assert starts == [None, "bytes=1000000-", "bytes=2000000-"]
    assert re.search(r"m\.tar: 2 of 3 MB are downloaded", caplog.text)


def test_a_server_without_ranges_is_read_from_the_beginning(scratch: pathlib.Path) -> None:
    packed = repository({"a": CONTENT}, compression="")
    cuts = [1_000_000, 2_000_000, None]

    def respond(_: Request) -> Reply:
        return Reply(200, packed, cut_at=cuts.pop(0))

    with web_server(respond) as url:
        client = opened(f"{url}/m.tar", scratch)
        assert objects(client)["a/1/model.onnx"].version == hashlib.sha256(CONTENT).hexdigest()
        client.close()


def test_a_connection_that_breaks_again_and_again_is_an_error(scratch: pathlib.Path) -> None:
    packed = repository({"a": CONTENT})
    with web_server(lambda request: Reply.file(request, packed, cut_at=0)) as url:
        with pytest.raises(StoreError, match=r"breaks again and again.*at byte 0") as error:
            objects(opened(f"{url}/m.tar", scratch))
        assert error.value.retry
    assert list(scratch.iterdir()) == []


def test_a_tarball_that_is_replaced_while_it_is_read_is_not_mixed(scratch: pathlib.Path) -> None:
    versions = [
        repository({"a": CONTENT}, compression=""),
        repository({"a": CONTENT[::-1]}, compression=""),
    ]
    with (
        web_server(lambda request: Reply.file(request, versions.pop(0), cut_at=5000)) as url,
        pytest.raises(ChangedError, match="it was replaced while it was read"),
    ):
        objects(opened(f"{url}/m.tar", scratch))
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("status", "message", "retry"),
    [
        (401, "no permission.*HTTP 401.*credentials", False),
        (403, "no permission.*HTTP 403", False),
        (404, "nothing at this address.*HTTP 404.*check the name", False),
        (429, "cannot answer now", True),
        (502, "cannot answer now.*HTTP 502", True),
        (418, "HTTP 418", False),
    ],
)
def test_what_a_refusal_says(
    scratch: pathlib.Path, status: int, message: str, *, retry: bool
) -> None:
    with web_server(lambda _: Reply(status)) as url:
        with pytest.raises(StoreError, match=message) as error:
            objects(opened(f"{url}/m.tar?key=secret", scratch))
        assert error.value.message.startswith(f"{url}/m.tar: ")
    assert error.value.retry == retry


@pytest.mark.parametrize(
    ("location", "message", "retry"),
    [
        (
            "https://127.0.0.1:9/m.tar",
            "cannot be reached.*Connection refused.*check the host",
            True,
        ),
        ("https://host.invalid/m.tar", "cannot be reached", True),
    ],
)
def test_no_route(scratch: pathlib.Path, location: str, message: str, *, retry: bool) -> None:
    with pytest.raises(StoreError, match=message) as error:
        objects(opened(location, scratch))
    assert error.value.retry == retry


def test_https_to_a_port_that_speaks_http(scratch: pathlib.Path) -> None:
    with web_server(lambda _: Reply(200)) as url, pytest.raises(StoreError, match="TLS fails"):
        objects(opened(f"{url.replace('http', 'https')}/m.tar", scratch))


def test_netrc_s_credentials_go_to_their_host_only(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, scratch: pathlib.Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password pass\n")
    monkeypatch.setenv("NETRC", str(netrc))
    packed = repository({"a": b"x"})
    seen: list[tuple[str, str | None]] = []

    def storage(request: Request) -> Reply:
        seen.append(("storage", request.headers["Authorization"]))
        return Reply.file(request, packed)

    with web_server(storage) as storage_url:

        def site(request: Request) -> Reply:
            seen.append((request.path, request.headers["Authorization"]))
            location = "/same-host" if request.path == "/m.tgz" else f"{storage_url}/x"
            return Reply(302, headers={"Location": location})

        with web_server(site) as url:
            client = opened(f"{url}/m.tgz", scratch)
            assert names(client) == ["a"]
            client.close()
    basic = http_requests.basic("user", "pass")
    assert seen == [("/m.tgz", basic), ("/same-host", basic), ("storage", None)]


def test_a_netrc_that_cannot_be_read_is_named(
    tmp_path: pathlib.Path, scratch: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine host wrong secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with pytest.raises(StoreError, match=r"netrc.*cannot be read") as error:
        objects(opened("https://127.0.0.1:9/m.tar", scratch))
    assert "secret" not in error.value.message


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("file:///etc/passwd", "HTTP 302"),
        ("ftp://127.0.0.1/x", "it redirects from https to ftp"),
        ("http://127.0.0.1:9/x", "it redirects from https to http"),
    ],
)
def test_redirects_stay_with_https(
    certificate: pathlib.Path,
    scratch: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    message: str,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    reply = Reply(302, headers={"Location": target})
    with (
        web_server(lambda _: reply, certificate=certificate) as url,
        pytest.raises(StoreError, match=message),
    ):
        objects(opened(f"{url}/m.tar", scratch))


def test_a_plain_web_server_is_enough(tmp_path: pathlib.Path, scratch: pathlib.Path) -> None:
    """Python's own: times of change, and neither ETags nor ranges."""
    (tmp_path / "m.tgz").write_bytes(repository({"a": b"one"}))
    served: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        @override
        def log_request(self, code: object = "-", size: object = "-") -> None:
            served.append(str(int(str(code))))

    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        client = opened(f"http://127.0.0.1:{server.server_port}/m.tgz", scratch)
        assert objects(client)["a/1/model.onnx"].size == 3
        assert names(client) == ["a"]
        (tmp_path / "m.tgz").write_bytes(repository({"a": b"newer"}))
        os.utime(tmp_path / "m.tgz", (1_900_000_000, 1_900_000_000))
        assert objects(client)["a/1/model.onnx"].size == 5
        client.close()
        server.shutdown()
        thread.join()
    assert served == ["200", "304", "200"]
