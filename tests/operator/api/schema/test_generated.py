"""Files that are made from the typed model say what it says; and the schema keeps to what an API server demands of it."""

import collections.abc
import pathlib
import typing

import pytest

from naiad_operator.api.parsing import validation
from naiad_operator.api.schema import crd, resources
from tests.support import generated, manifests

Schema = dict[str, typing.Any]
FILES = generated.files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(generated.ROOT)))
def test_a_generated_file_is_up_to_date(path: pathlib.Path) -> None:
    assert path.read_text() == FILES[path](), "run `make generate`"


def schemas(schema: Schema, path: str) -> collections.abc.Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from schemas(below, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from schemas(schema[keyword], f"{path}[]")


def root(resource: resources.CustomResource) -> Schema:
    schema: Schema = crd.definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


ROOT = root(resources.SERVICE)
SPEC = list(schemas(ROOT["properties"]["spec"], "spec"))
PROFILE = list(schemas(root(resources.PROFILE)["properties"]["spec"], "profile"))
STATUS = list(schemas(ROOT["properties"]["status"], "status"))


def test_every_text_list_and_map_is_bounded() -> None:
    """The API server refuses rules whose cost it cannot bound."""
    for path, schema in [*SPEC, *STATUS, *PROFILE]:
        if schema.get("type") == "string" or schema.get("x-kubernetes-int-or-string"):
            assert "maxLength" in schema, path
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
        if "additionalProperties" in schema:
            assert "maxProperties" in schema, path


def test_every_field_is_described() -> None:
    """Those of a canary that say no more than the predictor's are left out: the definition has to fit into an annotation."""
    told = {path for path, schema in SPEC if "description" in schema}
    for path, schema in [*SPEC, *STATUS, *PROFILE]:
        if not path.endswith("[]") and path.replace("spec.canary", "spec.predictor", 1) not in told:
            assert schema["description"].endswith("."), path


def test_unknown_fields_are_kept_only_in_objects_of_kubernetes_own() -> None:
    free = {path for path, schema in SPEC if schema.get("x-kubernetes-preserve-unknown-fields")}
    assert free == {
        "spec.predictor.affinity",
        "spec.predictor.autoscaling.behavior",
        "spec.predictor.autoscaling.metrics[]",
        "spec.predictor.autoscaling.triggers[]",
        "spec.predictor.env[].valueFrom",
        "spec.predictor.envFrom[]",
        "spec.predictor.model.overrides[].config",
        "spec.predictor.podTemplate",
        "spec.predictor.topologySpreadConstraints[]",
        "spec.networkPolicy.ingressFrom[]",
        "spec.canary.autoscaling.behavior",
        "spec.canary.autoscaling.metrics[]",
        "spec.canary.autoscaling.triggers[]",
        "spec.canary.env[].valueFrom",
        "spec.canary.model.overrides[].config",
        *(
            f"spec.{component}.{field}"
            for component in ("transformer", "explainer")
            for field in ("affinity", "env[].valueFrom", "envFrom[]", "podTemplate")
        ),
    }


def test_rules_name_fields_that_exist() -> None:
    for path, schema in [*SPEC, *PROFILE]:
        for rule in schema.get("x-kubernetes-validations", ()):
            field = rule.get("fieldPath", "").removeprefix(".")
            assert not field or field in schema["properties"], (path, rule)


def test_the_definition_fits_into_an_annotation() -> None:
    """`kubectl apply` without --server-side keeps the whole object in an annotation of at most 256 KiB."""
    for path in (generated.ROOT / "crds").iterdir():
        assert len(path.read_text()) < 200_000


def test_a_profile_has_no_field_that_a_stored_service_always_has() -> None:
    """A default value that the API server filled in would take precedence over the profile, as if a user had written it."""
    stored = validation.with_defaults(manifests.resource()["spec"])[0]
    always = {*stored, *stored["predictor"], *stored["predictor"]["model"]}
    fields = root(resources.PROFILE)["properties"]["spec"]["properties"]
    assert not always & fields.keys()
