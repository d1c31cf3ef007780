"""A model configuration as the JSON that `GET …/config` and `initialize(args)` of Python models show (rows 2.19-2.21).

The official JSON printer writes 64-bit numbers as strings; Triton turns most of them back into numbers, and a client
sees which. This prints the message field by field, in the order of its definition, exactly so. Pure.
"""

import struct
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

_STAY_STRINGS = frozenset(
    {
        "inference.ModelInstanceGroup.SecondaryDevice.device_id",
        "inference.ModelOptimizationPolicy.Cuda.GraphSpec.Shape.dim",
        "inference.ModelSequenceBatching.InitialState.dims",
    }
)
"""64-bit fields that Triton leaves as protobuf prints them (ModelConfigToJson names every field that it converts)."""


def to_json(message: Any) -> dict[str, Any]:
    """The config, or any message inside one, as JSON values.

    Keys in snake case; scalars, lists and maps always, also empty ones; enums by name; 64-bit numbers as numbers, keys of maps as strings; a
    sub-message or a member of a oneof only when it is set.
    """
    shown: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of_value = field.message_type.fields_by_name["value"]
            shown[field.name] = {str(key): _plain(of_value, value[key]) for key in sorted(value)}
        elif field.is_repeated:
            shown[field.name] = [_plain(field, item) for item in value]
        else:
            shown[field.name] = _plain(field, value)
    return shown


def _plain(field: FieldDescriptor, value: Any) -> Any:
    """One value as JSON has it."""
    if field.message_type is not None:
        return to_json(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return _float(value)
    if field.full_name in _STAY_STRINGS:
        return str(value)
    return value


def _float(value: float) -> float:
    """A 32-bit number as protobuf prints it: in as few digits as give it back, and a whole one without a point."""
    for digits in range(6, 10):
        shown = float(f"{value:.{digits}g}")
        if struct.pack("<f", shown) == struct.pack("<f", value):
            break
    return int(shown) if shown.is_integer() else shown
