"""The rules for `batch_input` and `batch_output`, which ragged batches need (rows 11.18 to 11.20). Pure."""

from typing import Any

from naiad.config.findings import Findings, did_you_mean
from naiad.core.messages import model_config_pb2


def check_batch_tensors(message: Any, findings: Findings) -> None:
    """Check every one of them."""
    inputs = {spec.name for spec in message.input}
    outputs = {spec.name for spec in message.output}
    for side in ("batch_input", "batch_output"):
        for index, each in enumerate(getattr(message, side)):
            _check(side, index, each, inputs, findings)
    for index, each in enumerate(message.batch_input):
        if each.data_type not in (model_config_pb2.TYPE_INT32, model_config_pb2.TYPE_FP32):
            findings.add(
                ("batch_input", index, "data_type"),
                "batch input data type must be TYPE_INT32 or TYPE_FP32",
                "write the one that the model's input has",
            )
    seen: set[str] = set()
    for index, each in enumerate(message.batch_output):
        for name in each.target_name:
            path = ("batch_output", index, "target_name")
            if name not in outputs:
                findings.add(
                    path,
                    f"unknown target output name '{name}'",
                    did_you_mean(name, outputs) or "add it to the outputs",
                )
            elif name in seen:
                findings.add(
                    path,
                    f"target output name '{name}' can only be specified once",
                    "take one of them out",
                )
            seen.add(name)


def _check(side: str, index: int, each: Any, inputs: set[str], findings: Findings) -> None:
    what = side.replace("_", " ")
    if len(each.source_input) != 1:
        findings.add(
            (side, index, "source_input"),
            f"{what} kind '{each.Kind.Name(each.kind)}' expects 1 source input, got {len(each.source_input)}",
            "name one input",
        )
    for name in each.source_input:
        if name not in inputs:
            findings.add(
                (side, index, "source_input"),
                f"unknown source input name '{name}'",
                did_you_mean(name, inputs) or "name one of the inputs",
            )
    if not each.target_name:
        findings.add(
            (side, index, "target_name"),
            f"{what} has no target_name, so it does nothing",
            "name the tensor of the model, or take it out",
        )
