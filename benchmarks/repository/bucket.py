"""An S3 server with one bucket for a measurement, and a plain client for it."""

import collections.abc
import contextlib
import os
import pathlib
import typing
import unittest.mock

import boto3
import botocore.config

from tests.stores.versitygw import ACCESS_KEY, SECRET_KEY, gateway

NAME = "models"
_CONNECTIONS = 64
_ENVIRON = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Bucket(typing.NamedTuple):
    """A bucket.

    Attributes:
        address: of the model repository in it, as `--model-repository` takes it.
        client: boto3's.
    """

    address: str
    client: typing.Any

    def put(self, key: str, path: pathlib.Path) -> None:
        """Upload a file in one part, which has a checksum of the whole object."""
        with path.open("rb") as file:
            self.client.put_object(Bucket=NAME, Key=key, Body=file)

    def upload(self, repository: pathlib.Path) -> None:
        """Upload a model repository as boto3's transfers do: large files in parts."""
        for path in repository.rglob("*"):
            if path.is_file():
                self.client.upload_file(str(path), NAME, str(path.relative_to(repository)))


@contextlib.contextmanager
def bucket(folder: pathlib.Path) -> collections.abc.Iterator[Bucket]:
    """An empty bucket whose objects are files in a folder, for a context; its credentials are in the environment meanwhile."""
    with unittest.mock.patch.dict(os.environ, _ENVIRON), gateway(folder) as server:
        client = boto3.session.Session(region_name="us-east-1").client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{server.port}",
            config=botocore.config.Config(
                max_pool_connections=_CONNECTIONS, response_checksum_validation="when_required"
            ),
        )
        with contextlib.closing(client):
            client.create_bucket(Bucket=NAME)
            yield Bucket(server.address(NAME), client)
