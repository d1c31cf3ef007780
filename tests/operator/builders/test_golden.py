"""Whole manifests of example resources, each there for one reason; strictly valid for the newest Kubernetes minors."""

import functools
import pathlib

import kubernetes_validate
import pytest
from kubernetes_validate import utils

from naiad_operator.api.manifests import yaml_text
from tests.support import fast_yaml, manifests

MINORS = sorted(
    {v.rpartition(".")[0] for v in utils.all_versions()}, key=lambda v: int(v.split(".")[1])
)[-3:]
CUSTOM = ("keda.sh/", "gateway.networking.k8s.io/", "monitoring.coreos.com/")
"""Kinds whose schemas come with their own CRDs; the tests against the API server have them installed."""


@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
def test_an_example_makes_the_manifests_that_are_written_down(path: pathlib.Path) -> None:
    """`make generate` writes them again; the change is then there to be read."""
    written = fast_yaml.read(manifests.expected(path).read_text())
    assert manifests.built(path) == written


def test_what_tests_read_fast_is_what_the_operator_reads() -> None:
    odd = "a: 2020-01-01\nb: y\nc: 1e3\nd: 2.0\n5: 010\ne: ~\nf: '1'\n---\n---\nx: &x [1]\ny: *x\n"
    example = manifests.expected(manifests.INPUTS[0]).read_text()
    for text in (odd, example):
        assert repr(fast_yaml.read(text)) == repr(yaml_text.read(text))


@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
def test_an_example_says_why_it_is_there(path: pathlib.Path) -> None:
    reason = manifests.reason(path)
    assert reason.startswith("# ")
    assert reason.endswith(".")


def test_there_are_enough_examples_and_no_leftover_expectations() -> None:
    assert len(manifests.INPUTS) >= 25
    names = {path.name for path in manifests.INPUTS}
    assert {path.name for path in (manifests.DATA / "expected").iterdir()} == names
    assert len({manifests.reason(path) for path in manifests.INPUTS}) == len(names)


@pytest.fixture(autouse=True)
def schemas_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The validator reads its schema files again for every manifest."""
    monkeypatch.setattr(utils, "schema_contents", SCHEMAS)


SCHEMAS = functools.cache(utils.schema_contents)


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
def test_every_manifest_is_strictly_valid(path: pathlib.Path, minor: str) -> None:
    for manifest in manifests.built(path):
        if not manifest["apiVersion"].startswith(CUSTOM):
            kubernetes_validate.validate(manifest, minor, strict=True)


@pytest.mark.parametrize("path", manifests.INPUTS, ids=lambda path: path.stem)
def test_every_child_is_ours_and_named_within_bounds(path: pathlib.Path) -> None:
    for manifest in manifests.built(path):
        metadata = manifest["metadata"]
        assert metadata["ownerReferences"][0]["uid"] == "6f1d2c9e-0000-4000-8000-000000000001"
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "naiad-operator"
        assert metadata["namespace"] == "models"
        assert len(metadata["name"]) <= 63


def test_the_same_input_gives_the_same_manifests() -> None:
    """And building changes nothing of its input: a second build of one parsed resource is equal."""
    for path in manifests.INPUTS:
        assert manifests.built(path) == manifests.built(path)
