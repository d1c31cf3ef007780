"""Keyword arguments -> Options: the options of the command line for programs that embed a server. Pure."""

import collections.abc
import pathlib
import typing

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
    """One model repository or several, as a list.

    Raises:
        ValueError: it is neither a path, nor a list of them.
    """
    if isinstance(given, str | pathlib.Path):
        return [given]
    several: list[typing.Any] = [*given] if _is_iterable(given) else [given]
    if not all(isinstance(each, str | pathlib.Path) for each in several):
        functions = "; functions of the program are given as functions=[…]"
        raise ValueError(
            f"model_repository={given!r}: expected a folder, an address of an object store, or a list of them{functions * any(map(callable, several))}"
        )
    return several


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
    closed: dict[str, Values] = dict.fromkeys(("allow_http", "allow_grpc", "allow_metrics"), False)
    values = {**closed, **given}
    unread = not model_repository and not needs_repository
    arguments = [
        f"--model-repository={path}" for path in ([_UNREAD] if unread else model_repository)
    ]
    for name, value in values.items():
        several = _listed(value)
        if None in several:
            raise ValueError(f"{name}={value}: leave the option out for its default")
        arguments += [f"--{name.replace('_', '-')}={_written(one)}" for one in several]
    try:
        options = parse(arguments, needs_port=False)
    except HelpAsked:
        raise ValueError("help is not an option here: naiad serve --help lists them") from None
    except UsageError as error:
        raise ValueError(str(error)) from None
    return msgspec.structs.replace(options, model_repository=()) if unread else options


def _listed(value: typing.Any) -> list[typing.Any]:
    is_list = isinstance(value, collections.abc.Sequence) and not isinstance(value, str | bytes)
    return [*value] if is_list else [value]


def _is_iterable(value: object) -> bool:
    return isinstance(value, collections.abc.Iterable)


def _written(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
