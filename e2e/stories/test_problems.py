"""Story f: what goes wrong is in a condition, with the sentence that a person needs, and one edit fixes it."""

import typing

import pytest

from e2e import services
from e2e.bucket import EXAMPLES, Bucket
from e2e.kubernetes import Kubernetes

_GOOD_MODEL = EXAMPLES / "word_count"
_BAD_CONFIG = b'backend: "python"\nmax_batch_size: -1\n'
_VERSION_1 = b"version_policy { specific { versions: [1] } }\n"
_BAD_MODEL = b"raise RuntimeError('the weights are missing')\n"


class Problem(typing.NamedTuple):
    """A wrong field of `spec.predictor`, the condition that names it, and the field that is right."""

    wrong: dict[str, typing.Any]
    condition: str
    reason: str
    words: str
    right: dict[str, typing.Any]


_NORMAL = {"requests": {"cpu": "100m", "memory": "256Mi"}}
PROBLEMS = {
    "an image that does not exist": Problem(
        {"image": "cluster.local/no-such-image:1"},
        "Progressing",
        "ImagePullBackOff",
        "cluster.local/no-such-image:1",
        {"image": None},
    ),
    "more memory than a node has": Problem(
        {"resources": {"requests": {"memory": "64Ti"}}},
        "Progressing",
        "WaitingForNode",
        "Insufficient memory",
        {"resources": _NORMAL},
    ),
    "a Secret that does not exist": Problem(
        {"envFrom": [{"secretRef": {"name": "no-such-secret"}}]},
        "Progressing",
        "CreateContainerConfigError",
        "no-such-secret",
        {"envFrom": None},
    ),
    "an option that the server does not know": Problem(
        {"args": ["--no-such-option=1"]},
        "Progressing",
        "CrashLoopBackOff",
        "--no-such-option",
        {"args": None},
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_named_and_one_edit_fixes_it(kubernetes: Kubernetes, name: str) -> None:
    problem = PROBLEMS[name]
    kubernetes.apply(services.secret(), services.service("demo", predictor=problem.wrong))
    message = kubernetes.wait_condition(
        "demo",
        problem.condition,
        status="True" if problem.reason == "WaitingForNode" else "False",
        reason=problem.reason,
    )
    assert problem.words in message
    kubernetes.patch("infsvc", "demo", {"spec": {"predictor": problem.right}})
    kubernetes.wait_ready("demo", timeout=120)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("config.pbtxt", _BAD_CONFIG, "max_batch_size"),
        ("1/model.py", _BAD_MODEL, "the weights are missing"),
    ],
)
def test_a_bad_model_is_named_and_an_upload_fixes_it(
    kubernetes: Kubernetes, file: str, content: bytes, words: str
) -> None:
    bucket, prefix = Bucket("problems"), kubernetes.namespace
    bucket.upload(_GOOD_MODEL, f"{prefix}/good")
    bucket.upload(_GOOD_MODEL, f"{prefix}/bad")
    bucket.put(f"{prefix}/bad/{file}", content)
    model = services.service("demo", uri=bucket.uri(prefix))["spec"]["predictor"]["model"]
    polled = {"model": {**model, "load": {"mode": "poll", "pollSeconds": 1}}}
    kubernetes.apply(services.secret(), services.service("demo", predictor=polled))
    message = kubernetes.wait_condition(
        "demo", "ModelsLoaded", status="False", reason="ModelFailed"
    )
    assert "bad" in message
    assert words in message
    bucket.put(f"{prefix}/bad/{file}", (_GOOD_MODEL / file).read_bytes())
    kubernetes.wait_ready("demo", timeout=120)


def test_a_retired_version_is_named_and_one_edit_fixes_it(kubernetes: Kubernetes) -> None:
    """The config wants version 1, and the bucket has version 2 only."""
    bucket, prefix = Bucket("problems"), kubernetes.namespace
    bucket.upload(_GOOD_MODEL / "1", f"{prefix}/counter/2")
    bucket.put(f"{prefix}/counter/config.pbtxt", (_GOOD_MODEL / "config.pbtxt").read_bytes() + _VERSION_1)  # fmt: skip
    kubernetes.apply(services.secret(), services.service("demo", uri=bucket.uri(prefix)))
    message = kubernetes.wait_condition(
        "demo", "ModelsLoaded", status="False", reason="ModelFailed"
    )
    assert "at least one version must be available under the version policy" in message
    newest = {"model": "counter", "config": {"versionPolicy": {"latest": {"numVersions": 1}}}}
    change = {"spec": {"predictor": {"model": {"overrides": [newest]}}}}
    kubernetes.patch("infsvc", "demo", change)
    kubernetes.wait_ready("demo", timeout=120)


def test_a_quota_is_named_and_raising_it_fixes_it(kubernetes: Kubernetes) -> None:
    quota: dict[str, typing.Any] = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "1"}},
    }
    kubernetes.apply(quota, services.secret(), services.service("demo", replicas=2))
    message = kubernetes.wait_condition(
        "demo", "Progressing", status="False", reason="QuotaExceeded"
    )
    assert "few" in message
    kubernetes.patch("resourcequota", "few", {"spec": {"hard": {"pods": "5"}}})
    kubernetes.wait_ready("demo", timeout=120)
