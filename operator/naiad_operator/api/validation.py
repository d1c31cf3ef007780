"""Validates a manifest without an API server: the schema, the defaults and the rules of the CRD. It reports all errors."""

import collections.abc
import difflib
import functools
import typing

import msgspec

from naiad_operator.api import names, rules, schema, structs
from naiad_operator.api.cel import matches
from naiad_operator.api.rule import Rule
from naiad_operator.api.spec import Spec
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


def check(manifest: Manifest) -> list[Problem]:
    """All errors, in the order of the fields in the file; [] for a valid manifest."""
    return examine(manifest)[1]


def examine(manifest: Manifest) -> tuple[typing.Any, list[Problem]]:
    """The spec as the API server would store it, and all errors; the spec is None when the manifest has none."""
    problems = list(_envelope(manifest))
    if problems:
        return None, problems
    filled, problems = with_defaults(manifest["spec"])
    if not problems:
        problems = [
            Problem(".".join(filter(None, (path, rule.field))), rule.message)
            for rule, value, path in applied(manifest, filled)
            if not rule.holds(value)
        ]
    return filled, problems


def with_defaults(spec: typing.Any) -> tuple[typing.Any, list[Problem]]:
    """The spec as the API server would store it, and its schema errors."""
    problems: list[Problem] = []
    return _fill(_schema(), spec, "spec", problems), problems


def problems_of(wanted: schema.Schema, value: typing.Any, path: str) -> list[Problem]:
    """The schema errors of a value."""
    problems: list[Problem] = []
    _fill(wanted, value, path, problems)
    return problems


@functools.cache
def _schema() -> schema.Schema:
    return schema.of(Spec)


def _envelope(manifest: Manifest) -> Problems:
    for field, wanted in (("apiVersion", names.API_VERSION), ("kind", names.KIND)):
        given = manifest.get(field)
        if given != wanted:
            message = "is missing" if given is None else f"is {brief(given)}"
            yield Problem(field, f"{message}: write {field}: {wanted}")
    yield from _metadata(manifest.get("metadata"))
    if not isinstance(manifest.get("status"), dict | None):
        message = f"is {brief(manifest['status'])}: leave it out, the operator writes it"
        yield Problem("status", message)
    if "spec" not in manifest:
        yield Problem(
            "spec", "is missing: write spec.predictor.model.storageUri, the rest has defaults"
        )
    for field in manifest:
        if field not in _TOP:
            place = _places().get(field)
            hint = f": did you mean {place}?" if place else ""
            yield Problem(field, f"there is no such field beside spec{hint}")


def _metadata(metadata: typing.Any) -> Problems:
    if not isinstance(metadata or {}, dict):
        yield Problem("metadata", f"is {brief(metadata)}: write a mapping with a name")
    elif not metadata or metadata.get("name") in (None, ""):
        yield Problem("metadata.name", "is missing: give the service a name")
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


def _fill(
    wanted: schema.Schema, value: typing.Any, path: str, problems: list[Problem]
) -> typing.Any:
    """A copy of the value with its defaults; errors are added to `problems`."""
    message = _type_problem(wanted, value) or _bounds_problem(wanted, value)
    if message:
        problems.append(Problem(path, message))
        return value
    if "properties" in wanted:
        return _fill_object(wanted, value, path, problems)
    if "additionalProperties" in wanted:
        inner = wanted["additionalProperties"]
        return {key: _fill(inner, item, f"{path}[{key}]", problems) for key, item in value.items()}
    if wanted.get("type") == "array":
        return [
            _fill(wanted["items"], item, f"{path}[{i}]", problems) for i, item in enumerate(value)
        ]
    return value


def _fill_object(
    wanted: schema.Schema, value: dict[str, typing.Any], path: str, problems: list[Problem]
) -> dict[str, typing.Any]:
    filled = {}
    problems.extend(
        Problem(f"{path}.{field}", _unknown(field, wanted["properties"]))
        for field in value
        if field not in wanted["properties"]
    )
    for field, inner in wanted["properties"].items():
        if value.get(field) is not None:  # like the API server, which ignores a null
            filled[field] = _fill(inner, value[field], f"{path}.{field}", problems)
        elif "default" in inner:
            filled[field] = _fill(inner, inner["default"], f"{path}.{field}", problems)
        elif field in wanted.get("required", ()):
            problems.append(Problem(f"{path}.{field}", f"is missing: {inner['description']}"))
    return filled


def _unknown(field: str, known: collections.abc.Iterable[str]) -> str:
    near = difflib.get_close_matches(field, list(known), n=1)
    elsewhere = _places().get(field)
    if elsewhere is not None:
        return f"there is no such field here: did you mean {elsewhere}?"
    if near:
        return f"there is no such field: did you mean {near[0]}?"
    return f"there is no such field; there are {', '.join(known)}"


@functools.cache
def _places() -> dict[str, str]:
    """The path of each field of the spec by name; for several fields of one name, the topmost."""
    places: dict[str, str] = {}
    level = [("spec", _schema())]
    while level:
        below = []
        for path, part in level:
            for name, field in part.get("properties", {}).items():
                places.setdefault(name, f"{path}.{name}")
                below.append((f"{path}.{name}", field.get("items", field)))
        level = below
    return places


def _type_problem(wanted: schema.Schema, value: typing.Any) -> str:
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


def _bounds_problem(wanted: schema.Schema, value: typing.Any) -> str:  # noqa: PLR0911 - one return per bound
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
            return f"is {brief(value)}: write something that matches {wanted['pattern']}"
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
    manifest: collections.abc.Mapping[str, typing.Any], filled: dict[str, typing.Any]
) -> collections.abc.Iterator[tuple[Rule, typing.Any, str]]:
    """Every rule with each object to which it applies, and the object's path.

    Args:
        manifest: the resource.
        filled: its spec with defaults.
    """
    for rule in rules.ROOT:
        yield rule, manifest, ""
    yield from _below(Spec, filled, "spec")


def _below(
    part: type[structs.Part], value: dict[str, typing.Any], path: str
) -> collections.abc.Iterator[tuple[Rule, typing.Any, str]]:
    for rule in rules.RULES.get(part, ()):
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
        case msgspec.inspect.VarTupleType():
            for index, item in enumerate(value):
                yield from _below_type(info.item_type, item, f"{path}[{index}]")
        case _:
            pass
