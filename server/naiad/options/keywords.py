"""Keyword arguments -> Options: the options of the command line for programs that embed a server. Pure."""

import collections.abc
import pathlib

import msgspec

from naiad.options.options import Options
from naiad.options.parsing import parse
from naiad.options.usage import HelpAsked, UsageError

Value = bool | int | float | str | pathlib.Path
Values = Value | collections.abc.Sequence[Value]
"""The value of an option, or those of one that may be given several times."""

_PROGRAMS_OWN = "the program that runs the server configures Python's logging: set the level of the logger 'naiad' there"

LOGGING: dict[str, str] = dict.fromkeys(
    ("log_verbose", "log_info", "log_warning", "log_error", "log_format", "log_file"), _PROGRAMS_OWN
)
"""The options of the log, which belongs to the program, and why."""

_UNREAD = "."


def repositories(
    given: str | pathlib.Path | collections.abc.Sequence[str | pathlib.Path],
) -> list[str | pathlib.Path]:
    """One model repository or several, as a list."""
    return [given] if isinstance(given, str | pathlib.Path) else [*given]


def keyword_options(
    model_repository: collections.abc.Sequence[str | pathlib.Path],
    given: collections.abc.Mapping[str, Values],
    *,
    refused: collections.abc.Mapping[str, str],
    needs_repository: bool = True,
) -> Options:
    """The options of keyword arguments: those of `naiad serve` with underscores. Ports are closed by default.

    Args:
        model_repository: folders and addresses of object stores.
        given: by name; a sequence for one that may be given several times.
        refused: options that the program cannot give, and why.
        needs_repository: whether a server without a model repository is an error.

    Raises:
        ValueError: an option is unknown, has a wrong value, or is refused.
    """
    for name, why in refused.items():
        if name in given:
            raise ValueError(f"{name}: {why}")
    allow_http = given.get("allow_http", False)
    values: dict[str, Values] = {"allow_grpc": False, "allow_metrics": False, **given}
    values["allow_http"] = True  # the command line wants a port
    if allow_http is not True:
        values["http_port"] = 0
    unread = not model_repository and not needs_repository
    arguments = [
        f"--model-repository={path}" for path in ([_UNREAD] if unread else model_repository)
    ]
    for name, value in values.items():
        several = [value] if isinstance(value, Value) else value
        arguments += [f"--{name.replace('_', '-')}={_written(one)}" for one in several]
    try:
        options = parse(arguments)
    except HelpAsked:
        raise ValueError("help is not an option here: naiad serve --help lists them") from None
    except UsageError as error:
        raise ValueError(str(error)) from None
    return msgspec.structs.replace(
        options,
        allow_http=allow_http is True,
        model_repository=() if unread else options.model_repository,
    )


def _written(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
