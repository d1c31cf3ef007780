"""The kubelet's interfaces for devices, as far as the drivers here use them: messages, and methods as gRPC wants them.

Device plugins: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1. Drivers of resource claims: …/pluginregistration/v1 and …/dra/v1.
"""

import typing
from collections.abc import Callable, Mapping

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Classes = dict[str, typing.Any]
"""Message classes by name."""

_STRING = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_BOOL = descriptor_pb2.FieldDescriptorProto.TYPE_BOOL
_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_ONE = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_MANY = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED

_Table = Mapping[str, "list[tuple[str, int, typing.Any, typing.Any, str]]"]


def _classes(package: str, messages: _Table) -> Classes:
    """The message classes of a table: of each message the fields' name, number, type, label, and type of message."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")  # fmt: skip
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label, type_name in fields:
            reference = f".{package}.{type_name}" if type_name else None
            message.field.add(
                name=field, number=number, type=kind, label=label, type_name=reference
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


DEVICE_PLUGIN = "v1beta1"
"""The package of the device plugin's messages, and its version."""

DEVICE_PLUGIN_CLASSES = _classes(
    DEVICE_PLUGIN,
    {
        "Empty": [],
        "DevicePluginOptions": [
            ("pre_start_required", 1, _BOOL, _ONE, ""),
            ("get_preferred_allocation_available", 2, _BOOL, _ONE, ""),
        ],
        "RegisterRequest": [
            ("version", 1, _STRING, _ONE, ""),
            ("endpoint", 2, _STRING, _ONE, ""),
            ("resource_name", 3, _STRING, _ONE, ""),
            ("options", 4, _MESSAGE, _ONE, "DevicePluginOptions"),
        ],
        "Device": [("ID", 1, _STRING, _ONE, ""), ("health", 2, _STRING, _ONE, "")],
        "ListAndWatchResponse": [("devices", 1, _MESSAGE, _MANY, "Device")],
        "ContainerAllocateRequest": [("devices_ids", 1, _STRING, _MANY, "")],
        "AllocateRequest": [("container_requests", 1, _MESSAGE, _MANY, "ContainerAllocateRequest")],
        # On the wire, a map is a list of entries.
        "Environment": [("key", 1, _STRING, _ONE, ""), ("value", 2, _STRING, _ONE, "")],
        "ContainerAllocateResponse": [("envs", 1, _MESSAGE, _MANY, "Environment")],
        "AllocateResponse": [
            ("container_responses", 1, _MESSAGE, _MANY, "ContainerAllocateResponse")
        ],
    },
)

REGISTRATION = "pluginregistration"

REGISTRATION_CLASSES = _classes(
    REGISTRATION,
    {
        "InfoRequest": [],
        "PluginInfo": [
            ("type", 1, _STRING, _ONE, ""),
            ("name", 2, _STRING, _ONE, ""),
            ("endpoint", 3, _STRING, _ONE, ""),
            ("supported_versions", 4, _STRING, _MANY, ""),
        ],
        "RegistrationStatus": [
            ("plugin_registered", 1, _BOOL, _ONE, ""),
            ("error", 2, _STRING, _ONE, ""),
        ],
        "RegistrationStatusResponse": [],
    },
)

CLAIMS = "k8s.io.kubelet.pkg.apis.dra.v1"

CLAIMS_CLASSES = _classes(
    CLAIMS,
    {
        "Claim": [
            ("namespace", 1, _STRING, _ONE, ""),
            ("uid", 2, _STRING, _ONE, ""),
            ("name", 3, _STRING, _ONE, ""),
        ],
        "Device": [
            ("request_names", 1, _STRING, _MANY, ""),
            ("pool_name", 2, _STRING, _ONE, ""),
            ("device_name", 3, _STRING, _ONE, ""),
            ("cdi_device_ids", 4, _STRING, _MANY, ""),
        ],
        "NodePrepareResourcesRequest": [("claims", 1, _MESSAGE, _MANY, "Claim")],
        "Prepared": [("devices", 1, _MESSAGE, _MANY, "Device"), ("error", 2, _STRING, _ONE, "")],
        "PreparedEntry": [
            ("key", 1, _STRING, _ONE, ""),
            ("value", 2, _MESSAGE, _ONE, "Prepared"),
        ],
        "NodePrepareResourcesResponse": [("claims", 1, _MESSAGE, _MANY, "PreparedEntry")],
        "NodeUnprepareResourcesRequest": [("claims", 1, _MESSAGE, _MANY, "Claim")],
        "Unprepared": [("error", 1, _STRING, _ONE, "")],
        "UnpreparedEntry": [
            ("key", 1, _STRING, _ONE, ""),
            ("value", 2, _MESSAGE, _ONE, "Unprepared"),
        ],
        "NodeUnprepareResourcesResponse": [("claims", 1, _MESSAGE, _MANY, "UnpreparedEntry")],
    },
)


def unary(function: Callable[[typing.Any], typing.Any], request: typing.Any) -> grpc.RpcMethodHandler:  # fmt: skip
    """A method with one request of a class, and one response."""
    return grpc.unary_unary_rpc_method_handler(
        lambda message, _: function(message), request.FromString, serialized
    )


def serialized(message: typing.Any) -> bytes:
    """A message as it goes over the wire."""
    content: bytes = message.SerializeToString()
    return content
