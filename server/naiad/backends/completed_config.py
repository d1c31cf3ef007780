"""Takes over what a model's own code made of its config (rows 11.49, 15.27)."""

import collections.abc
from typing import Any

from google.protobuf import json_format

from naiad.core.messages import model_config_pb2
from naiad.errors import invalid

_COMPLETED = ("input", "output", "max_batch_size", "dynamic_batching", "model_transaction_policy")
"""The fields that a backend may set (row 11.49)."""


def adopt(message: Any, result: collections.abc.Mapping[str, Any], *, by: str) -> None:
    """Change a config as the code wants it; anything that code may not set is left out, as in Triton.

    Args:
        message: the config.
        result: the one that the code made, as JSON has it.
        by: names the code, for messages.

    Raises:
        InferenceError: INVALID_ARG: it is not a valid config.
    """
    wanted = {key: result[key] for key in _COMPLETED if key in result}
    parsed = model_config_pb2.ModelConfig()
    try:
        json_format.ParseDict(wanted, parsed)
    except json_format.ParseError as error:
        raise invalid(f"{by} set something other than a model configuration: {error}") from error
    for field in ("input", "output"):
        message.ClearField(field)
        getattr(message, field).extend(getattr(parsed, field))
    message.max_batch_size = parsed.max_batch_size
    if parsed.HasField("dynamic_batching") and message.WhichOneof("scheduling_choice") is None:
        message.dynamic_batching.CopyFrom(parsed.dynamic_batching)
    if parsed.HasField("model_transaction_policy"):
        message.model_transaction_policy.CopyFrom(parsed.model_transaction_policy)
