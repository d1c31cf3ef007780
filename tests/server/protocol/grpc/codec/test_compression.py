"""Compressed messages: what they hold, and the errors of those that hold too much or are damaged."""

import gzip
import random
import zlib

import pytest

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.grpc.codec import compression
from naiad.protocol.grpc.codec.compression import COMPRESSED, decompress
from tests.server.protocol.grpc.scripted_engine import small_request

MESSAGE = bytes(1000)


@pytest.mark.parametrize("level", [0, 1, 5, 6, 9])
def test_what_gzip_and_zlib_make_of_a_message_is_seen_and_undone(level: int) -> None:
    for packed in (gzip.compress(MESSAGE, level), zlib.compress(MESSAGE, level)):
        assert packed.startswith(COMPRESSED)
        assert decompress(packed, 1000) == MESSAGE


@pytest.mark.parametrize(("input_bytes", "output_bytes"), [(1, 7), (5, 1000), (1000, 1)])
def test_pieces_of_any_length_give_the_same(
    input_bytes: int, output_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "_INPUT_BYTES", input_bytes)
    monkeypatch.setattr(compression, "_OUTPUT_BYTES", output_bytes)
    for content in (b"", b"a", MESSAGE, random.Random(0).randbytes(300)):
        for packed in (gzip.compress(content), zlib.compress(content)):
            assert decompress(packed, len(content)) == content
            assert isinstance(
                decompress(packed + packed, 2 * len(content)), RpcStatus
            ) is packed.startswith(b"\x1f")
            if content:
                refused = decompress(packed, len(content) - 1)
                assert isinstance(refused, RpcStatus)
                assert refused.status == 8
    for damaged in (gzip.compress(MESSAGE)[:-1], gzip.compress(MESSAGE) + b"x"):
        refused = decompress(damaged, 2000)
        assert isinstance(refused, RpcStatus)
        assert refused.status == 13


def test_an_ordinary_message_is_not_taken_for_a_compressed_one() -> None:
    assert not small_request().startswith(COMPRESSED)
    assert not b"".startswith(COMPRESSED)


def test_a_message_above_the_limit_is_refused_with_the_option() -> None:
    for packed in (gzip.compress(MESSAGE), zlib.compress(MESSAGE)):
        refused = decompress(packed, 999)
        assert isinstance(refused, RpcStatus)
        assert refused.status == 8
        assert "more than 999 bytes once it is decompressed" in refused.message
        assert "--grpc-max-decompressed-size" in refused.message


@pytest.mark.parametrize(
    "damaged",
    [
        gzip.compress(MESSAGE)[:-1],
        gzip.compress(MESSAGE) + b"x",
        gzip.compress(MESSAGE)[:12] + b"\xff" * 20,
    ],
    ids=["too short", "too long", "wrong inside"],
)
def test_a_damaged_message_is_refused_as_grpc_does(damaged: bytes) -> None:
    refused = decompress(damaged, 2000)
    assert isinstance(refused, RpcStatus)
    assert refused.status == 13
    assert "Unexpected error decompressing data for algorithm gzip: " in refused.message


def test_a_message_that_only_begins_as_zlib_does_is_left_to_protobuf() -> None:
    unknown_field_15 = b"\x78\x01" + small_request()
    assert unknown_field_15.startswith(COMPRESSED)
    assert decompress(unknown_field_15, 2000) == unknown_field_15
