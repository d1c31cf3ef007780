"""The cluster's stand-in for Google Cloud Storage, from within its network: accounts with keys, and a bucket that they may read."""

import json
import pathlib
import typing
import urllib.request

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

_HOST = "gcs.store.svc.cluster.local"
_PEM = serialization.Encoding.PEM

ENV = [{"name": "API_ENDPOINT_OVERRIDE", "value": f"http://{_HOST}"}]
"""The variable by which Google's package leaves storage.googleapis.com, and still sends credentials."""


class Account:
    """A service account with one key.

    Args:
        name: the first part of its e-mail address.
        buckets: what it may read.
    """

    def __init__(self, name: str, *buckets: str) -> None:
        self.email = f"{name}@naiad.iam.gserviceaccount.com"
        self.buckets = buckets
        self._key = rsa.generate_private_key(65537, 2048)

    @property
    def key_file(self) -> str:
        """The JSON file that Google lets people download, once, when they make a key."""
        private = self._key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())  # fmt: skip
        members = {
            "type": "service_account",
            "project_id": "naiad",
            "private_key_id": "1",
            "private_key": private.decode(),
            "client_email": self.email,
            "token_uri": f"http://{_HOST}/token",
        }
        return json.dumps(members)

    @property
    def public_key(self) -> str:
        """What its tokens are verified with."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_key().public_bytes(_PEM, form).decode()


class Google:
    """The accounts and buckets.

    Args:
        accounts: those that exist, each with its one key.
    """

    def __init__(self, *accounts: Account) -> None:
        known = {each.email: {"key": each.public_key, "buckets": each.buckets} for each in accounts}
        request = urllib.request.Request(
            f"http://{_HOST}/accounts", json.dumps(known).encode(), method="PUT"
        )
        # A connection to a Service that kube-proxy has not yet noticed hangs; the next one gets through.
        if not any(_is_sent(request) for _ in range(3)):
            raise OSError(f"{request.full_url} does not answer")
        self._client: typing.Any = storage.Client(
            project="naiad",
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": f"http://{_HOST}:4443"},
        )

    def upload(self, folder: pathlib.Path, bucket: str, prefix: str) -> None:
        """Copies a folder into a bucket, which is made if it does not exist."""
        if bucket not in {one.name for one in self._client.list_buckets()}:
            self._client.create_bucket(bucket)
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            blob = self._client.bucket(bucket).blob(f"{prefix}/{file.relative_to(folder)}")
            blob.upload_from_filename(str(file))


def _is_sent(request: urllib.request.Request) -> bool:
    try:
        urllib.request.urlopen(request, timeout=20).close()  # noqa: S310 - a fixed address
    except OSError:
        return False
    return True
