"""Validates a manifest without an API server: the schema, the defaults and the rules of its CRD. It reports all errors."""

import collections.abc
import difflib
import functools
import re
import typing

import msgspec

from naiad_operator.api import names
from naiad_operator.api.manifests.unreadable import problem_of
from naiad_operator.api.parsing import forms
from naiad_operator.api.rules import table
from naiad_operator.api.rules.cel import matches
from naiad_operator.api.rules.rule import Rule
from naiad_operator.api.schema import openapi
from naiad_operator.api.schema.resources import SERVICE, CustomResource
from naiad_operator.api.types import structs
from naiad_operator.errors import Problem

Manifest = collections.abc.Mapping[str, typing.Any]
Problems = collections.abc.Iterator[Problem]

_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "integer": "an integer",
    "boolean": "true or false",
}


def check(manifest: Manifest, resource: CustomResource = SERVICE) -> list[Problem]:
    """All errors, in the order of the fields in the file; [] for a valid manifest."""
    return examine(manifest, resource)[1]


def examine(
    manifest: Manifest, resource: CustomResource = SERVICE
) -> tuple[typing.Any, list[Problem]]:
    """The spec as the API server would store it, and all errors; the spec is None when the manifest has none of this API.

    A rule over a field that is itself wrong, or that may be meant by a misspelled one, is left out: its error would be a consequence.
    """
    if unreadable := problem_of(manifest):
        return None, [Problem("", f"the operator cannot read this object: {unreadable}")]
    problems = list(_envelope(manifest, resource))
    doubtful = {problem.path for problem in problems}
    if "spec" not in manifest or not _is_ours(manifest):
        return None, problems
    filler = _Filler(_places(resource))
    filled = filler.fill(_schema(resource), manifest["spec"], "spec")
    problems += filler.problems
    doubtful |= filler.doubtful
    problems += [
        Problem(".".join(filter(None, (path, rule.field))), rule.message)
        for rule, value, path in applied(manifest, filled, resource)
        if not (doubtful and _is_doubtful(rule, path, doubtful)) and not rule.holds(value)
    ]
    return filled, problems


def _is_ours(manifest: Manifest) -> bool:
    """Whether the spec may be one of this API: an object of another group has another one."""
    version = manifest.get("apiVersion")
    return not isinstance(version, str) or version.startswith(f"{names.GROUP}/")


def _is_doubtful(rule: Rule, path: str, doubtful: collections.abc.Set[str]) -> bool:
    """Whether a rule over the object at a path reads a field that is wrong, is in a wrong object, or has a wrong field in it."""
    read = [f"{path}{name}".removeprefix(".") for name in _fields_read(rule.cel)] or [path]
    return any(
        _is_within(field, wrong) or _is_within(wrong, field) for field in read for wrong in doubtful
    )


@functools.cache
def _fields_read(cel: str) -> tuple[str, ...]:
    """The fields of `self` that a rule reads, each as ".autoscaling.class"; the names of methods do not count."""
    return tuple(dict.fromkeys(_FIELD_READ.findall(cel)))


_FIELD_READ = re.compile(r"\bself((?:\.\w+\b(?!\())+)")


def _is_within(path: str, parent: str) -> bool:
    return path == parent or path.startswith((f"{parent}.", f"{parent}["))


def with_defaults(
    spec: typing.Any, resource: CustomResource = SERVICE
) -> tuple[typing.Any, list[Problem]]:
    """The spec as the API server would store it, and its schema errors."""
    filler = _Filler(_places(resource))
    return filler.fill(_schema(resource), spec, "spec"), filler.problems


def problems_of(wanted: openapi.Schema, value: typing.Any, path: str) -> list[Problem]:
    """The schema errors of a value."""
    filler = _Filler({})
    filler.fill(wanted, value, path)
    return filler.problems


@functools.cache
def _schema(resource: CustomResource) -> openapi.Schema:
    return openapi.schema_of(resource.spec)


def _envelope(manifest: Manifest, resource: CustomResource) -> Problems:
    for field, wanted in (("apiVersion", names.API_VERSION), ("kind", resource.kind)):
        given = manifest.get(field)
        if given != wanted:
            message = "is missing" if given is None else f"is {brief(given)}"
            yield Problem(field, f"{message}: write {field}: {wanted}")
    yield from _metadata(manifest.get("metadata"))
    if not isinstance(manifest.get("status"), dict | None):
        message = f"is {brief(manifest['status'])}: leave it out, the operator writes it"
        yield Problem("status", message)
    if "spec" not in manifest:
        hint = "spec.predictor.model.storageUri, the rest has defaults"
        yield Problem("spec", f"is missing: write {hint if resource is SERVICE else 'spec: {}'}")
    for field in manifest:
        if field not in _TOP:
            place = _places(resource).get(field)
            hint = f": did you mean {place}?" if place else ""
            yield Problem(field, f"there is no such field beside spec{hint}")


def _metadata(metadata: typing.Any) -> Problems:
    if not isinstance(metadata or {}, dict):
        yield Problem("metadata", f"is {brief(metadata)}: write a mapping with a name")
    elif not metadata or metadata.get("name") in (None, ""):
        yield Problem("metadata.name", "is missing: write a name")
    else:
        for field in ("name", "namespace"):
            if not isinstance(metadata.get(field), str | None):
                yield Problem(
                    f"metadata.{field}", f"is {brief(metadata[field])}: write a text, in quotes"
                )
        for field in ("labels", "annotations"):
            yield from _texts(metadata.get(field), f"metadata.{field}")


_TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_LONG = 120
_LONGEST_KEY = 317
"""Of `bounds.Key`: a schema limits only values."""


def brief(value: typing.Any) -> str:
    """A value as error messages show it; long values are truncated."""
    if value is None:
        return "empty"
    text = repr(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 20]}… ({len(text)} characters)"


def _texts(given: typing.Any, path: str) -> Problems:
    """Checks that labels and annotations are strings, which YAML easily reads as other types."""
    if given is None:
        return
    if not isinstance(given, dict):
        yield Problem(path, f"is {brief(given)}: write a mapping")
        return
    for name, value in given.items():
        if not isinstance(value, str):
            yield Problem(f"{path}[{name}]", f"is {brief(value)}: write a text, in quotes")


class _Filler:
    """Fills in defaults and collects the schema errors.

    Args:
        places: the path of each field of the resource by name, for hints.

    Attributes:
        problems: the errors.
        doubtful: the paths of the errors, and of the fields that may be meant by those that do not exist.
    """

    def __init__(self, places: collections.abc.Mapping[str, str]) -> None:
        self._places = places
        self.problems: list[Problem] = []
        self.doubtful: set[str] = set()

    def fill(self, wanted: openapi.Schema, value: typing.Any, path: str) -> typing.Any:
        """A copy of the value with its defaults."""
        message = _type_problem(wanted, value) or _bounds_problem(wanted, value)
        if message:
            self._report(path, message)
            return value
        if "properties" in wanted:
            return self._fill_object(wanted, value, path)
        if "additionalProperties" in wanted:
            inner = wanted["additionalProperties"]
            for key in value:
                if not 0 < len(key) <= _LONGEST_KEY:
                    message = f"the key has {len(key)} characters: write 1 to {_LONGEST_KEY}"
                    self._report(f"{path}[{key}]", message)
            return {key: self.fill(inner, item, f"{path}[{key}]") for key, item in value.items()}
        if wanted.get("type") == "array":
            return [
                self.fill(wanted["items"], item, f"{path}[{i}]") for i, item in enumerate(value)
            ]
        return value

    def _fill_object(
        self, wanted: openapi.Schema, value: dict[str, typing.Any], path: str
    ) -> dict[str, typing.Any]:
        filled = {}
        for field in value:
            if field not in wanted["properties"]:
                self._report(f"{path}.{field}", self._unknown(field, wanted["properties"], path))
        for field, inner in wanted["properties"].items():
            if value.get(field) is not None:  # like the API server, which ignores a null
                filled[field] = self.fill(inner, value[field], f"{path}.{field}")
            elif "default" in inner:
                filled[field] = self.fill(inner, inner["default"], f"{path}.{field}")
            elif field in wanted.get("required", ()):
                self._report(f"{path}.{field}", f"is missing: {inner['description']}")
        return filled

    def _report(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))
        self.doubtful.add(path)

    def _unknown(self, field: str, known: collections.abc.Iterable[str], path: str) -> str:
        known = list(known)
        near = [name for name in known if name.lower() == field.lower()]
        near = near or difflib.get_close_matches(field, known, n=1)
        elsewhere = self._places.get(field)
        self.doubtful.update(f"{path}.{one}" for one in near)
        if elsewhere is not None:
            self.doubtful.add(elsewhere)
            return f"there is no such field here: did you mean {elsewhere}?"
        if near:
            return f"there is no such field: did you mean {near[0]}?"
        return f"there is no such field; there are {', '.join(known)}"


@functools.cache
def _places(resource: CustomResource) -> dict[str, str]:
    """The path of each field of the spec by name; for several fields of one name, the topmost."""
    places: dict[str, str] = {}
    level = [("spec", _schema(resource))]
    while level:
        below = []
        for path, part in level:
            for name, field in part.get("properties", {}).items():
                places.setdefault(name, f"{path}.{name}")
                below.append((f"{path}.{name}", field.get("items", field)))
        level = below
    return places


def _type_problem(wanted: openapi.Schema, value: typing.Any) -> str:
    if wanted.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
        return "" if fits else f"is {brief(value)}: write an integer, or a string in quotes"
    kind = wanted["type"]
    fits = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list | tuple),
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
    }[kind]
    if fits:
        return ""
    return f"is {brief(value)}: write {_WORDS[kind]}" + (", in quotes" if kind == "string" else "")


def _bounds_problem(wanted: openapi.Schema, value: typing.Any) -> str:  # noqa: PLR0911 - one return per bound
    if "enum" in wanted and value not in wanted["enum"]:
        near = difflib.get_close_matches(str(value), wanted["enum"], n=1, cutoff=0.4)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"is {brief(value)}: write one of {', '.join(wanted['enum'])}{hint}"
    if isinstance(value, int) and not isinstance(value, bool):
        if value < wanted.get("minimum", value):
            return f"is {value}: write at least {wanted['minimum']}"
        if value > wanted.get("maximum", value):
            return f"is {value}: write at most {wanted['maximum']}"
        return ""
    if isinstance(value, str):
        if not wanted.get("minLength", 0) <= len(value) <= wanted.get("maxLength", len(value)):
            return f"has {len(value)} characters: write {wanted.get('minLength', 0)} to {wanted['maxLength']}"
        if "pattern" in wanted and not matches(value, wanted["pattern"]):
            form = forms.FORMS.get(wanted["pattern"], f"something that matches {wanted['pattern']}")
            return f"is {brief(value)}: write {form}"
        return ""
    if isinstance(value, list | tuple):
        few, many = wanted.get("minItems", 0), wanted.get("maxItems", len(value))
        return (
            "" if few <= len(value) <= many else f"has {len(value)} entries: write {few} to {many}"
        )
    if isinstance(value, dict) and len(value) > wanted.get("maxProperties", len(value)):
        return f"has {len(value)} entries: write at most {wanted['maxProperties']}"
    return ""


def applied(
    manifest: collections.abc.Mapping[str, typing.Any],
    filled: dict[str, typing.Any],
    resource: CustomResource = SERVICE,
) -> collections.abc.Iterator[tuple[Rule, typing.Any, str]]:
    """Every rule with each object to which it applies, and the object's path.

    Args:
        manifest: the object.
        filled: its spec with defaults.
        resource: the custom resource that it is of.
    """
    for rule in resource.rules:
        yield rule, manifest, ""
    yield from _below(resource.spec, filled, "spec")


def _below(
    part: type[structs.Part], value: typing.Any, path: str
) -> collections.abc.Iterator[tuple[Rule, typing.Any, str]]:
    if not isinstance(value, dict):
        return  # an error of the schema
    for rule in table.RULES.get(part, ()):
        yield rule, value, path
    for name, info in _fields(part):
        if name in value:
            yield from _below_type(info, value[name], f"{path}.{name}")


@functools.cache
def _fields(part: type[structs.Part]) -> tuple[tuple[str, msgspec.inspect.Type], ...]:
    """The fields of a part that hold parts, by their names in a manifest."""
    info = msgspec.inspect.type_info(part)
    assert isinstance(info, msgspec.inspect.StructType)
    return tuple((f.encode_name, f.type) for f in info.fields if _has_parts(f.type))


def _has_parts(info: msgspec.inspect.Type) -> bool:
    match info:
        case msgspec.inspect.StructType():
            return True
        case msgspec.inspect.UnionType():
            return any(_has_parts(member) for member in info.types)
        case msgspec.inspect.VarTupleType():
            return _has_parts(info.item_type)
        case _:
            return False


def _below_type(
    info: msgspec.inspect.Type, value: typing.Any, path: str
) -> collections.abc.Iterator[tuple[Rule, typing.Any, str]]:
    match info:
        case msgspec.inspect.StructType():
            assert issubclass(info.cls, structs.Part)
            yield from _below(info.cls, value, path)
        case msgspec.inspect.UnionType():
            for member in info.types:
                yield from _below_type(member, value, path)
        case msgspec.inspect.VarTupleType() if isinstance(value, list | tuple):
            for index, item in enumerate(value):
                yield from _below_type(info.item_type, item, f"{path}[{index}]")
        case _:
            pass
