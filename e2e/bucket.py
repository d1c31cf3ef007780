"""The object store of the cluster, from within its network: boto3 on its Service.

python -m e2e.bucket FOLDER BUCKET PREFIX     copies a folder into a bucket
"""

import pathlib
import sys
import typing

import boto3
import botocore.config

ADDRESS = "http://s3.store.svc.cluster.local:9000"
KEYS = ("demo", "demo-secret")
REGION = "us-east-1"
EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples" / "model_repository"


class Bucket:
    """One bucket, made if it does not exist.

    Args:
        name: of the bucket.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        key, secret = KEYS
        self._client: typing.Any = boto3.client(
            "s3",
            endpoint_url=ADDRESS,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            region_name=REGION,
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


if __name__ == "__main__":
    source, bucket, prefix = sys.argv[1:]
    Bucket(bucket).upload(pathlib.Path(source), prefix)
