"""Reads configs as JSON: that of a load request, in place of the model's own file (row 7.15), and fields that replace some of the file's. Pure.

The names of fields may be written as in config.pbtxt or in camel case, the values of enums in any case, and 64-bit integers as numbers or
text, as Triton reads them; so the JSON of `GET …/config` can be sent back.
"""

import difflib
import json
import pathlib
import types
import typing

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from naiad.config.document import Document, FieldPath
from naiad.core.messages import model_config_pb2
from naiad.errors import InferenceError, invalid

NAME = "config override"
"""What problems of the config are shown under, in place of a file."""

LARGEST = 1 << 20
"""Bytes, as for a config file."""

_SHOWN = 200
"""Characters of a value in an error message."""


def read(config: str | bytes | memoryview, folder: pathlib.Path) -> Document:
    """Read a config.

    Args:
        config: a JSON object, as text or as its UTF-8.
        folder: the model's.

    Raises:
        InferenceError: INVALID_ARG: it is not JSON, too large, or does not fit a ModelConfig.
    """
    size = config.nbytes if isinstance(config, memoryview) else len(config)
    if size > LARGEST:
        raise _wrong(f"it has {size:,} bytes, and {LARGEST:,} are allowed")
    message = model_config_pb2.ModelConfig()
    try:
        text = config if isinstance(config, str) else str(config, "utf-8")
        value = json.loads(text)
        if not isinstance(value, dict):
            raise _wrong(f"expected a JSON object, not {text.strip()[:20]}")
        json_format.ParseDict(_with_plain_enums(message.DESCRIPTOR, value), message)
    except (ValueError, TypeError, RecursionError, json_format.ParseError) as error:
        raise _wrong(str(error).partition("\n")[0]) from None
    return Document(
        path=folder / NAME,
        text="",
        message=message,
        positions=types.MappingProxyType({}),
        problems=(),
        is_file=False,
    )


def with_fields(document: Document, config: str) -> Document:
    """A model's config with fields in place of its own.

    A field replaces the one of the file as a whole; null takes it out. Of a map (`parameters`) only the entries that are given are replaced.

    Args:
        document: the model's own config; its folder's name is the model's.
        config: a JSON object of fields, the value of `--model-config-override`.

    Raises:
        InferenceError: INVALID_ARG: it does not fit a ModelConfig.
    """
    option = f"--model-config-override={document.path.parent.name}"
    value = json.loads(config)
    message = type(document.message)()
    fields = {**message.DESCRIPTOR.fields_by_camelcase_name, **message.DESCRIPTOR.fields_by_name}
    for name in value:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"did you mean {near[0]}?" if near else "write the fields of config.pbtxt"
            raise invalid(f"{option}: a model's config has no field '{name}': {hint}")
    try:
        json_format.ParseDict(_with_plain_enums(message.DESCRIPTOR, value), message)
    except (ValueError, TypeError, RecursionError, json_format.ParseError) as error:
        why = str(error).partition("\n")[0]
        raise invalid(f"{option}: {why}: write the fields of config.pbtxt as JSON") from None
    merged = type(message)()
    merged.CopyFrom(document.message)
    overridden = set[FieldPath]()
    for name in value:
        field = fields[name]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            overridden |= {(field.name, key) for key in value[name] or ()}
        else:
            merged.ClearField(field.name)
            overridden.add((field.name,))
    merged.MergeFrom(message)
    return msgspec.structs.replace(
        document, message=merged, overridden=frozenset(overridden), override=option
    )


def _wrong(why: str) -> InferenceError:
    return invalid(
        f"Invalid config override: {why}; send a ModelConfig as JSON, as GET /v2/models/<name>/config shows it"
    )


def _with_plain_enums(
    descriptor: Descriptor, value: dict[str, typing.Any], path: str = ""
) -> dict[str, typing.Any]:
    """The value with the names of enum values in capitals, as they are defined.

    Raises:
        ValueError: text or a number stands where an object is expected, or a map is written as in config.pbtxt; protobuf would misread either.
    """
    fields = {**descriptor.fields_by_camelcase_name, **descriptor.fields_by_name}
    return {
        name: _plain(fields[name], member, f"{path}{name}") if name in fields else member
        for name, member in value.items()
    }


def _plain(field: FieldDescriptor, value: typing.Any, path: str) -> typing.Any:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map:
        _check_map(field, value, path)
    if isinstance(value, list):
        return [_plain(field, item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, str) and field.enum_type is not None:
        return value.upper()
    if field.message_type is None or value is None:
        return value
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected an object, not {_short(value)}")  # noqa: TRY004 - caught with those of protobuf
    if not is_map:
        return _with_plain_enums(field.message_type, value, f"{path}.")
    of_value = field.message_type.fields_by_name["value"]
    return {key: _plain(of_value, member, f"{path}[{key!r}]") for key, member in value.items()}


def _check_map(field: FieldDescriptor, value: typing.Any, path: str) -> None:
    """Check that a map is not written as a list of keys and values, or as one of these."""
    entries = value if isinstance(value, list) else [value]
    if not all(isinstance(entry, dict) and "key" in entry for entry in entries):
        return
    if not isinstance(value, list):
        # A map of text may have an entry with the name "key".
        assert field.message_type is not None, "a map is a repeated message"
        of_value = field.message_type.fields_by_name["value"]
        if of_value.message_type is None or isinstance(value["key"], dict):
            return
    if entries:
        meant = {str(entry["key"]): entry.get("value") for entry in entries}
        raise ValueError(
            f"{path} is a map, which JSON writes otherwise than config.pbtxt: write {_short({field.name: meant})[1:-1]}"
        )


def _short(value: typing.Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
