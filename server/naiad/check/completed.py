"""What the server completes in a config, as lines that can be copied into it: a config with them means the same. Pure."""

from typing import Any

from google.protobuf import text_format

from naiad.config.resolving.resolve import Resolution


def completed_lines(resolution: Resolution) -> list[str]:
    """The fields that the model's file or code has added, one per line: batch size, inputs and outputs, and the scheduler; [] for none."""
    if resolution.draft is None:
        return []
    written, message = resolution.document.message, resolution.draft.message
    tensors = [
        _line(side, spec)
        for side in ("input", "output")
        for spec in getattr(message, side)
        if spec not in getattr(written, side)
    ]
    lines = []
    if message.max_batch_size != written.max_batch_size:
        lines.append(f"max_batch_size: {message.max_batch_size}")
    lines += tensors
    if message.HasField("dynamic_batching") and not written.HasField("dynamic_batching"):
        lines.append("dynamic_batching { }")
    decoupled = message.model_transaction_policy.decoupled
    if decoupled and not written.model_transaction_policy.decoupled:
        lines.append("model_transaction_policy { decoupled: true }")
    return lines


def _line(side: str, spec: Any) -> str:
    """A tensor as people write it; protobuf's own text has each size of dims apart."""
    plain = type(spec)()
    plain.CopyFrom(spec)
    plain.ClearField("dims")
    reshape = plain.HasField("reshape")
    shape = list(plain.reshape.shape)
    plain.ClearField("reshape")
    text = text_format.MessageToString(plain, as_one_line=True)
    text += f" dims: {_list(spec.dims)}"
    if reshape:
        text += f" reshape {{ shape: {_list(shape)} }}"
    return f"{side} {{ {text} }}"


def _list(sizes: Any) -> str:
    return f"[ {', '.join(map(str, sizes))} ]" if sizes else "[ ]"
