"""Whether the arguments of a program's request are of types and values that a request can have; what is not is refused in words, in this one place. Pure."""

import collections.abc
import math
import operator
import threading
import typing
from typing import Any

import numpy as np

from naiad.core.request import LATEST, ParameterValue
from naiad.errors import InferenceError, invalid

_NATURAL = 0, (1 << 64) - 1
_VERSION = LATEST, (1 << 63) - 1
_PARAMETER = -(1 << 63), (1 << 64) - 1
_SHOWN = 80


def check(model: Any, inputs: Any, timeout: Any) -> float | None:
    """Check what every request has.

    Returns:
        The seconds to wait; None for any time.

    Raises:
        InferenceError: INVALID_ARG: the model or an input has no name that is text, or the timeout is not a number of seconds that can be waited.
    """
    if type(model) is not str or not model.isascii():
        _text("model", model)
    if not isinstance(inputs, collections.abc.Mapping):
        raise _wrong("inputs", inputs, "arrays or lists by name, {'INPUT0': array}")
    for name in inputs:
        if type(name) is not str or not name.isascii():
            _text("a name in inputs", name)
    if timeout is None:
        return None
    number = _number(timeout)
    if number is None or not 0 <= number <= threading.TIMEOUT_MAX:
        raise _wrong(
            "timeout", timeout, "seconds, a number from 0 on, or None to wait for any time"
        )
    return number


def checked(options: collections.abc.Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request, of which `RequestOptions` says what they mean; numbers of numpy become Python's.

    Raises:
        InferenceError: INVALID_ARG: one is of another type, or out of its range.
        TypeError: an option does not exist.
    """
    made: dict[str, Any] = {}
    for name, value in options.items():
        check_one = _CHECKS.get(name)
        if check_one is None:
            raise TypeError(
                f"a request has no option '{name}': there are {', '.join(sorted(_CHECKS))}"
            )
        made[name] = check_one(name, value)
    return made


def _number(value: Any) -> float | None:
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | float | np.integer | np.floating
    ):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if math.isnan(number) else number


def _whole(bounds: tuple[int, int], expected: str, name: str, value: Any) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        number = operator.index(value)
        if bounds[0] <= number <= bounds[1]:
            return number
    raise _wrong(name, value, expected)


def _natural(name: str, value: Any) -> int:
    return _whole(_NATURAL, "an integer from 0 to 2**64 - 1", name, value)


def _version(name: str, value: Any) -> int:
    return _whole(
        _VERSION, f"an integer: the version's number, or {LATEST} for the newest", name, value
    )


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, value, "text (str)")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _wrong(name, value, "text without half of a surrogate pair") from None
    return value


def _sequence(name: str, value: Any) -> int | str:
    if isinstance(value, str):
        return _text(name, value)
    return _whole(_NATURAL, "an integer from 0 to 2**64 - 1, or text (str)", name, value)


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise _wrong(name, value, "True or False")


def _outputs(name: str, value: Any) -> list[str]:
    if isinstance(value, str):
        raise invalid(f"{name}='{value}' is one name: give a list of names, ['{value}']")
    if isinstance(value, bytes | collections.abc.Mapping) or not isinstance(
        value, collections.abc.Iterable
    ):
        raise _wrong(name, value, "a list of names of outputs")
    return [_text(f"a name in {name}", each) for each in value]


def _parameters(name: str, value: Any) -> dict[str, ParameterValue]:
    if not isinstance(value, collections.abc.Mapping):
        raise _wrong(name, value, "values by name, {'name': value}")
    return {_text(f"a name in {name}", key): _parameter(key, each) for key, each in value.items()}


def _parameter(key: str, value: Any) -> ParameterValue:
    name = f"parameters['{key}']"
    if isinstance(value, str):
        return _text(name, value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return float(value)
    return _whole(_PARAMETER, "a bool, an integer of 64 bits, a float or text (str)", name, value)


def _wrong(name: str, value: Any, expected: str) -> InferenceError:
    try:
        shown = ascii(value)
    except Exception:  # noqa: BLE001 - the program's own class, or an integer of too many digits
        shown = f"<{type(value).__name__}>"
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}..."
    return invalid(f"{name}={shown}: expected {expected}")


_CHECKS: typing.Final[dict[str, collections.abc.Callable[[str, Any], Any]]] = {
    "version": _version,
    "outputs": _outputs,
    "parameters": _parameters,
    "request_id": _text,
    "priority": _natural,
    "queue_timeout_us": _natural,
    "sequence_id": _sequence,
    "sequence_start": _flag,
    "sequence_end": _flag,
}
