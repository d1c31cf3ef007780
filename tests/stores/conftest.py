"""Servers of object stores, one of each kind per test process, and credentials for them."""

import collections.abc
import itertools
import pathlib
import typing

import boto3
import pytest

from naiad.repository.stores.address import parse
from naiad.repository.stores.clients.s3 import S3Client
from tests.stores.versitygw import ACCESS_KEY, SECRET_KEY, Gateway, gateway

_NUMBERS = itertools.count(1)

BUILD_S = 600
"""Limit of a test that may be the first one to need versitygw, which is built then."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that needs a server may have to build it."""
    for item in items:
        if "s3" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(BUILD_S))


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Gateway]:
    """A running versitygw."""
    with gateway(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


class Bucket(typing.NamedTuple):
    """A bucket of its own for a test.

    Attributes:
        server: that holds it.
        name: of the bucket.
        boto: a client with the administrator's keys.
    """

    server: Gateway
    name: str
    boto: typing.Any

    @property
    def address(self) -> str:
        """Of the folder `models` in it."""
        return self.server.address(f"{self.name}/models")

    def put(self, key: str, content: bytes) -> None:
        """Upload an object below `models`."""
        self.boto.put_object(Bucket=self.name, Key=f"models/{key}", Body=content)

    def upload(self, folder: pathlib.Path) -> None:
        """Upload the files of a folder."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.put(str(path.relative_to(folder)), path.read_bytes())

    def client(self, path: str | None = None) -> S3Client:
        """A client of ours for `models` in this bucket, or for another path of the server."""
        return S3Client(parse(self.address if path is None else self.server.address(path)))


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """The administrator's keys in the environment, and no other. Gives the path of a shared file that does not exist."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path / "credentials"


@pytest.fixture(scope="session")
def administrator(s3: Gateway) -> collections.abc.Iterator[typing.Any]:
    """A client with the administrator's keys; making one takes a while."""
    session = boto3.session.Session(ACCESS_KEY, SECRET_KEY, region_name="us-east-1")
    client = session.client("s3", endpoint_url=f"http://127.0.0.1:{s3.port}")
    yield client
    client.close()


@pytest.fixture
def bucket(s3: Gateway, administrator: typing.Any, credentials: pathlib.Path) -> Bucket:
    """An empty bucket."""
    name = f"bucket-{next(_NUMBERS)}"
    administrator.create_bucket(Bucket=name)
    return Bucket(s3, name, administrator)
