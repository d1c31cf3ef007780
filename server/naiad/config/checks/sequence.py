"""The rules for the sequence batcher of a config (rows 11.26, 11.27), in the reference's words. Pure."""

import collections.abc
from typing import Any

from naiad.config.document import FieldPath
from naiad.config.findings import Findings
from naiad.core.messages import model_config_pb2

_Control = model_config_pb2.ModelSequenceBatching.Control
_PAIRS = ("int32_false_true", "fp32_false_true", "bool_false_true")
_PAIR = 2
_CORRELATION_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")


def check_sequence_batching(message: Any, findings: Findings) -> None:
    """Check the sequence batcher, if the config has one."""
    if not message.HasField("sequence_batching"):
        return
    _check_controls(message, findings)
    _check_direct(message, findings)
    _check_oldest(message, findings)


def _controls(message: Any) -> collections.abc.Iterator[tuple[FieldPath, str, Any]]:
    """Each control: its path, the name of its tensor, and the control."""
    for index, control_input in enumerate(message.sequence_batching.control_input):
        for number, control in enumerate(control_input.control):
            path = ("sequence_batching", "control_input", index, "control", number)
            yield path, control_input.name, control


def _check_controls(message: Any, findings: Findings) -> None:
    names = set[str]()
    inputs = {spec.name for spec in message.input}
    for index, control_input in enumerate(message.sequence_batching.control_input):
        path: FieldPath = ("sequence_batching", "control_input", index, "name")
        if not control_input.name and findings.trusted(path):
            findings.add(
                path,
                f"sequence batching control tensor must have a name for {message.name}",
                "add name, that of an input of the model",
            )
        elif control_input.name in names:
            findings.add(
                path,
                f"sequence batching control tensor '{control_input.name}' is specified for multiple control kinds for {message.name}",
                "write each name once",
            )
        elif control_input.name in inputs:
            findings.warnings.append(
                f"sequence batching control tensor '{control_input.name}' is an input as well: its value takes the place of what clients send, who have to "
                "send it all the same; take the input out"
            )
        names.add(control_input.name)
    kinds = set[int]()
    for path, _, control in _controls(message):
        kind = _Control.Kind.Name(control.kind)
        if control.kind in kinds:
            findings.add(
                path,
                f"sequence batching specifies multiple {kind} tensors for {message.name}",
                "leave one of them",
            )
        kinds.add(control.kind)
        if control.kind == _Control.CONTROL_SEQUENCE_CORRID:
            _check_correlation_id(message, findings, path, control)
        else:
            _check_values(message, findings, path, control)


def _check_correlation_id(message: Any, findings: Findings, path: FieldPath, control: Any) -> None:
    kind = _Control.Kind.Name(control.kind)
    if any(getattr(control, field) for field in _PAIRS):
        findings.add(
            path,
            "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' "
            f"for {kind} for {message.name}",
            "write data_type in place of the values: the control's value is the correlation ID",
        )
    at = (*path, "data_type")
    if model_config_pb2.DataType.Name(
        control.data_type
    ) not in _CORRELATION_TYPES and findings.trusted(at):
        findings.add(
            at,
            f"unexpected data type for control {kind} for {message.name}. Allowed data types are TYPE_UINT64, TYPE_INT64, "
            "TYPE_UINT32, TYPE_INT32 and TYPE_STRING",
            "write data_type: TYPE_UINT64, or TYPE_STRING for ids that are strings",
        )


def _check_values(message: Any, findings: Findings, path: FieldPath, control: Any) -> None:
    """One pair of values, for false and true."""
    if not all(findings.trusted((*path, field)) for field in _PAIRS):
        return
    about = f"for {_Control.Kind.Name(control.kind)} for {message.name}"
    written = [field for field in _PAIRS if getattr(control, field)]
    if not written:
        findings.add(
            path,
            f"sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' {about}",
            "add int32_false_true: [ 0, 1 ], or a pair of the datatype that the model expects",
        )
    elif len(written) > 1:
        findings.add(
            path,
            f"sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' {about}",
            "leave the pair of the datatype that the model expects",
        )
    elif len(getattr(control, written[0])) != _PAIR:
        findings.add(
            (*path, written[0]),
            f"sequence batching control '{written[0]}' must have exactly 2 entries {about}",
            f"write {written[0]}: [ false, true ]"
            if written[0].startswith("bool")
            else f"write {written[0]}: [ 0, 1 ]",
        )


def _check_direct(message: Any, findings: Findings) -> None:
    sequences = message.sequence_batching
    if not sequences.HasField("direct"):
        return
    utilization = sequences.direct.minimum_slot_utilization
    if not 0 <= utilization <= 1:
        findings.add(
            ("sequence_batching", "direct", "minimum_slot_utilization"),
            f"sequence batching minimum slot utilization must be in range (0.0, 1.0] for {message.name}; this is {utilization:g}",
            "write the part of the slots that a batch waits for: 0.5 is half of them",
        )


def _check_oldest(message: Any, findings: Findings) -> None:
    sequences = message.sequence_batching
    if not sequences.HasField("oldest"):
        return
    limit, limit_known = message.max_batch_size, findings.trusted(("max_batch_size",))
    for index, size in enumerate(sequences.oldest.preferred_batch_size):
        path = ("sequence_batching", "oldest", "preferred_batch_size", index)
        if size <= 0:
            findings.add(
                path,
                f"sequence batching preferred batch size must be positive for {message.name}; this is {size}",
                "take it out",
            )
        elif size > limit and limit_known:
            findings.add(
                path,
                f"sequence batching preferred batch size must be <= max batch size for {message.name}; "
                f"this is {size}, max_batch_size is {limit}",
                f"write max_batch_size: {size}, or a preferred size up to {limit}"
                if limit
                else f"write max_batch_size: {size}: without it the model has no batches",
            )
