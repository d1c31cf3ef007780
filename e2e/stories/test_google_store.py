"""Story e, Google: models in a bucket of Cloud Storage, read with a service account's key; what is wrong with key, role or bucket is said, and one edit fixes it."""

import typing

import pytest

from e2e import google_stand_in, load, services
from e2e.addons import install
from e2e.addons.target import Target
from e2e.bucket import EXAMPLES
from e2e.google_stand_in import Account, Google
from e2e.kubernetes import Kubernetes, Object

BUCKET = "google-models"
_URI = f"gs://{BUCKET}/production"


class Accounts(typing.NamedTuple):
    """`reader` may read the bucket, `stranger` may not, and `old` is the reader with a key that was deleted."""

    reader: Account
    stranger: Account
    old: Account


@pytest.fixture(scope="module")
def accounts(target: Target) -> Accounts:
    """The accounts, and the bucket with a model."""
    install.google_storage(target)
    found = Accounts(Account("reader", BUCKET), Account("stranger"), Account("reader"))
    store = Google(found.reader, found.stranger)
    store.upload(EXAMPLES / "word_count", BUCKET, "production/word_count")
    return found


def _secret(account: Account) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "google"},
        "stringData": {"key.json": account.key_file},
    }


def _service(uri: str) -> Object:
    model = {"storageUri": uri, "storage": {"secretName": "google"}}
    return services.service("demo", predictor={"model": model, "env": google_stand_in.ENV})


@pytest.mark.parametrize(
    ("account", "uri", "words"),
    [
        ("old", _URI, "Invalid JWT Signature"),
        ("stranger", _URI, "Storage Object Viewer"),
        ("reader", "gs://no-such-bucket/production", "there is no bucket 'no-such-bucket'"),
    ],
    ids=["a deleted key", "an account without a role", "a wrong bucket"],
)
def test_what_is_wrong_is_said_and_one_edit_fixes_it(
    kubernetes: Kubernetes, accounts: Accounts, account: str, uri: str, words: str
) -> None:
    kubernetes.apply(_secret(getattr(accounts, account)), _service(uri))
    kubernetes.wait(
        "the reason",
        lambda: words in str(kubernetes.condition("demo").get("message", "")),
        seen=lambda: kubernetes.condition("demo"),
    )
    assert kubernetes.condition("demo")["status"] == "False"
    kubernetes.apply(_secret(accounts.reader), _service(_URI))
    kubernetes.wait_ready("demo")
    with load.http(f"demo.{kubernetes.namespace}.svc.cluster.local:8000") as send:
        send()
