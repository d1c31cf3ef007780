"""Generates the reference page of the resource from the typed model. `make generate` writes it to docs/."""

import collections.abc
import typing

from naiad_operator.api import names
from naiad_operator.api.rules import spec, table
from naiad_operator.api.rules.rule import Rule
from naiad_operator.api.schema import crd, openapi
from naiad_operator.api.types.profile import ProfileSpec
from naiad_operator.api.types.spec import Spec
from naiad_operator.api.types.status import Status

Schema = collections.abc.Mapping[str, typing.Any]

_HEAD = f"""# InferenceService

`{names.API_VERSION}`, kind `{names.KIND}`, short name `{names.SHORT_NAME}`. This page is generated from the types in
`operator/naiad_operator/api/types` by `make generate`.

`kubectl explain {names.SHORT_NAME}.spec.predictor` shows the same in a terminal.
"""


def page() -> str:
    """The page, in Markdown."""
    lines = [_HEAD, "## Spec", "", *_table(openapi.schema_of(Spec), "spec")]
    lines += [
        "",
        "## Rules",
        "",
        "The validation rules between fields. The API server rejects a manifest with these messages.",
        "",
    ]
    lines += [f"- {rule.message}." for rule in _rules()]
    lines += ["", "## Status", "", *_table(openapi.schema_of(Status), "status")]
    lines += ["", "## What `kubectl get infsvc` shows", ""]
    lines += ["| column | from | meaning |", "|---|---|---|"]
    lines += [
        f"| {column['name']}{' (wide)' if 'priority' in column else ''} | `{column['jsonPath']}` | {column['description']} |"
        for column in crd.COLUMNS
    ]
    return "\n".join(lines) + "\n"


def profile_fields() -> str:
    """The fields of a NaiadProfile as a Markdown table; those of parts that a service has, too, are on the page of the service."""
    fields = openapi.schema_of(ProfileSpec)["properties"].items()
    rows = (f"| `{name}` | {_type(field)} | {field['description']} |" for name, field in fields)
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows]) + "\n"


def _rules() -> list[Rule]:
    every = [*spec.ROOT, *(rule for rules in table.RULES.values() for rule in rules)]
    return list({rule.message: rule for rule in every}.values())


def _table(part: Schema, path: str) -> list[str]:
    return ["| field | type | default | meaning |", "|---|---|---|---|", *_rows(part, path)]


def _rows(part: Schema, path: str) -> collections.abc.Iterator[str]:
    required = part.get("required", ())
    for name, field in part["properties"].items():
        where = f"{path}.{name}"
        default = "required" if name in required else _default(field)
        meaning = field["description"].replace("|", "\\|")
        yield f"| `{where}` | {_type(field)} | {default} | {meaning} |"
        below = field.get("items", field)
        if "properties" in below:
            yield from _rows(below, f"{where}[]" if "items" in field else where)


def _default(field: Schema) -> str:
    default = field.get("default")
    return (
        ""
        if default is None
        or isinstance(default, dict)  # the defaults of its fields stand in their own rows
        else f"`{str(default).lower() if isinstance(default, bool) else default}`"
    )


def _type(field: Schema) -> str:  # noqa: PLR0911 - one return per kind of type
    if field.get("x-kubernetes-int-or-string"):
        return "number or text"
    if field.get("x-kubernetes-preserve-unknown-fields"):
        return "object of Kubernetes"
    if "enum" in field:
        return " \\| ".join(f"`{word}`" for word in field["enum"])
    if "additionalProperties" in field:
        return f"map of at most {field['maxProperties']}"
    if field["type"] == "array":
        return f"list of at most {field['maxItems']}"
    if field["type"] == "integer":
        return _range(field)
    if field["type"] == "string":
        return f"text of at most {field['maxLength']}"
    return str(field["type"])


def _range(field: Schema) -> str:
    least, most = field.get("minimum"), field.get("maximum")
    if least is not None and most is not None:
        return f"number {least}..{most}"
    return "number" if least is None else f"number from {least}"
