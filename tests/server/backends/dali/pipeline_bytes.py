"""Serialised pipelines as DALI writes them, made without DALI."""


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def number(field: int, value: int) -> bytes:
    """A field that holds an integer."""
    return _varint(field << 3) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def text(field: int, value: str | bytes) -> bytes:
    """A field that holds text, or a message."""
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def tensor(field: int, name: str, device: str = "cpu", dtype: int = -1, ndim: int = -1) -> bytes:
    """An InputOutput."""
    body = text(1, name) + text(2, device) + number(3, 0) + number(5, dtype) + number(6, ndim)
    return text(field, body)


def argument(name: str, value: str | int) -> bytes:
    """An Argument of an operator."""
    kind, held = (
        ("string", text(5, value)) if isinstance(value, str) else ("int64", number(4, value))
    )
    return text(4, text(1, name) + text(2, kind) + held + number(8, 0))


def operator(schema: str, name: str, *arguments: bytes, device: str = "cpu") -> bytes:
    """An OpDef."""
    head = text(1, schema) + argument("device", device)
    return text(5, head + b"".join(arguments) + text(5, name))


def external_source(name: str, dtype: int = -1, ndim: int = -1) -> bytes:
    """An input; `dtype` 0 is UINT8, 9 is FP32."""
    said = [argument("dtype", dtype)] if dtype >= 0 else []
    return operator("ExternalSource", name, *said, *([argument("ndim", ndim)] if ndim >= 0 else []))


def pipeline(*parts: bytes, batch_size: int = 8) -> bytes:
    """A PipelineDef."""
    return number(1, 2) + number(2, batch_size) + b"".join(parts) + number(8, -99999)


DECODER = operator(
    "decoders__Image",
    "__Image_0",
    argument("_module", "nvidia.dali.fn.decoders"),
    argument("_display_name", "image"),
)
IMAGES = pipeline(
    external_source("JPEG", dtype=0, ndim=1), DECODER, tensor(7, "__Image_0", dtype=0, ndim=3)
)
"""Encoded images to images."""
