"""Copies a folder into a bucket: `upload.py ENDPOINT KEY SECRET FOLDER BUCKET PREFIX`. Runs in the cluster's network."""

import pathlib
import sys

import boto3
import botocore.config


def main(arguments: "list[str]") -> None:
    """Upload every file."""
    endpoint, key, secret, folder, bucket, prefix = arguments
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=botocore.config.Config(s3={"addressing_style": "path"}),
    )
    if bucket not in {one["Name"] for one in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=bucket)
    root = pathlib.Path(folder)
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        client.upload_file(str(file), bucket, f"{prefix}/{file.relative_to(root)}")


if __name__ == "__main__":
    main(sys.argv[1:])
