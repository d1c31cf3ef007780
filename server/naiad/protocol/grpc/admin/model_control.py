"""The parameters of RepositoryModelLoad and RepositoryModelUnload (rows 7.15, 7.16, 7.18, 10.41). Pure."""

import typing

from naiad.errors import invalid

_FILE = "file:"


def load_overrides(parameters: typing.Any) -> dict[str, str | bytes]:
    """The parameters of a load, from a map of ModelRepositoryParameter: "config" as text, "file:<path>" as bytes.

    Raises:
        InferenceError: INVALID_ARG (row 7.18).
    """
    overrides: dict[str, str | bytes] = {}
    for name, value in parameters.items():
        if name == "config":
            overrides[name] = _value("load", name, value, "string_param")
        elif name.startswith(_FILE):
            overrides[name] = _value("load", name, value, "bytes_param")
        else:
            raise invalid(f"unrecognized load parameter '{name}': those are config and file:<path>")
    return overrides


def unload_dependents(parameters: typing.Any) -> bool:
    """The one parameter of an unload (row 7.26); others have no effect.

    Raises:
        InferenceError: INVALID_ARG.
    """
    if "unload_dependents" not in parameters:
        return False
    wanted: bool = _value(
        "unload", "unload_dependents", parameters["unload_dependents"], "bool_param"
    )
    return wanted


def _value(action: str, name: str, value: typing.Any, expected: str) -> typing.Any:
    choice = value.WhichOneof("parameter_choice")
    if choice != expected:
        raise invalid(
            f"invalid value type for {action} parameter '{name}', expected {expected}. Got {choice or 'no value'}"
        )
    return getattr(value, choice)
