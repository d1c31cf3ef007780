"""Bodies that go through a codec process: decoded, framed and written there as in the server's own process, packed strings included.

An input is two bytes for the length of the JSON, then the body. Both ends of the codec run in this process, and "large" is made to begin
at a few elements, so that short inputs take the ways of large ones. The reference is the ordinary decoder and encoder.
"""

import collections.abc
import contextlib
import typing

from naiad.core.request import LATEST
from naiad.core.response import NO_PARAMETERS, InferResponse
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from naiad.hosts import packing
from naiad.hosts.link import codec
from naiad.protocol import raw_tensors
from naiad.protocol.codec import frames
from naiad.protocol.http.codec import infer_json, large_bodies, reply_json
from naiad.protocol.http.codec.infer_json import Target
from tests.fuzz import http_infer
from tests.fuzz.http_infer import summary, whole

WORDS = (*http_infer.WORDS, "\\x01\\x00\\x00\\x00a", "\\x00\\x00\\x00\\x00", "\\xff\\xff\\xff\\xff")

_TARGET = Target("m", LATEST, 20_000)

_STRINGS = (
    b'{"inputs":[{"name":"A","shape":[3],"datatype":"BYTES","parameters":{"binary_data_size":17}}]}'
)
_MIXED = (
    b'{"outputs":[{"name":"A","parameters":{"binary_data":true}}],"inputs":[{"name":"A","shape":[2],"datatype":"BYTES","data":["a","bc"]},'
    b'{"name":"B","shape":[2,1],"datatype":"INT16","parameters":{"binary_data_size":4}}]}'
)


def seeds() -> list[bytes]:
    """Requests that are right."""
    strings = b"\1\0\0\0a\0\0\0\0\4\0\0\0bcde"
    return [
        len(_STRINGS).to_bytes(2, "little") + _STRINGS + strings,
        len(_MIXED).to_bytes(2, "little") + _MIXED + b"abcd",
        b"\xff\xff" + _MIXED,
    ]


def check(data: bytes) -> None:
    """Raise if a codec process would read or write something else."""
    body = data[2:] or b"{}"
    length = int.from_bytes(data[:2], "little")
    length = length if 0 < length <= len(body) else len(body)
    plain = _outcome(lambda: infer_json.decode(body, length, _TARGET))
    with _small_is_large():
        arguments = _travelled((frames.large(body), length, _TARGET))
        coded = _outcome(lambda: _travelled(large_bodies._decode_infer(*arguments)))
        if isinstance(plain, InferenceError) or isinstance(coded, InferenceError):
            assert _shown(plain) == _shown(coded)
            return
        whole(coded.request)
        assert summary(plain.request) == summary(coded.request)
        assert [each.fault for each in plain.request.inputs] == [
            each.fault for each in coded.request.inputs
        ]
        assert (plain.form.binary, plain.form.listed) == (coded.form.binary, coded.form.listed)
        good = _usable(coded.request.inputs)
        written = _outcome(
            lambda: _travelled(large_bodies._encode_infer(_response(good), coded.form))
        )
        in_frames = _framed(good)
    usual = _usable(plain.request.inputs)
    expected = _outcome(lambda: reply_json.encode(_response(usual), plain.form))
    if isinstance(expected, InferenceError) or isinstance(written, InferenceError):
        assert _shown(expected) == _shown(written)
    else:
        headers, parts = written
        assert headers == expected.headers
        assert b"".join(parts) == b"".join(expected.body)
    assert in_frames == _framed(usual)


def _usable(inputs: list[Tensor]) -> list[Tensor]:
    """Those that could be outputs as well: a model has no name that is not text."""
    return [each for each in inputs if each.fault is None and each.name.isascii()]


def _response(outputs: list[Tensor]) -> InferResponse:
    return InferResponse("m", 1, "", outputs, NO_PARAMETERS)


def _framed(tensors: list[Tensor]) -> tuple[bytes, bytes]:
    """What a worker process gets."""
    header, payload = codec.write([((), packing.described(tensors))])
    return header, payload.joined()


def _travelled(value: typing.Any) -> typing.Any:
    """What comes out at the other end of the codec."""
    return frames.read(frames.write(value))


def _outcome(call: "collections.abc.Callable[[], typing.Any]") -> typing.Any:
    try:
        return call()
    except InferenceError as error:
        return error


def _shown(outcome: typing.Any) -> object:
    return (outcome.code, outcome.message) if isinstance(outcome, InferenceError) else "accepted"


@contextlib.contextmanager
def _small_is_large() -> "collections.abc.Iterator[None]":
    with contextlib.ExitStack() as patched:
        for owner, name, value in ((raw_tensors, "UNPACKED", 1), (frames, "_PACKED_BYTES", 8)):
            patched.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield
