"""A certificate, a folder for what is unpacked, and no waits between two tries."""

import pathlib

import pytest

from naiad.repository.stores.clients import http_requests
from tests.stores.clients.web_server import make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def scratch(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "_BACKOFF_S", 0.001)
    monkeypatch.setenv("NETRC", "/none")
