"""The value of an option as its flag's type: an integer, a number, a word of a list, a boolean as row 17.1 writes it. Pure."""

import math

from naiad.options.options import Flag, Kind
from naiad.options.usage import UsageError

TRUE = frozenset(("true", "on", "1"))
FALSE = frozenset(("false", "off", "0"))


def typed(flag: Flag, value: str) -> bool | int | float | str:
    """The value of an option without a syntax of its own.

    Raises:
        UsageError: it is not of the flag's type, not among its choices, or out of its range.
    """
    result: bool | int | float | str
    try:
        match flag.kind:
            case Kind.BOOLEAN:
                return boolean(flag, value)
            case Kind.INTEGER:
                result = int(value)
            case Kind.FLOAT:
                result = float(value)
                if not math.isfinite(result):
                    raise UsageError(f"--{flag.name}={value}: must be a finite number")
            case Kind.STRING:
                if flag.choices and value not in flag.choices:
                    raise UsageError(
                        f"--{flag.name}={value}: expected one of {', '.join(flag.choices)}"
                    )
                return value
    except ValueError:
        raise UsageError(
            f"--{flag.name}={value}: expected {'an' if flag.kind is Kind.INTEGER else 'a'} {flag.kind.value}"
        ) from None
    _check_range(flag, value, result)
    return result


def boolean(flag: Flag, value: str) -> bool:
    """A boolean as row 17.1 writes it, in any case.

    Raises:
        UsageError: it is not a boolean.
    """
    word = value.lower()
    if word in TRUE:
        return True
    if word in FALSE:
        return False
    raise UsageError(f"--{flag.name}={value}: expected true, on, 1, false, off or 0")


def _check_range(flag: Flag, value: str, number: float) -> None:
    wrong = ""
    if flag.minimum == 1 and flag.kind is Kind.INTEGER and number < 1:
        wrong = "must be greater than 0"
    elif flag.minimum is not None and number < flag.minimum:
        wrong = f"must be at least {flag.minimum:g}"
    elif flag.maximum is not None and number > flag.maximum:
        wrong = f"must be at most {flag.maximum}"
    if wrong:
        raise UsageError(f"--{flag.name}={value}: {wrong}{': ' if flag.why else ''}{flag.why}")


def refuse_missing(flag: Flag, value: str) -> None:
    """Refuse an option of Triton's that is not supported yet, unless its value asks for nothing.

    Raises:
        UsageError: it asks for something.
    """
    if value.lower() not in flag.harmless:
        raise UsageError(
            f"--{flag.name}={value}: {flag.missing}: not supported yet; leave the option out"
        )
