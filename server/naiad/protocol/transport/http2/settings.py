"""SETTINGS: which values may be set to what, as a table (RFC 9113, section 6.5.2). Pure."""

import struct

import msgspec

from naiad.protocol.transport.http2.errors import ConnectionFault, ErrorCode
from naiad.protocol.transport.http2.frames import MAX_WINDOW

HEADER_TABLE_SIZE = 0x1
ENABLE_PUSH = 0x2
MAX_CONCURRENT_STREAMS = 0x3
INITIAL_WINDOW_SIZE = 0x4
MAX_FRAME_SIZE = 0x5
MAX_HEADER_LIST_SIZE = 0x6

INITIAL_WINDOW = 65_535
"""Of streams and of connections, until it is set otherwise (section 6.9.2)."""

INITIAL_TABLE = 4_096
"""Bytes of a dynamic table, until it is set otherwise (section 6.5.2)."""

STREAM_WINDOW = 262_144
"""Of the streams that clients open, as our SETTINGS say: a message of that length comes without our giving credit, and of a longer one its length is known in time."""

_MAX = 2**32 - 1
_ENTRY = struct.Struct(">HI")


class SettingRule(msgspec.Struct, frozen=True):
    """What a setting may be; another value is a connection error `fault`."""

    name: str
    least: int = 0
    most: int = _MAX
    fault: ErrorCode = ErrorCode.PROTOCOL_ERROR


RULES: dict[int, SettingRule] = {
    HEADER_TABLE_SIZE: SettingRule("HEADER_TABLE_SIZE"),
    ENABLE_PUSH: SettingRule("ENABLE_PUSH", most=1),
    MAX_CONCURRENT_STREAMS: SettingRule("MAX_CONCURRENT_STREAMS"),
    INITIAL_WINDOW_SIZE: SettingRule(
        "INITIAL_WINDOW_SIZE", most=MAX_WINDOW, fault=ErrorCode.FLOW_CONTROL_ERROR
    ),
    MAX_FRAME_SIZE: SettingRule("MAX_FRAME_SIZE", least=16_384, most=16_777_215),
    MAX_HEADER_LIST_SIZE: SettingRule("MAX_HEADER_LIST_SIZE"),
}
"""Section 6.5.2; other identifiers are ignored."""


def parse(payload: bytes) -> dict[int, int]:
    """The values in a frame: the last one of each identifier, in the order of the frame.

    Raises:
        ConnectionFault: the payload is not a list of settings, or a value is not allowed.
    """
    if len(payload) % _ENTRY.size:
        raise ConnectionFault(
            ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS with {len(payload)} bytes (section 6.5)"
        )
    values: dict[int, int] = {}
    for identifier, value in _ENTRY.iter_unpack(payload):
        rule = RULES.get(identifier)
        if rule is None:
            continue
        if not rule.least <= value <= rule.most:
            raise ConnectionFault(rule.fault, f"SETTINGS_{rule.name} of {value} (section 6.5.2)")
        values[identifier] = value
    return values
