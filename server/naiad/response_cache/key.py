"""The key of a request in the cache: a hash of its model and of its inputs (row 14.24).

As in the reference, by default neither shapes nor parameters nor requested outputs are part of it. A full key has them too. Pure; hashes of many
bytes release the interpreter lock.
"""

import hashlib
import typing

import numpy as np

from naiad.core.request import InferRequest
from naiad.core.tensor import PackedStrings, Tensor, packed_bytes
from naiad.scheduling.speed.deadline import DEADLINE_PARAMETER

ASIDE_BYTES = 1 << 16
"""Inputs of more bytes are hashed in a thread: a mebibyte takes a millisecond."""

_ASIDE_ELEMENTS = 1 << 10
_DIGEST_BYTES = 16

PLAIN_BYTES = 512
"""Inputs of up to so many bytes are a key themselves, which costs less than a hash."""

Digest = bytes


class KeyMaker:
    """Makes the keys of one model version.

    Args:
        prefix: what tells the version from all others whose entries are in the same store.
        full: whether shapes, datatypes, parameters and requested outputs are part of the key.
    """

    __slots__ = ("_base", "_full", "_prefix")

    def __init__(self, prefix: bytes, *, full: bool) -> None:
        self._prefix = prefix
        self._base = hashlib.blake2b(prefix, digest_size=_DIGEST_BYTES)
        self._full = full

    def plain(self, request: InferRequest) -> bytes | None:
        """The key of a request with one small input of numbers, without a hash, for a store in this process; None for any other request.

        It is longer than a hash: no key of one kind is one of the other.
        """
        inputs = request.inputs
        if len(inputs) != 1 or self._full:
            return None
        (tensor,) = inputs
        if type(tensor) is not Tensor:
            return None
        array = tensor.array
        if array.nbytes > PLAIN_BYTES or array.dtype.hasobject:
            return None
        return b"%b\0%b\0%b" % (
            self._prefix.ljust(_DIGEST_BYTES),
            tensor.name.encode(errors="surrogatepass"),
            array.tobytes(),
        )

    def __call__(self, request: InferRequest) -> Digest:
        """The key of a request."""
        digest = self._base.copy()
        update = digest.update
        inputs = request.inputs
        if len(inputs) > 1:
            inputs = sorted(inputs, key=_name)
        for tensor in inputs:
            update(tensor.name.encode(errors="surrogatepass"))
            if self._full:
                update(repr((tensor.datatype.name, tensor.shape)).encode())
            update(_raw(tensor))
        if self._full:
            update(repr(_rest(request)).encode(errors="surrogatepass"))
        return digest.digest()


def _name(tensor: Tensor) -> str:
    return tensor.name


def _rest(request: InferRequest) -> tuple[typing.Any, ...]:
    outputs = sorted((each.name, each.classes) for each in request.requested_outputs)
    # A deadline says when the response is needed, not which; the step of an ensemble has another one in each request.
    parameters = (each for each in request.parameters.items() if each[0] != DEADLINE_PARAMETER)
    return sorted(parameters), outputs


def _raw(tensor: Tensor) -> "bytes | memoryview":
    """The bytes of a tensor as they are on the wire."""
    if type(tensor) is PackedStrings:
        return _buffer(tensor.packed)
    array = tensor.array
    if array.dtype.hasobject:
        return packed_bytes(array.ravel())
    return _buffer(array)


def _buffer(array: "np.ndarray[typing.Any, typing.Any]") -> "bytes | memoryview":
    if not array.size:
        return b""
    if array.dtype.kind == "V" or not array.flags.c_contiguous:
        return array.tobytes()
    return array.data


def hashed_aside(request: InferRequest) -> bool:
    """Whether making the key takes too long for the event loop."""
    total = 0
    for tensor in request.inputs:
        if type(tensor) is PackedStrings:
            total += tensor.packed.nbytes
        elif tensor.array.dtype.hasobject:
            if tensor.array.size > _ASIDE_ELEMENTS:
                return True
            total += sum(map(len, tensor.array.flat))
        else:
            total += tensor.array.nbytes
    return total > ASIDE_BYTES
