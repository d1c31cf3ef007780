"""Cutting a message gives what protobuf gives, or leaves it to protobuf."""

import hypothesis
import hypothesis.strategies as st
import pytest
from google.protobuf.message import DecodeError

from naiad.core.messages import service_pb2
from naiad.protocol.grpc.codec.request_proto import RequestReader
from naiad.protocol.grpc.codec.request_split import Template, split, values_in
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


def _written(fields: list[tuple[int, bytes]]) -> bytes:
    return b"".join(
        bytes([tag])
        + (bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 127 | 128, 1]))
        + value
        for tag, value in fields
    )


@hypothesis.given(fields=st.lists(FIELDS, max_size=8))
def test_the_parts_put_together_are_what_protobuf_reads(fields: list[tuple[int, bytes]]) -> None:
    body = _written(fields)
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


@hypothesis.given(
    rest=st.lists(FIELDS.filter(lambda field: field[0] not in {0x1A, 0x3A}), max_size=4),
    cut=st.integers(0, 4),
    ids=st.lists(st.none() | st.text(max_size=150), min_size=2, max_size=2),
    raws=st.lists(st.lists(st.binary(max_size=200), max_size=3), min_size=2, max_size=2),
    damage=st.binary(max_size=2),
)
def test_a_template_finds_what_a_walk_through_the_fields_finds(
    rest: list[tuple[int, bytes]],
    cut: int,
    ids: list[str | None],
    raws: list[list[bytes]],
    damage: bytes,
) -> None:
    first, second = (
        _written(
            [
                *rest[:cut],
                *([] if an_id is None else [(0x1A, an_id.encode()[:199])]),
                *rest[cut:],
                *((0x3A, raw) for raw in some),
            ]
        )
        for an_id, some in zip(ids, raws, strict=True)
    )
    parts = split(first)
    hypothesis.assume(parts is not None)
    assert parts is not None
    template = Template(parts)
    bodies = (first, second, second + damage, second[: len(second) // 2])
    changed = [
        first[:at] + bytes((first[at] ^ (damage or b"\x01")[0],)) + first[at + 1 :]
        for at in range(len(first))
    ]
    for body in (*bodies, first, first, second, second, *changed):
        found, walked = template.match(body), split(body)
        if found is not None:
            assert walked is not None
            assert (walked.id, walked.raws) == found
            assert walked.head == parts.head


def test_a_template_takes_another_id_and_other_values() -> None:
    parts = split(small_request(request_id="id"))
    assert parts is not None
    template = Template(parts)
    for request_id in ("", "a", "another id"):
        body = small_request(request_id=request_id, value=7)
        walked = split(body)
        assert walked is not None
        assert template.match(body) == (request_id, walked.raws)
    assert template.match(b"") is None


def test_whom_a_long_message_is_for_and_where_its_values_begin() -> None:
    message = Request(model_name="m", model_version="3", id="7")
    message.inputs.add(name="x", datatype="UINT8", shape=[300])
    body = message.SerializeToString()
    raw = b"\x3a\xac\x02" + bytes(300)
    assert values_in(memoryview(body + raw)[:-200]) == ("b'm' b'3'", len(body) + 3)
    assert values_in(memoryview(body)) is None
    assert values_in(memoryview(body[:-1])) is None
    assert values_in(memoryview(b"")) is None
    assert values_in(memoryview(b"\x08\x01" + body + raw)) is None


@pytest.mark.parametrize("model", ["m", "other"])
def test_a_view_is_read_where_it_is_unless_the_model_is_named_behind_its_values(model: str) -> None:
    message = Request(model_name="m", id="7")
    message.inputs.add(name="x", datatype="UINT8", shape=[3])
    message.raw_input_contents.append(b"abc")
    body = message.SerializeToString()
    if model != "m":
        body += Request(model_name=model).SerializeToString()
    reader = RequestReader()
    for _ in range(2):
        incoming = reader.read(memoryview(body))
        assert incoming.model_name == model
        (tensor,) = incoming.request().inputs
        assert tensor.array.tobytes() == b"abc"
        assert (type(incoming.body) is memoryview) is (model == "m")


def test_a_view_that_names_no_model_is_read_as_the_same_bytes_are() -> None:
    raw = b"\x3a\xac\x02" + bytes(300)
    for body in (raw, b"\x1a\x017" + raw, b"\x12\x011" + raw):
        incoming = RequestReader().read(memoryview(body))
        assert incoming.model_name == ""
        assert incoming.raws == [(len(body) - 300, 300)]
        assert incoming.id == RequestReader().read(body).id
