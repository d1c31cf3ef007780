"""The JSON of clients' shared memory regions (rows 5.8, 5.13). Pure."""

import base64
import binascii
import typing

from naiad.core.cuda_regions import CudaRegion
from naiad.core.record import Record
from naiad.core.regions import MOST_BYTES, Region
from naiad.errors import internal, invalid
from naiad.protocol.http.codec.json_document import parse

Json = dict[str, typing.Any]

_SYSTEM = '{"key": …, "offset": …, "byte_size": …}'
_MOST = 2**64 - 1
"""An unsigned number of Triton's: a region that large is refused by the size of its object (row 5.10)."""
_CUDA = '{"raw_handle": {"b64": …}, "device_id": …, "byte_size": …}'


class Registration(Record, frozen=True, eq=True):
    """The object, and the part of it in bytes, that become a region."""

    key: str
    offset: int
    size: int


class CudaRegistration(Record, frozen=True, eq=True):
    """The handle of an allocation, the GPU, and the bytes that become a region."""

    handle: bytes
    device: int
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
        _bytes(root.get("offset", 0), "offset", most=_MOST),
        _bytes(_member(root, "byte_size"), "byte_size", most=_MOST),
    )


def cuda_registration(body: bytes) -> CudaRegistration:
    """Read the body of a registration of memory on a GPU.

    Raises:
        InferenceError: as `registration`.
    """
    root = parse(body)
    if type(root) is not dict:
        root = {}
    given = _member(root, "raw_handle", _CUDA)
    text = given.get("b64") if type(given) is dict else None
    if type(text) is not str:
        raise invalid(f"Shared memory register request has no 'raw_handle' field: send {_CUDA}")
    try:
        handle = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        handle = b""  # which no handle is
    return CudaRegistration(
        handle,
        _bytes(_member(root, "device_id", _CUDA), "device_id"),
        _bytes(_member(root, "byte_size", _CUDA), "byte_size"),
    )


def _member(root: Json, name: str, wanted: str = _SYSTEM) -> typing.Any:
    if name not in root:
        raise invalid(f"Shared memory register request has no '{name}' field: send {wanted}")
    return root[name]


def _bytes(value: typing.Any, name: str, *, most: int = MOST_BYTES) -> int:
    what = "the number of a GPU" if name == "device_id" else "a number of bytes"
    if type(value) is not int or not 0 <= value <= most:
        raise internal(
            f"attempt to access JSON non-unsigned-integer as unsigned-integer: send '{name}' as {what}"
        )
    return value


def system_status(regions: list[Region]) -> list[Json]:
    """The status of regions: their names, keys, offsets and sizes."""
    return [
        {"name": each.name, "key": each.key, "offset": each.offset, "byte_size": each.size}
        for each in regions
    ]


def cuda_status(regions: list[CudaRegion]) -> list[Json]:
    """The status of regions on GPUs: their names, GPUs and sizes."""
    return [
        {"name": each.name, "device_id": each.device, "byte_size": each.size} for each in regions
    ]
