"""The messages of grpc.testing.TestService, as far as the cases use them: field names and numbers are those of gRPC's messages.proto."""

import typing

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

_FILE = """
name: "grpc/testing/messages.proto" package: "grpc.testing" syntax: "proto3"
message_type { name: "Empty" }
message_type { name: "BoolValue" field { name: "value" number: 1 label: LABEL_OPTIONAL type: TYPE_BOOL } }
message_type { name: "Payload"
  field { name: "type" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "body" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES } }
message_type { name: "EchoStatus"
  field { name: "code" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "message" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING } }
message_type { name: "SimpleRequest"
  field { name: "response_size" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "payload" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.Payload" }
  field { name: "response_compressed" number: 6 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.BoolValue" }
  field { name: "response_status" number: 7 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.EchoStatus" }
  field { name: "expect_compressed" number: 8 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.BoolValue" }
  field { name: "fill_server_id" number: 9 label: LABEL_OPTIONAL type: TYPE_BOOL } }
message_type { name: "SimpleResponse"
  field { name: "payload" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.Payload" }
  field { name: "server_id" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING } }
message_type { name: "StreamingInputCallRequest"
  field { name: "payload" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.Payload" }
  field { name: "expect_compressed" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.BoolValue" } }
message_type { name: "StreamingInputCallResponse"
  field { name: "aggregated_payload_size" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 } }
message_type { name: "ResponseParameters"
  field { name: "size" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "interval_us" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "compressed" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.BoolValue" } }
message_type { name: "StreamingOutputCallRequest"
  field { name: "response_parameters" number: 2 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".grpc.testing.ResponseParameters" }
  field { name: "payload" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.Payload" }
  field { name: "response_status" number: 7 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.EchoStatus" } }
message_type { name: "StreamingOutputCallResponse"
  field { name: "payload" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".grpc.testing.Payload" } }
"""

_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(text_format.Parse(_FILE, descriptor_pb2.FileDescriptorProto()))


def _message(name: str) -> typing.Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"grpc.testing.{name}"))


SimpleRequest = _message("SimpleRequest")
SimpleResponse = _message("SimpleResponse")
StreamingInputCallRequest = _message("StreamingInputCallRequest")
StreamingInputCallResponse = _message("StreamingInputCallResponse")
StreamingOutputCallRequest = _message("StreamingOutputCallRequest")
StreamingOutputCallResponse = _message("StreamingOutputCallResponse")
