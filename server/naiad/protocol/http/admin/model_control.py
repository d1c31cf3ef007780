"""The bodies of load and unload requests (rows 7.15, 7.16, 7.18, 7.26). Pure; the body is optional."""

import base64
import binascii
import typing

from naiad.errors import internal, invalid
from naiad.protocol.codec.frames import large_values
from naiad.protocol.http.codec.json_document import parse

_FILE = "file:"


def load_overrides(body: bytes) -> dict[str, str | bytes]:
    """The parameters of a load: "config" as text, "file:<path>" as the bytes that its base64 means.

    Raises:
        InferenceError: INTERNAL for a body that is not JSON and for a parameter that a load does not take (row 7.18),
            INVALID_ARG for invalid base64.
    """
    overrides: dict[str, str | bytes] = {}
    for name, value in _parameters(body).items():
        if not isinstance(value, str):
            raise internal(
                f"attempt to access JSON non-string as string: load parameter '{name}' must be a string"
            )
        if name == "config":
            overrides[name] = value
        elif name.startswith(_FILE):
            overrides[name] = _decoded(name, value)
        else:
            raise internal(
                f"unexpected error on creating Triton parameter: '{name}' is not a load parameter; those are config and file:<path>"
            )
    return overrides


def large_load_overrides(body: bytes) -> dict[str, typing.Any]:
    """`load_overrides` in a codec process: large values arrive as views, text as its UTF-8."""
    return large_values(load_overrides(body))


def unload_dependents(body: bytes) -> bool:
    """The one parameter of an unload (row 7.26); others have no effect.

    Raises:
        InferenceError: INTERNAL for a body that is not JSON and for a value that is not a boolean.
    """
    value = _parameters(body).get("unload_dependents", False)
    if not isinstance(value, bool):
        raise internal(
            "Unable to parse 'unload_dependents': attempt to access JSON non-boolean as boolean: send true or false"
        )
    return value


def _parameters(body: bytes) -> dict[str, typing.Any]:
    members = parse(body) if body else {}
    parameters = members.get("parameters", {}) if isinstance(members, dict) else {}
    if not isinstance(parameters, dict):
        raise internal(
            "attempt to access JSON non-object as object: 'parameters' must be an object"
        )
    return parameters


def _decoded(name: str, value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise invalid(f"load parameter '{name}' is not base64: {error}") from None
