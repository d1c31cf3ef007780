"""Decodes an object whose text is within the bounds."""

import math
import typing

import msgspec

from naiad_operator.api.manifests.unreadable import FRACTIONS

Object = dict[str, typing.Any]


class _Fractions:
    """Reads numbers with a fraction or an exponent, of which the decoder takes ten microseconds for some.

    Attributes:
        left: how many more an object may hold; negative after too many.
    """

    def __init__(self) -> None:
        self.left = 0

    def read(self, text: str) -> float:
        """A number.

        Raises:
            ValueError: it is out of range, or there were too many before it.
        """
        self.left -= 1
        if self.left < 0:
            raise ValueError("Too many numbers")
        value = float(text)
        if not math.isfinite(value):
            raise ValueError("Number out of range")
        return value


_fractions = _Fractions()
_decode_object = msgspec.json.Decoder(Object, float_hook=_fractions.read).decode


def decode(text: bytes) -> Object:
    """An object.

    Raises:
        RecursionError: it is too deep for the decoder.
        ValueError: it is not valid JSON, or has more numbers with a fraction or an exponent than an object may.
    """
    _fractions.left = FRACTIONS.most
    return _decode_object(text)


def has_too_many_fractions() -> bool:
    """Whether that was why the last object could not be decoded."""
    return _fractions.left < 0


def reset() -> None:
    """Forgets the last object."""
    _fractions.left = 0
