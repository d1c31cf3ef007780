"""UNAVAILABLE says when to try again."""

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from naiad.protocol.grpc.call import RpcStatus
from naiad.protocol.grpc.retry_info import KEY, details


def status_class() -> type:
    """google.rpc.Status with one Any, as its public definition says."""
    file = descriptor_pb2.FileDescriptorProto(name="s.proto", package="s", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    any_ = file.message_type.add(name="Any")
    any_.field.add(name="type_url", number=1, type=field.TYPE_STRING, label=1)
    any_.field.add(name="value", number=2, type=field.TYPE_BYTES, label=1)
    status = file.message_type.add(name="Status")
    status.field.add(name="code", number=1, type=field.TYPE_INT32, label=1)
    status.field.add(name="message", number=2, type=field.TYPE_STRING, label=1)
    status.field.add(name="details", number=3, type=field.TYPE_MESSAGE, type_name=".s.Any", label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("s.Status"))


@pytest.mark.parametrize("message", ["", "not now", "é" * 300])
def test_the_details_are_a_status_with_a_delay_of_one_second(message: str) -> None:
    ((key, value),) = details(RpcStatus(14, message))
    assert key == KEY
    status = status_class().FromString(value)  # type: ignore[attr-defined] # made at run time
    assert (status.code, status.message) == (14, message)
    (detail,) = status.details
    assert detail.type_url == "type.googleapis.com/google.rpc.RetryInfo"
    assert detail.value == b"\x0a\x02\x08\x01"  # retry_delay { seconds: 1 }


def test_other_statuses_and_long_messages_have_none() -> None:
    assert details(RpcStatus(5, "no such model")) == ()
    assert details(RpcStatus(14, "x" * 2048)) == ()
