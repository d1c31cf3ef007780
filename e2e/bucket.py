"""The object store of the stories, from a test's view: boto3 on its Service."""

import pathlib
import typing

import boto3
import botocore.config

from e2e.addons.install import S3_ADDRESS, S3_KEYS

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples" / "model_repository"


class Bucket:
    """One bucket, made if it does not exist.

    Args:
        name: of the bucket.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        key, secret = S3_KEYS
        self._client: typing.Any = boto3.client(
            "s3",
            endpoint_url=S3_ADDRESS,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            region_name="us-east-1",
            config=botocore.config.Config(s3={"addressing_style": "path"}),
        )
        if name not in {one["Name"] for one in self._client.list_buckets()["Buckets"]}:
            self._client.create_bucket(Bucket=name)

    def put(self, key: str, content: bytes) -> None:
        """Writes an object."""
        self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def upload(self, folder: pathlib.Path, prefix: str) -> None:
        """Copies a folder."""
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            self.put(f"{prefix}/{file.relative_to(folder)}", file.read_bytes())

    def uri(self, prefix: str) -> str:
        """What `storageUri` says."""
        return f"s3://{self.name}/{prefix}"
