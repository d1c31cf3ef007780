"""What makes a list of header fields malformed (RFC 9113, sections 8.1 to 8.3). Pure."""

import collections.abc
import re

Fields = collections.abc.Sequence[tuple[bytes, bytes]]
"""Names and values in the order of the wire."""

_REQUEST_PSEUDO = frozenset((b":method", b":scheme", b":path", b":authority"))
_NEEDED = (b":method", b":scheme", b":path")
"""Section 8.3.1; CONNECT, which needs others, is not served."""

_OF_CONNECTIONS = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
"""Section 8.2.2."""

_BAD_NAME = re.compile(rb"[\x00-\x20A-Z\x7f-\xff]|.:").search
"""Section 8.2.1: no capitals, no white space, no colon but in front."""

_BAD_VALUE = re.compile(rb"[\x00\n\r]").search
"""Section 8.2.1, but for white space around a value: clients of gRPC send it in metadata, and grpc takes it."""


def request_fault(fields: Fields) -> str:
    """What is wrong with the fields of a request; "" for nothing."""
    pseudo: dict[bytes, bytes] = {}
    regular = False
    for name, value in fields:
        if name.startswith(b":"):
            if regular:
                return f"{_text(name)} after a regular field (section 8.3)"
            if name not in _REQUEST_PSEUDO:
                return f"{_text(name)} is not a field of a request (section 8.3.1)"
            if name in pseudo:
                return f"{_text(name)} twice (section 8.3.1)"
            pseudo[name] = value
        else:
            regular = True
        if fault := _field_fault(name, value):
            return fault
    for name in _NEEDED:
        if not pseudo.get(name):
            return f"no {_text(name)} (section 8.3.1)"
    return ""


def trailers_fault(fields: Fields) -> str:
    """What is wrong with the fields of trailers; "" for nothing."""
    for name, value in fields:
        if name.startswith(b":"):
            return f"{_text(name)} in trailers (section 8.1)"
        if fault := _field_fault(name, value):
            return fault
    return ""


def content_length(fields: Fields) -> int:
    """The bytes that a request declares; -1 if it does not, -2 if what it declares is not a number (section 8.1.1)."""
    declared = {value for name, value in fields if name == b"content-length"}
    if not declared:
        return -1
    value = declared.pop()
    return int(value) if value.isdigit() and len(value) < 20 and not declared else -2  # noqa: PLR2004 - digits of 2**64


def _field_fault(name: bytes, value: bytes) -> str:
    if not name or _BAD_NAME(name):
        return f"the name {_text(name)} (section 8.2.1)"
    if _BAD_VALUE(value):
        return f"the value of {_text(name)} (section 8.2.1)"
    if name in _OF_CONNECTIONS:
        return f"{_text(name)} (section 8.2.2)"
    if name == b"te" and value != b"trailers":
        return "te with another value than trailers (section 8.2.2)"
    return ""


def _text(name: bytes) -> str:
    return name[:64].decode("latin-1")
