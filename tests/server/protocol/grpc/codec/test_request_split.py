"""Cutting a message gives what protobuf gives, or leaves it to protobuf."""

import hypothesis
import hypothesis.strategies as st
from google.protobuf.message import DecodeError

from naiad.core.messages import service_pb2
from naiad.protocol.grpc.codec.request_split import split
from tests.server.protocol.grpc.scripted_engine import small_request

Request = service_pb2.ModelInferRequest


def test_raw_tensors_and_id_are_cut_out() -> None:
    body = small_request(request_id="id")
    parts = split(body)
    assert parts is not None
    assert parts.id == "id"
    assert [body[at : at + size] for at, size in parts.raws] == list(
        Request.FromString(body).raw_input_contents
    )
    head = Request.FromString(parts.head)
    assert [io.name for io in head.inputs] == ["A", "B"]
    assert not head.raw_input_contents
    assert not head.id


def test_requests_that_differ_in_id_and_values_have_one_head() -> None:
    first = split(small_request(request_id="1", value=1))
    second = split(small_request(request_id="a longer one", value=2))
    assert first is not None
    assert second is not None
    assert first.head == second.head


def test_long_values_have_lengths_of_several_bytes() -> None:
    for size in (127, 128, 16383, 16384, 2_100_000):
        body = Request(raw_input_contents=[bytes(size)]).SerializeToString()
        parts = split(body)
        assert parts is not None
        assert parts.raws == [(len(body) - size, size)]


def test_what_is_not_plain_is_left_to_protobuf() -> None:
    truncated = small_request()[:-1]
    unknown_field = b"\xfa\x06\x01x"
    number_field = b"\x08\x01"
    endless_length = b"\x3a" + b"\xff" * 10 + b"\x01"
    broken_id = b"\x1a\x01\xff"
    many_fields = b"\x3a\x00" * 1000
    for body in (truncated, unknown_field, number_field, endless_length, broken_id, many_fields):
        assert split(body) is None


FIELDS = st.one_of(
    st.tuples(st.sampled_from([0x0A, 0x12, 0x1A, 0x3A]), st.binary(max_size=200)),
    st.just((0x2A, b"\x0a\x01A")),
    st.just((0x32, b"\x0a\x01Y")),
    st.just((0x22, b"\x0a\x01k\x12\x02\x10\x07")),
)


@hypothesis.given(fields=st.lists(FIELDS, max_size=8))
def test_the_parts_put_together_are_what_protobuf_reads(fields: list[tuple[int, bytes]]) -> None:
    body = b"".join(
        bytes([tag])
        + (bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 127 | 128, 1]))
        + value
        for tag, value in fields
    )
    try:
        official = Request.FromString(body)
    except DecodeError:
        return
    parts = split(body)
    assert parts is not None
    rebuilt = Request.FromString(parts.head)
    rebuilt.id = parts.id
    rebuilt.raw_input_contents.extend(body[at : at + size] for at, size in parts.raws)
    assert rebuilt == official
