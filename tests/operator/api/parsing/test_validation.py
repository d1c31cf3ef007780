"""The validation of a manifest: all errors at once, each with its field and what to write instead."""

import typing

import pytest

from naiad_operator.api.parsing import service, validation
from naiad_operator.errors import InvalidSpec
from tests.support import manifests

Manifest = dict[str, typing.Any]


def errors_of(manifest: Manifest) -> list[str]:
    return [str(problem) for problem in validation.check(manifest)]


@pytest.mark.parametrize(
    ("predictor", "sentence"),
    [
        ({"acelerator": {}}, "spec.predictor.acelerator: there is no such field: did you mean accelerator?"),
        (
            {"minReplicas": 1},
            "spec.predictor.minReplicas: there is no such field here: did you mean spec.predictor.autoscaling.minReplicas?",
        ),
        ({"hpa": {}}, "spec.predictor.hpa: there is no such field; there are model, image,"),
        ({"replicas": "2"}, "spec.predictor.replicas: is '2': write an integer"),
        ({"replicas": True}, "spec.predictor.replicas: is True: write an integer"),
        ({"replicas": -1}, "spec.predictor.replicas: is -1: write at least 0"),
        ({"replicas": 1001}, "spec.predictor.replicas: is 1001: write at most 1000"),
        ({"nodeSelector": {"": "a"}}, "spec.predictor.nodeSelector[]: the key has 0 characters: write 1 to 317"),
        ({"resources": {"limits": {"a" * 318: 1}}}, f"spec.predictor.resources.limits[{'a' * 318}]: the key has 318 characters: write 1 to 317"),
        ({"image": 1}, "spec.predictor.image: is 1: write a text, in quotes"),
        ({"args": "--a"}, "spec.predictor.args: is '--a': write a list"),
        ({"ports": []}, "spec.predictor.ports: is []: write a mapping"),
        (
            {"placement": "OnePerNode"},
            "spec.predictor.placement: is 'OnePerNode': write one of onePerNode, spread (did you mean onePerNode?)",
        ),
        (
            {"resources": {"limits": {"cpu": 0.5}}},
            "spec.predictor.resources.limits[cpu]: is 0.5: write an integer, or a string in quotes",
        ),
        ({"args": ["x"] * 65}, "spec.predictor.args: has 65 entries: write 0 to 64"),
        ({"env": [{}]}, "spec.predictor.env[0].name: is missing: its name."),
        ({"args": ["x" * 1025]}, "spec.predictor.args[0]: has 1025 characters: write 0 to 1024"),
        (
            {"nodeSelector": {f"k{i}": "" for i in range(33)}},
            "spec.predictor.nodeSelector: has 33 entries: write at most 32",
        ),
        ({"model": {"storageUri": "s3://a/b", "cache": {"size": "big"}}}, "spec.predictor.model.cache.size: is 'big': write a quantity"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_what_to_write(predictor: Manifest, sentence: str) -> None:
    assert [
        text for text in errors_of(manifests.resource(**predictor)) if text.startswith(sentence)
    ]


def test_all_errors_are_reported_at_once() -> None:
    manifest = manifests.resource(replicas="2", shraedMemory="1Gi", placement="x")
    assert len(errors_of(manifest)) == 3


def test_a_wrong_quantity_is_answered_with_an_example() -> None:
    manifest = manifests.resource(resources={"requests": {"memory": "8GB"}}, sharedMemory="1 Gi")
    assert [text.partition(": ")[2] for text in errors_of(manifest)] == [
        "is '8GB': write a quantity, e.g. 500m, 2 or 8Gi",
        "is '1 Gi': write a quantity, e.g. 500m, 2 or 8Gi",
    ]


def test_types_and_rules_are_reported_together() -> None:
    manifest = manifests.resource(replicas="2", autoscaling={"class": "hpa"}, image="a b")
    manifest["metadata"]["name"] = "A"
    manifest["kynd"] = 1
    assert [text.partition(":")[0] for text in errors_of(manifest)] == [
        "kynd",
        "spec.predictor.image",
        "spec.predictor.replicas",
        "metadata.name",
        "spec.predictor.autoscaling.class",
    ]


@pytest.mark.parametrize(
    ("predictor", "message"),
    [
        ({"replicas": "2", "autoscaling": {"class": "external"}}, "spec.predictor.replicas: is '2': write an integer"),
        ({"replics": 2, "autoscaling": {"class": "external"}}, "spec.predictor.replics: there is no such field: did you mean replicas?"),
        ({"maxReplicas": 2, "autoscaling": {"class": "hpa", "minReplicas": 9, "queueTimeMs": 1}},
         "spec.predictor.maxReplicas: there is no such field here: did you mean spec.predictor.autoscaling.maxReplicas?"),
        ({"model": {"storageURI": "s3://a/b"}}, "spec.predictor.model.storageURI: there is no such field: did you mean storageUri?"),
        ({"model": {"storageUri": 7}}, "spec.predictor.model.storageUri: is 7: write a text, in quotes"),
        ({"model": {"repositories": [{"storageUri": 7}]}}, "spec.predictor.model.repositories[0].storageUri: is 7: write a text, in quotes"),
        ({"model": {"repositories": "s3://a/b"}}, "spec.predictor.model.repositories: is 's3://a/b': write a list"),
        ({"accelerator": "mig"}, "spec.predictor.accelerator: is 'mig': write a mapping"),
    ],
)  # fmt: skip
def test_a_rule_over_a_wrong_field_is_left_out(predictor: Manifest, message: str) -> None:
    """It would only repeat the error in stranger words, or ask for what a typing error hides."""
    assert errors_of(manifests.resource(**predictor)) == [message]


def test_the_spec_of_another_api_is_not_checked() -> None:
    manifest = {**manifests.resource(replics=1), "apiVersion": "example.com/v1"}
    [message] = errors_of(manifest)
    assert message.startswith("apiVersion: is 'example.com/v1'")


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ({"apiVersion": "serving.kserve.io/v1beta1"}, "apiVersion: is 'serving.kserve.io/v1beta1': write apiVersion"),
        ({"kind": "Inferenceservice"}, "kind: is 'Inferenceservice': write kind: InferenceService"),
        ({"metadata": {}}, "metadata.name: is missing"),
        ({"spce": {}}, "spce: there is no such field beside spec"),
    ],
)  # fmt: skip
def test_the_envelope_is_checked_too(manifest: Manifest, sentence: str) -> None:
    assert errors_of({**manifests.resource(), **manifest})[0].startswith(sentence)


def test_an_empty_spec_reports_the_missing_fields() -> None:
    manifest = {**manifests.resource(), "spec": {}}
    assert errors_of(manifest) == [
        "spec.predictor: is missing: the servers; predictor.model.storageUri names their models, the rest has defaults."
    ]


def test_defaults_are_those_that_the_api_server_fills_in() -> None:
    filled, problems = validation.with_defaults(manifests.resource()["spec"])
    assert problems == []
    assert filled["predictor"]["accelerator"] == {"type": "gpu", "count": 1, "strategy": "mixed"}
    assert filled["predictor"]["probes"]["liveness"]["failureThreshold"] == 3
    assert "replicas" not in filled["predictor"], "an autoscaler must be able to own it"
    assert "autoscaling" not in filled["predictor"]


def test_a_parsed_resource_has_its_identity_and_its_spec() -> None:
    parsed = service.parse(manifests.resource(replicas=2))
    assert (parsed.name, parsed.namespace, parsed.uid, parsed.generation) == (
        "demo",
        "models",
        "uid-1",
        3,
    )
    assert parsed.spec.predictor.replicas == 2
    assert parsed.spec.predictor.ports.grpc == 8001


def test_a_stored_resource_that_breaks_a_rule_is_refused_with_every_problem() -> None:
    manifest = manifests.resource(accelerator={"type": "mig", "celSelectors": ["true"]})
    with pytest.raises(InvalidSpec) as caught:
        service.parse(manifest)
    assert [p.path for p in caught.value.problems] == [
        "spec.predictor.accelerator.profile",
        "spec.predictor.accelerator.strategy",
    ]
