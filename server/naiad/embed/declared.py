"""Whether what a program declares of a function can be served: what cannot is refused where it is written, not by the first request. Pure."""

import collections.abc
import functools
import inspect
import re
import types
import typing
from typing import Any

import numpy as np

Function = collections.abc.Callable[..., Any]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_MOST_ROWS = 2**31 - 1
_VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
_ARGUMENTS = {"name": "name", "backend": "", "max_batch_size": "max_batch_size", "input": "inputs", "output": "outputs"}  # fmt: skip
"""Fields of a config, by the argument that gives them; the backend is always Python's."""


class Declared(typing.Protocol):
    """An input of a function."""

    name: str | None
    optional: bool


def model_name(given: Any) -> str:
    """A name that a model can have, which is also that of a folder.

    Raises:
        ValueError: it is another value.
    """
    if isinstance(given, str) and _NAME.fullmatch(given):
        return given
    raise ValueError(
        f"model name {given!r}: use letters, digits and _ . -, 200 at most (naiad.model(name=…))"
    )


def whole(argument: str, given: Any, least: int) -> int:
    """An integer, numpy's too.

    Raises:
        TypeError: it is of another type.
        ValueError: it is too small or too large.
    """
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise TypeError(f"{argument}={given!r}: expected an integer")
    if not least <= given <= _MOST_ROWS:
        raise ValueError(f"{argument}={given}: expected at least {least}, at most {_MOST_ROWS}")
    return int(given)


def sizes(given: Any) -> tuple[Any, ...]:
    """The dimensions of a shape.

    Raises:
        TypeError: it is not a sequence of them.
    """
    if isinstance(given, str) or not isinstance(given, collections.abc.Iterable):
        raise TypeError(f"shape={given!r}: expected a tuple of integers, such as (-1,)")
    return (*given,)


def tensor_name(given: Any) -> str | None:
    """The name of a tensor; None for none.

    Raises:
        TypeError: it is not text.
    """
    if given is None or isinstance(given, str):
        return given
    raise TypeError(f"name={given!r}: expected text (str)")


def several(argument: str, given: Any) -> list[Any]:
    """The declarations of inputs or outputs.

    Raises:
        TypeError: it is not a list of them.
    """
    if isinstance(given, str | collections.abc.Mapping) or not isinstance(
        given, collections.abc.Iterable
    ):
        raise TypeError(f"{argument}={given!r}: expected a list of naiad.Tensor")
    return [*given]


def code_of(function: Function) -> Function:
    """What a call of a function runs: a callable object's method, or the function itself."""
    if inspect.isroutine(function) or isinstance(function, functools.partial):
        return function
    method: Function = getattr(function, "__call__")  # noqa: B004, B009 - a bound method
    return method


def parameters(code: Function) -> list[str]:
    """The names of the parameters to which inputs can go, in order."""
    try:
        found = inspect.signature(code).parameters.values()
    except ValueError:  # some builtins have none
        return []
    return [each.name for each in found if each.kind not in _VARIABLE and each.name != "self"]


def check_call(model: str, code: Function, inputs: collections.abc.Sequence[Declared]) -> None:
    """Check that the inputs are parameters, and that those which may be missing have defaults.

    Raises:
        TypeError: a call of the function would fail.
    """
    if not _is_plain(code):
        return  # a decorator may take other arguments than its signature says
    signature = inspect.signature(code)
    needed = {str(each.name): each for each in inputs if not each.optional}
    for names, why in (
        ({str(each.name): each for each in inputs}, "name the inputs as its parameters"),
        (needed, "give parameters of optional inputs a default"),
    ):
        try:
            signature.bind(**names)
        except TypeError as error:
            raise TypeError(
                f"model '{model}': its function{signature} cannot be called with {', '.join(f'{name}=…' for name in names) or 'no inputs'} ({error}): {why}"
            ) from None


def check_takes_requests(model: str, code: Function) -> None:
    """Check that a function has one parameter for the requests.

    Raises:
        TypeError: a call of the function would fail.
    """
    if not _is_plain(code):
        return
    signature = inspect.signature(code)
    try:
        signature.bind([])
    except TypeError as error:
        raise TypeError(
            f"model '{model}': its function{signature} cannot be called with the list of requests alone ({error}): takes='requests' gives it nothing else"
        ) from None


def _is_plain(code: Function) -> bool:
    function = code.__func__ if type(code) is types.MethodType else code
    return type(function) is types.FunctionType and not hasattr(function, "__wrapped__")


def check_config(model: str, given: collections.abc.Mapping[str, Any], made: Any, own: Any) -> None:
    """Check that a given config leaves what other arguments say as it is.

    Args:
        model: its name.
        given: the argument.
        made: the ModelConfig with it.
        own: the ModelConfig without it.

    Raises:
        ValueError: it does not.
    """
    for field, argument in _ARGUMENTS.items():
        if getattr(made, field) != getattr(own, field):
            how = f"write {argument}=…" if argument else "a function has Python's"
            raise ValueError(f"model '{model}': config={given!r} has {field}: {how}")
    decoupled = made.model_transaction_policy.decoupled
    if decoupled != own.model_transaction_policy.decoupled:
        why = "a generator makes" if decoupled else "a generator always makes"
        raise ValueError(f"model '{model}': config={given!r}: {why} a decoupled model")
    host = made.parameters["naiad.host"].string_value if "naiad.host" in made.parameters else ""
    if host not in ("", "thread"):
        raise ValueError(
            f"model '{model}': config={given!r}: a function runs in threads of its program; a model.py runs in a {host}"
        )
