"""The JSON of clients' shared memory regions (rows 5.8, 5.13). Pure."""

import typing

from naiad.core.record import Record
from naiad.core.regions import MOST_BYTES, Region
from naiad.errors import internal, invalid
from naiad.protocol.http.codec.json_document import parse

Json = dict[str, typing.Any]


class Registration(Record, frozen=True, eq=True):
    """The object, and the part of it in bytes, that become a region."""

    key: str
    offset: int
    size: int


def registration(body: bytes) -> Registration:
    """Read the body of a registration.

    Raises:
        InferenceError: INVALID_ARG for a member that is missing, INTERNAL for one of a wrong type and for a body that is not JSON.
    """
    root = parse(body)
    if type(root) is not dict:
        root = {}
    key = _member(root, "key")
    if type(key) is not str:
        raise internal(
            "attempt to access JSON non-string as string: send 'key' as the name of the shared memory object"
        )
    return Registration(
        key,
        _bytes(root.get("offset", 0), "offset"),
        _bytes(_member(root, "byte_size"), "byte_size"),
    )


def _member(root: Json, name: str) -> typing.Any:
    if name not in root:
        raise invalid(
            f'Shared memory register request has no \'{name}\' field: send {{"key": …, "offset": …, "byte_size": …}}'
        )
    return root[name]


def _bytes(value: typing.Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_BYTES:
        raise internal(
            f"attempt to access JSON non-unsigned-integer as unsigned-integer: send '{name}' as a number of bytes"
        )
    return value


def system_status(regions: list[Region]) -> list[Json]:
    """The status of regions: their names, keys, offsets and sizes."""
    return [
        {"name": each.name, "key": each.key, "offset": each.offset, "byte_size": each.size}
        for each in regions
    ]
