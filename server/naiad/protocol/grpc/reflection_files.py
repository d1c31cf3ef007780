"""The proto files of what the gRPC port serves, by name and by symbol, and the messages of reflection itself. Pure.

The files of health and reflection are built here in a pool of their own: registered with protobuf's default pool they could collide with
the packages grpcio-health-checking and grpcio-reflection in the same process.
"""

import collections.abc
import typing

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from naiad.core.messages import service_pb2

PACKAGES = ("grpc.reflection.v1", "grpc.reflection.v1alpha")

_HEALTH = """
name: "grpc/health/v1/health.proto" package: "grpc.health.v1" syntax: "proto3"
message_type { name: "HealthCheckRequest"
  field { name: "service" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING } }
message_type { name: "HealthCheckResponse"
  field { name: "status" number: 1 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".grpc.health.v1.HealthCheckResponse.ServingStatus" }
  enum_type { name: "ServingStatus" value { name: "UNKNOWN" number: 0 } value { name: "SERVING" number: 1 }
    value { name: "NOT_SERVING" number: 2 } value { name: "SERVICE_UNKNOWN" number: 3 } } }
service { name: "Health"
  method { name: "Check" input_type: ".grpc.health.v1.HealthCheckRequest" output_type: ".grpc.health.v1.HealthCheckResponse" }
  method { name: "Watch" input_type: ".grpc.health.v1.HealthCheckRequest" output_type: ".grpc.health.v1.HealthCheckResponse"
    server_streaming: true } }
"""

_REFLECTION = """
name: "FOLDER/reflection.proto" package: "PACKAGE" syntax: "proto3"
message_type { name: "ServerReflectionRequest" oneof_decl { name: "message_request" }
  field { name: "host" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "file_by_filename" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "file_containing_symbol" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "file_containing_extension" number: 5 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
    type_name: ".PACKAGE.ExtensionRequest" }
  field { name: "all_extension_numbers_of_type" number: 6 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "list_services" number: 7 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 } }
message_type { name: "ExtensionRequest"
  field { name: "containing_type" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "extension_number" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 } }
message_type { name: "ServerReflectionResponse" oneof_decl { name: "message_response" }
  field { name: "valid_host" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "original_request" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".PACKAGE.ServerReflectionRequest" }
  field { name: "file_descriptor_response" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
    type_name: ".PACKAGE.FileDescriptorResponse" }
  field { name: "all_extension_numbers_response" number: 5 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
    type_name: ".PACKAGE.ExtensionNumberResponse" }
  field { name: "list_services_response" number: 6 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
    type_name: ".PACKAGE.ListServiceResponse" }
  field { name: "error_response" number: 7 label: LABEL_OPTIONAL type: TYPE_MESSAGE oneof_index: 0
    type_name: ".PACKAGE.ErrorResponse" } }
message_type { name: "FileDescriptorResponse"
  field { name: "file_descriptor_proto" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "ExtensionNumberResponse"
  field { name: "base_type_name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "extension_number" number: 2 label: LABEL_REPEATED type: TYPE_INT32 } }
message_type { name: "ListServiceResponse"
  field { name: "service" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".PACKAGE.ServiceResponse" } }
message_type { name: "ServiceResponse" field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING } }
message_type { name: "ErrorResponse"
  field { name: "error_code" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "error_message" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING } }
service { name: "ServerReflection"
  method { name: "ServerReflectionInfo" input_type: ".PACKAGE.ServerReflectionRequest"
    output_type: ".PACKAGE.ServerReflectionResponse" client_streaming: true server_streaming: true } }
"""


class ProtoFiles:
    """The files.

    Attributes:
        services: their full names, sorted.
        messages: the full names of all messages.
    """

    def __init__(self) -> None:
        self._files: dict[str, typing.Any] = {}
        self._by_symbol: dict[str, str] = {}
        self.messages: set[str] = set()
        self.services: list[str] = []
        self._pool = descriptor_pool.DescriptorPool()
        served = service_pb2.DESCRIPTOR
        for descriptor in (*served.dependencies, served):
            self._add(descriptor_pb2.FileDescriptorProto.FromString(descriptor.serialized_pb))
        self._add(_parsed(_HEALTH))
        for package in PACKAGES:
            folder = package.replace(".", "/")
            self._add(_parsed(_REFLECTION.replace("PACKAGE", package).replace("FOLDER", folder)))
        self.services.sort()

    def by_name(self, name: str) -> list[bytes] | None:
        """A file and those it imports, each once, serialised; None for an unknown one."""
        if name not in self._files:
            return None
        names = [name]
        for each in names:
            names += [other for other in self._files[each].dependency if other not in names]
        return [self._files[each].SerializeToString() for each in names]

    def by_symbol(self, symbol: str) -> list[bytes] | None:
        """The file that declares a message, field, enum, value, service or method, by its full name; see `by_name`."""
        return self.by_name(self._by_symbol.get(symbol, ""))

    def message_class(self, name: str) -> typing.Any:
        """The class of a message, by its full name."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))

    def _add(self, file: typing.Any) -> None:
        self._pool.Add(file)
        self._files[file.name] = file
        for symbol in self._symbols(file.package, file):
            self._by_symbol[symbol] = file.name

    def _symbols(self, scope: str, file: typing.Any) -> collections.abc.Iterator[str]:
        """The symbols of a file."""
        yield from self._enums(scope, file.enum_type)
        yield from self._messages(scope, file.message_type)
        for service in file.service:
            name = f"{scope}.{service.name}"
            self.services.append(name)
            yield name
            yield from (f"{name}.{method.name}" for method in service.method)

    def _messages(self, scope: str, messages: typing.Any) -> collections.abc.Iterator[str]:
        for message in messages:
            name = f"{scope}.{message.name}"
            self.messages.add(name)
            yield name
            yield from (f"{name}.{each.name}" for each in (*message.field, *message.oneof_decl))
            yield from self._enums(name, message.enum_type)
            yield from self._messages(name, message.nested_type)

    @staticmethod
    def _enums(scope: str, enums: typing.Any) -> collections.abc.Iterator[str]:
        for enum in enums:
            yield f"{scope}.{enum.name}"
            yield from (f"{scope}.{value.name}" for value in enum.value)


def _parsed(text: str) -> typing.Any:
    return text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
