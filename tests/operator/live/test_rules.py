"""Every rule of the resource, accepted and refused by the API server itself, in the words of the rule."""

import copy
from typing import Any

import pytest

from tests.apiserver.client import Kubectl, RefusedError
from tests.apiserver.objects import make_namespace
from tests.operator.api.rules.rule_cases import BAD, GOOD, with_defaults, words
from tests.operator.api.rules.test_bounds import BEYOND
from tests.support import manifests

Manifest = dict[str, Any]
_EXAMPLES = {path.stem: path for path in manifests.INPUTS}


@pytest.fixture(scope="module")
def here(kubectl: Kubectl) -> str:
    return make_namespace(kubectl, "rules")


def tried(kubectl: Kubectl, manifest: Manifest, namespace: str) -> None:
    """`kubectl create --dry-run=server --validate=strict`."""
    sent = copy.deepcopy(manifest)
    metadata = sent["metadata"]
    for key in ("uid", "generation", "resourceVersion"):
        metadata.pop(key, None)
    if sent["kind"] == "InferenceService":
        metadata["namespace"] = namespace
    kubectl.create(sent, dry_run=True)


@pytest.mark.parametrize("case", BAD)
def test_what_breaks_a_rule_is_refused_in_the_rules_words(
    kubectl: Kubectl, here: str, case: str
) -> None:
    manifest, path = BAD[case]
    message = words(manifest, path)
    with pytest.raises(RefusedError) as refused:
        tried(kubectl, manifest, here)
    assert refused.value.code == 422
    assert message in refused.value.status["message"]
    assert "<nil>" not in refused.value.status["message"], "the field is named, too"


@pytest.mark.parametrize("case", GOOD)
def test_what_keeps_the_rules_is_accepted(kubectl: Kubectl, here: str, case: str) -> None:
    tried(kubectl, GOOD[case], here)


@pytest.mark.parametrize("case", _EXAMPLES)
def test_the_examples_are_accepted(kubectl: Kubectl, here: str, case: str) -> None:
    manifest, _ = manifests.example(_EXAMPLES[case])
    tried(kubectl, manifest, here)


def test_the_defaults_that_the_api_server_fills_in_are_the_ones_that_python_does(
    kubectl: Kubectl, here: str
) -> None:
    manifest = manifests.resource(autoscaling={"class": "hpa", "queueTimeMs": 5})
    filled = with_defaults(manifest)
    manifest["metadata"] = {"name": "defaults", "namespace": here}
    stored = kubectl.create(manifest)
    assert stored["spec"] == filled


@pytest.mark.parametrize("bound", BEYOND)
def test_the_api_server_takes_what_is_beyond_the_bounds_of_check_and_the_operator(
    kubectl: Kubectl, here: str, bound: str
) -> None:
    """Or there could be a rule: then the bound belongs into the CRD."""
    tried(kubectl, BEYOND[bound], here)
