"""The messages of the kubelet's device plugin API, v1beta1 (k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto), as far as the plugin uses them."""

import typing

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "v1beta1"

_STRING = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_BOOL = descriptor_pb2.FieldDescriptorProto.TYPE_BOOL
_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_ONE = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_MANY = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED

_MESSAGES: "dict[str, list[tuple[str, int, typing.Any, typing.Any, str]]]" = {
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
    "AllocateResponse": [("container_responses", 1, _MESSAGE, _MANY, "ContainerAllocateResponse")],
}


def _classes() -> "dict[str, typing.Any]":
    file = descriptor_pb2.FileDescriptorProto(
        name="naiad/e2e/deviceplugin.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, label, type_name in fields:
            reference = f".{PACKAGE}.{type_name}" if type_name else None
            message.field.add(
                name=field, number=number, type=kind, label=label, type_name=reference
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in _MESSAGES
    }


CLASSES = _classes()
"""The message classes, by name."""
