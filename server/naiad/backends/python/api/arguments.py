"""Checks the arguments with which a model makes a request of another model: what is wrong is said in Triton's words, or in ours where it has none."""

import operator
from typing import Any

from naiad.backends.python.api.errors import TritonModelException
from naiad.backends.python.api.response import require_text

REQUIRED: Any = object()
"""The default of an argument that has none."""


def number(what: str, value: Any, least: int, most: int) -> int:
    """An integer, also one of numpy's."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{what} of an InferenceRequest is an int, not {type(value).__name__}"
        ) from None
    if not least <= number <= most:
        raise ValueError(
            f"{what} of an InferenceRequest is an int from {least} to {most}, not {number}"
        )
    return number


def no_correlation_id(value: Any) -> Exception:
    """The error for a value that is neither an integer nor text."""
    text = f"Correlation ID must be integer or string, not {type(value).__name__}"
    return TypeError(text + ": leave it out") if value is None else TritonModelException(text)


def text(what: str, value: Any) -> str:
    """Text, also as bytes in UTF-8."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str):
        require_text(what, value)
        return str(value)
    raise TypeError(
        f"InferenceRequest needs {what}"
        if value is REQUIRED
        else f"InferenceRequest({what}=…) takes a str, not {type(value).__name__}"
    )


def instance(what: str, value: Any, kind: type) -> Any:
    """An object of a class of pb_utils."""
    if not isinstance(value, kind):
        raise TypeError(
            f"InferenceRequest({what}=…) takes a pb_utils.{kind.__name__}, not {type(value).__name__}; leave it out for none"
        )
    return value


def sequence(what: str, value: Any) -> "list[Any]":
    """A list of any iterable; text is not one."""
    if value is REQUIRED:
        raise TypeError(f"InferenceRequest needs {what}; it may be an empty list")
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError(f"InferenceRequest({what}=…) takes a list, not {type(value).__name__}")
    return list(value)
