"""The Redis protocol: commands, and replies that come in pieces."""

import pytest

from naiad.response_cache.redis.resp import LARGEST, Reply, ReplyError, ReplyParser, command

STREAM = b"+OK\r\n$3\r\na\r\n\r\n$-1\r\n:12\r\n-ERR no\r\n$0\r\n\r\n"


def read(*pieces: bytes) -> list[Reply]:
    parser = ReplyParser()
    return [reply for piece in pieces for reply in parser.feed(piece)]


def shown(replies: list[Reply]) -> list[object]:
    return [str(each) if isinstance(each, ReplyError) else each for each in replies]


def test_commands() -> None:
    assert command(b"GET", b"k") == b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
    assert command(b"SET", b"k", b"\0\r\n") == b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n\0\r\n\r\n"


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_replies_in_pieces_of_any_size(size: int) -> None:
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert shown(read(*pieces)) == [b"OK", b"a\r\n", None, 12, "ERR no", b""]


@pytest.mark.parametrize("wrong", [b"HTTP/1.1 400\r\n", b"$x\r\n", b"*1\r\n", b"\r\n", b"$%d\r\n" % (LARGEST + 1)])  # fmt: skip
def test_other_bytes_are_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(wrong)
