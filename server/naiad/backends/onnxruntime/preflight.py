"""What `naiad check` finds in an ONNX model beyond its config and graph: settings that no session could take. Makes no session."""

import collections.abc
import pathlib

from naiad.backends.instances import instance_specs
from naiad.backends.onnxruntime.plan import plan_session
from naiad.config.document import Document, FieldPath
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.errors import InferenceError


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
) -> list[Problem]:
    """See `Preflight`: the session of each instance is planned."""
    messages: dict[str, None] = {}
    for spec in instance_specs(config):
        try:
            plan_session(config, options, kind=spec.kind, device_id=spec.device_id)
        except InferenceError as error:
            messages[error.message] = None
    return [document.problem(_field_named(config, message), message) for message in messages]


def _field_named(config: ModelConfig, message: str) -> FieldPath:
    """The field that a message about a session quotes: one of the model's parameters, or an accelerator's."""
    for key in config.parameters:
        if f"'{key}'" in message or f"{key} " in message:
            return ("parameters", key)
    return ("optimization", "execution_accelerators")
