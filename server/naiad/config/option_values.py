"""The values that a `--backend-config` key accepts, for the keys of all backends and for those that a backend declares. Pure."""

import collections.abc
import math

import msgspec

_INT32_MAX = 2**31 - 1
_BOOLEANS = frozenset(("true", "on", "1", "false", "off", "0"))
_INTEGER = f"an integer up to {_INT32_MAX}"


class OptionValues(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a key accepts, as a check and, for messages, in words and as an example."""

    fits: collections.abc.Callable[[str], bool]
    expected: str
    example: str


def integer(*, example: str, or_empty: bool = False) -> OptionValues:
    """A 32-bit number, or also the empty value, which means the default."""

    def fits(value: str) -> bool:
        try:
            return (or_empty and not value) or abs(int(value)) <= _INT32_MAX
        except ValueError:
            return False

    return OptionValues(fits=fits, expected=_INTEGER, example=example)


def one_of(*words: str) -> OptionValues:
    """One of these words, or the empty value, which means the default."""
    return OptionValues(
        fits=lambda value: value in ("", *words), expected=" or ".join(words), example=words[-1]
    )


def days() -> OptionValues:
    """A number of days; 0 for no limit; the empty value means the default."""

    def fits(value: str) -> bool:
        try:
            return not value or 0 <= float(value) < math.inf
        except ValueError:
            return False

    return OptionValues(
        fits=fits, expected="a number of days, 0 to keep environments for ever", example="30"
    )


def boolean() -> OptionValues:
    """True or false, as Triton writes them, in any case."""
    return OptionValues(
        fits=lambda value: value.lower() in _BOOLEANS,
        expected="true, on, 1, false, off or 0",
        example="1",
    )
