"""The cells beside Triton that have an aim: each has one, and the table says which are missed."""

import pytest

from benchmarks.report import Row
from benchmarks.server import small_requests, streams
from benchmarks.server.contest import CHANGING_GRPC, GRPC, WIRES


def row(wire: str, *, ratio: float, late: float, connections: int = 16) -> Row:
    return Row(wire=wire, model="python identity", connections=connections, ours=(ratio, 1, late), theirs=(1, 1, 1))  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "late", "missed"), [(1.6, 1.1, 0), (1.5, 1.1, 1), (1.6, 1.2, 1), (1.5, 1.2, 2)]
)
def test_what_misses_its_aim_says_so(ratio: float, late: float, missed: int) -> None:
    text = small_requests.table([row(CHANGING_GRPC, ratio=ratio, late=late)])
    assert text.count("**missed**") == missed
    assert text.splitlines()[-1].startswith("| gRPC, changing | python identity | 16 | ")


def test_with_one_connection_p99_has_no_aim() -> None:
    text = small_requests.table([row(CHANGING_GRPC, ratio=2, late=9, connections=1)])
    assert "missed" not in text


def test_of_a_larger_table_those_are_taken_that_have_an_aim() -> None:
    rows = [row(wire, ratio=1, late=1) for wire in (*WIRES, *small_requests.WIRES)]
    streamed = [
        streams.StreamRow(wire=wire, connections=1, ours=3, theirs=1)
        for wire in (streams.EVENTS, streams.GRPC)
    ]
    found = small_requests.of(rows, streamed)
    assert [each.wire for each in found] == [*small_requests.WIRES, streams.GRPC]
    assert GRPC not in [each.wire for each in found]
    assert all(small_requests.aim_of(each) for each in found)
    assert small_requests.table(found).endswith("| | | |")
