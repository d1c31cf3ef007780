"""Reads the config of a load request: a ModelConfig as JSON, in place of the model's own file (row 7.15). Pure.

The names of fields may be written as in config.pbtxt or in camel case, the values of enums in any case, and 64-bit integers as numbers or
text, as Triton reads them; so the JSON of `GET …/config` can be sent back.
"""

import json
import pathlib
import types
import typing

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from naiad.config.document import Document
from naiad.core.messages import model_config_pb2
from naiad.errors import InferenceError, invalid

NAME = "config override"
"""What problems of the config are shown under, in place of a file."""

LARGEST = 1 << 20
"""Bytes, as for a config file."""


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


def _wrong(why: str) -> InferenceError:
    return invalid(
        f"Invalid config override: {why}; send a ModelConfig as JSON, as GET /v2/models/<name>/config shows it"
    )


def _with_plain_enums(
    descriptor: Descriptor, value: dict[str, typing.Any]
) -> dict[str, typing.Any]:
    """The value with the names of enum values in capitals, as they are defined."""
    fields = {**descriptor.fields_by_camelcase_name, **descriptor.fields_by_name}
    return {
        name: _plain(fields[name], member) if name in fields else member
        for name, member in value.items()
    }


def _plain(field: FieldDescriptor, value: typing.Any) -> typing.Any:
    if isinstance(value, list):
        return [_plain(field, item) for item in value]
    if isinstance(value, str) and field.enum_type is not None:
        return value.upper()
    if not isinstance(value, dict) or field.message_type is None:
        return value
    if not field.message_type.GetOptions().map_entry:
        return _with_plain_enums(field.message_type, value)
    of_value = field.message_type.fields_by_name["value"]
    return {key: _plain(of_value, member) for key, member in value.items()}
