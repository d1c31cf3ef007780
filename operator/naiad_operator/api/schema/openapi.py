"""Generates the OpenAPI schema of the CustomResourceDefinition from the typed model: structural, bounded, with defaults and rules."""

import collections.abc
import functools
import inspect
import re
import typing

import msgspec

from naiad_operator.api.rules import rule, table
from naiad_operator.api.types import structs

Schema = dict[str, typing.Any]

_ATTRIBUTE = re.compile(r"^    (\w+): (.*)$")


def schema_of(part: type[structs.Part]) -> Schema:
    """The schema of a part and everything below it."""
    return _of_struct(msgspec.inspect.type_info(part))


@functools.cache
def descriptions(part: type[structs.Part]) -> collections.abc.Mapping[str, str]:
    """The descriptions in the docstring of a part, by Python field name; "" is the description of the part itself."""
    text, _, attributes = (inspect.getdoc(part) or "").partition("\nAttributes:\n")
    by_field = {"": " ".join(text.split())}
    name = ""
    for line in attributes.splitlines():
        match = _ATTRIBUTE.match(line)
        if match:
            name = match.group(1)
            by_field[name] = match.group(2)
        elif name and line.strip():
            by_field[name] += " " + line.strip()
    return by_field


def _of_struct(info: msgspec.inspect.Type) -> Schema:
    assert isinstance(info, msgspec.inspect.StructType)
    assert issubclass(info.cls, structs.Part)
    texts = descriptions(info.cls)
    properties: Schema = {}
    for field in info.fields:
        schema = {"description": texts[field.name], **_of_type(field.type)}
        default = _default(field)
        if default is not None:
            schema["default"] = default
        properties[field.encode_name] = schema
    schema = {"type": "object", "properties": properties}
    required = [field.encode_name for field in info.fields if field.required]
    if required:
        schema["required"] = required
    if info.cls in table.RULES:
        schema["x-kubernetes-validations"] = [validation(one) for one in table.RULES[info.cls]]
    return schema


def validation(one: rule.Rule) -> Schema:
    """A rule in the form of the CRD."""
    written = {"rule": one.cel, "message": one.message}
    if one.field:
        written["fieldPath"] = f".{one.field}"
    return written


def _default(field: msgspec.inspect.Field) -> typing.Any:
    """The schema default of a field: a constant, or a part with its own defaults written out.

    For a stored resource {} would be equivalent, but not in the CRD: the API server validates the defaults of a CRD as they are
    written, and a rule over an absent field fails.
    """
    if field.default in (msgspec.NODEFAULT, None, ""):
        return None
    if isinstance(field.default, structs.Part):
        info = msgspec.inspect.type_info(type(field.default))
        assert isinstance(info, msgspec.inspect.StructType)
        inner = {field.encode_name: _default(field) for field in info.fields}
        return {name: value for name, value in inner.items() if value is not None}
    return field.default


def _of_type(info: msgspec.inspect.Type) -> Schema:  # noqa: PLR0911 - one return per kind of type
    match info:
        case msgspec.inspect.UnionType():
            return _of_union(info)
        case msgspec.inspect.StructType():
            return _of_struct(info)
        case msgspec.inspect.StrType():
            return {
                "type": "string",
                **_bounds(info, minLength="min_length", maxLength="max_length", pattern="pattern"),
            }
        case msgspec.inspect.BoolType():
            return {"type": "boolean"}
        case msgspec.inspect.IntType():
            return {"type": "integer", **_bounds(info, minimum="ge", maximum="le")}
        case msgspec.inspect.LiteralType():
            return {
                "type": "string",
                "enum": list(info.values),
                "maxLength": max(len(str(v)) for v in info.values),
            }
        case msgspec.inspect.VarTupleType():
            return {
                "type": "array",
                "items": _of_type(info.item_type),
                **_bounds(info, minItems="min_length", maxItems="max_length"),
            }
        case msgspec.inspect.DictType(value_type=msgspec.inspect.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case msgspec.inspect.DictType():
            return {
                "type": "object",
                "additionalProperties": _of_type(info.value_type),
                **_bounds(info, maxProperties="max_length"),
            }
        case _:
            raise TypeError(f"no schema for {info}")


def _of_union(info: msgspec.inspect.UnionType) -> Schema:
    members = [member for member in info.types if not isinstance(member, msgspec.inspect.NoneType)]
    if len(members) == 1:
        return _of_type(members[0])
    kinds = {type(member) for member in members}
    assert kinds == {msgspec.inspect.IntType, msgspec.inspect.StrType}, members
    text = next(member for member in members if isinstance(member, msgspec.inspect.StrType))
    bounds = _bounds(text, minLength="min_length", maxLength="max_length", pattern="pattern")
    return {"x-kubernetes-int-or-string": True, **bounds}


def _bounds(info: msgspec.inspect.Type, **attributes: str) -> Schema:
    """The bounds that the type has."""
    bounds = {keyword: getattr(info, attribute) for keyword, attribute in attributes.items()}
    return {keyword: value for keyword, value in bounds.items() if value is not None}
