"""The header `Accept`: what a client takes, and how gladly (RFC 9110 12.5.1). Pure."""

import collections.abc
import re
import typing

_LONGEST = 8_192
_WEIGHT = re.compile(rb"(0(\.[0-9]{0,3})?|1(\.0{0,3})?)").fullmatch


class Offer(typing.NamedTuple):
    """A media type that a client names.

    Attributes:
        media: in lower case, without parameters; b"*/*" for any.
        version: its parameter `version`; b"" without one.
        weight: from 0, which refuses it, to 1; a weight that cannot be read is 0.
    """

    media: bytes
    version: bytes
    weight: float


def offers(accept: bytes) -> collections.abc.Iterator[Offer]:
    """The media types of a header, in its order; what cannot be read is one that no format has. Of a very long header the rest is passed over."""
    for part in accept[:_LONGEST].lower().split(b","):
        media, *details = part.split(b";")
        version, weight = b"", 1.0
        for detail in details:
            name, _, value = detail.partition(b"=")
            name, value = name.strip(), _unquoted(value.strip())
            if name == b"q":
                weight = float(value) if _WEIGHT(value) else 0.0
            elif name == b"version":
                version = value
        yield Offer(media.strip(), version, weight)


def _unquoted(value: bytes) -> bytes:
    """What stands in quotes; a value with one of them alone is another value."""
    return value[1:-1] if len(value) > 1 and value[:1] == value[-1:] == b'"' else value
