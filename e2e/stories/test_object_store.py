"""Story e: models in an object store: a wrong secret, a wrong bucket, a new version uploaded while the service answers."""

import pytest
import tritonclient.http

from e2e import load, services
from e2e.bucket import EXAMPLES, Bucket
from e2e.kubernetes import Kubernetes, Object

HOST = "demo.example.com"
_URI = "s3://models/production"


def test_a_new_version_is_served_without_a_failed_request(kubernetes: Kubernetes) -> None:
    bucket = Bucket("polled")
    prefix = kubernetes.namespace
    bucket.upload(EXAMPLES / "word_count", f"{prefix}/word_count")
    model = services.service("demo", uri=bucket.uri(prefix))["spec"]["predictor"]["model"]
    polled = {"model": {**model, "load": {"mode": "poll", "pollSeconds": 1}}}
    kubernetes.apply(
        services.secret(),
        services.service("demo", predictor=polled, ingress=services.ingress(HOST)),
    )
    kubernetes.wait_ready("demo")
    load.wait_for_routes(kubernetes, lambda: load.http(f"{HOST}:80"))
    with load.running([lambda: load.http(f"{HOST}:80")] * 4, rate=100) as result:
        bucket.put(f"{prefix}/word_count/2/model.py", (EXAMPLES / "word_count/1/model.py").read_bytes())  # fmt: skip
        client = tritonclient.http.InferenceServerClient(f"{HOST}:80")
        kubernetes.wait(
            "version 2", lambda: bool(client.is_model_ready("word_count", "2")), timeout=30
        )
        client.close()
    assert not result.failures
    assert result.sent > 0
    # Version 1 was retired by the newer one, which does not count as a failure.
    kubernetes.wait_condition("demo", "ModelsLoaded", status="True", reason="Loaded")


def _service(uri: str) -> Object:
    """A service of one model of the bucket."""
    made = services.service("demo", uri=uri)
    made["spec"]["predictor"]["model"]["load"] = {"mode": "explicit", "models": ["word_count"]}
    return made


@pytest.mark.parametrize(
    ("keys", "uri", "words"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, _URI, "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_ACCESS_KEY_ID": "unknown"}, _URI, "AWS_ACCESS_KEY_ID"),
        ({}, "s3://no-such-bucket/production", "no-such-bucket"),
    ],
    ids=["a wrong secret", "an unknown key", "a wrong bucket"],
)
def test_what_is_wrong_is_said_and_one_edit_fixes_it(
    kubernetes: Kubernetes, keys: dict[str, str], uri: str, words: str
) -> None:
    kubernetes.apply(services.secret(**keys), _service(uri))
    kubernetes.wait(
        "the reason",
        lambda: words in str(kubernetes.condition("demo").get("message", "")),
        seen=lambda: kubernetes.condition("demo"),
    )
    assert kubernetes.condition("demo")["status"] == "False"
    kubernetes.apply(services.secret(), _service(_URI))
    kubernetes.wait_ready("demo")
