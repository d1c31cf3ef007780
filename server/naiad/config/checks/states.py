"""The rules for the implicit state of sequences (rows 11.28, 13.21), and the content of the files that new sequences begin with.

Messages begin with the reference's words.
"""

import math
import pathlib
from typing import Any

import numpy as np

from naiad.config.checks.tensors import WILDCARD, shown
from naiad.config.document import FieldPath, dotted
from naiad.config.findings import Findings
from naiad.core import datatypes
from naiad.core.file_kind import special_kind
from naiad.core.messages import model_config_pb2
from naiad.core.tensor import check_packed

_OWN_MEMORY = "the state that a model gives replaces the last one, and may have any size"
INITIAL_STATE_FOLDER = "initial_state"
_INVALID, _STRING = model_config_pb2.TYPE_INVALID, model_config_pb2.TYPE_STRING


def check_states(message: Any, findings: Findings) -> None:
    """Check all but the files."""
    inputs = {spec.name: "an input" for spec in message.input}
    inputs.update((each.name, "a control") for each in message.sequence_batching.control_input)
    outputs: dict[str, int] = {}
    for index, state in enumerate(message.sequence_batching.state):
        path: FieldPath = ("sequence_batching", "state", index)
        _required(state, findings, path)
        for field, name, others in (
            ("input_name", state.input_name, inputs),
            ("output_name", state.output_name, outputs),
        ):
            if name and name in others:
                what = others[name] if field == "input_name" else "the output of another state"
                findings.add(
                    (*path, field),
                    f"State {field.replace('_', ' ')} '{name}' specified more than once: it is {what} of model '{message.name}' as well",
                    "give each state tensors of its own",
                )
        inputs.setdefault(state.input_name, "the input of another state")
        outputs.setdefault(state.output_name, index)
        if state.use_growable_memory and not state.use_same_buffer_for_input_output:
            findings.add(
                (*path, "use_growable_memory"),
                "In order to 'use_growable_memory', you must also enable 'use_single_buffer' for state input name "
                f"'{state.input_name}'.",
                "write use_same_buffer_for_input_output: true, or take use_growable_memory out: a state may have any size without it",
            )
        for field in ("use_same_buffer_for_input_output", "use_growable_memory"):
            if getattr(state, field):
                findings.notes.append(f"{dotted((*path, field))} has no effect: {_OWN_MEMORY}")
        _initial(state, findings, path)
        _returned(message, state, findings, path)


def _required(state: Any, findings: Findings, path: FieldPath) -> None:
    for field, help_text in (
        ("input_name", "name the model's input"),
        ("output_name", "name the model's output"),
    ):
        if not getattr(state, field) and findings.trusted((*path, field)):
            findings.add(path, f"state must specify '{field}'", help_text)
    if state.data_type == _INVALID and findings.trusted((*path, "data_type")):
        types = ", ".join(datatype.config_name for datatype in datatypes.ALL)
        findings.add(path, "state must specify 'data_type'", f"add data_type, one of {types}")
    for index, size in enumerate(state.dims):
        if size < 1 and size != WILDCARD:
            findings.add(
                (*path, "dims", index),
                f"state '{state.input_name}' dimension must be integer >= 1, or -1 to indicate a variable-size dimension; this is {size}",
                "write -1 for any size",
            )


def _initial(state: Any, findings: Findings, path: FieldPath) -> None:
    """At most one initial state, of the state's datatype and of a fixed shape that the state can have."""
    count, name = len(state.initial_state), state.input_name
    if count > 1:
        findings.add(
            (*path, "initial_state", 1),
            f"initial_state field for state input '{name}' must contain exactly one or zero element. Found '{count}' elements.",
            "keep one of them",
        )
    if not count:
        return
    initial, at = state.initial_state[0], (*path, "initial_state", 0)
    if initial.data_type != state.data_type and findings.trusted((*at, "data_type")):
        findings.add(
            (*at, "data_type"),
            f"The data type used for 'initial_state' field of state '{name}' does not match the state data type.",
            f"write data_type: {model_config_pb2.DataType.Name(state.data_type)}",
        )
    if not initial.name and findings.trusted((*at, "name")):
        findings.add(
            at,
            f"Field 'name' must be set when using initial_state for state input '{name}'.",
            f'add name: "{name}"',
        )
    if initial.WhichOneof("state_data") is None and findings.trusted((*at, "data_file")):
        findings.add(
            at,
            f"initial_state setting expects state'{name}' to have state_data set",
            "write zero_data: true, or data_file with the name of a file in the model's folder initial_state",
        )
    if findings.trusted((*at, "dims")):
        _initial_dims(state, findings, (*at, "dims"))


def _initial_dims(state: Any, findings: Findings, field: FieldPath) -> None:
    name = state.input_name
    ours, theirs = list(state.initial_state[0].dims), list(state.dims)
    if len(ours) != len(theirs):
        findings.add(
            field,
            f"Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input '{name}'. "
            f"{len(ours)} != {len(theirs)}",
            "write as many dims as the state has",
        )
        return
    if any(size < 1 for size in ours):
        findings.add(
            field,
            f"'initial_state' field for state input name '{name}' contains variable dimensions.",
            "write the size of each dimension",
        )
        return
    for size, of_state in zip(ours, theirs, strict=True):
        if of_state not in (WILDCARD, size):
            findings.add(
                field,
                f"'initial_state' dim for input name '{name}' doesn't match 'state' dim description. {size} != {of_state}",
                f"write dims: {shown(theirs)}, with a size in place of each -1",
            )


def _returned(message: Any, state: Any, findings: Findings, path: FieldPath) -> None:
    """An output that is a state as well is the same tensor in both places."""
    for output in message.output:
        if output.name != state.output_name or _INVALID in (output.data_type, state.data_type):
            continue
        if output.data_type != state.data_type:
            findings.add(
                (*path, "data_type"),
                f"state output '{output.name}' of model '{message.name}' is {model_config_pb2.DataType.Name(state.data_type)}, and the output "
                f"of that name is {model_config_pb2.DataType.Name(output.data_type)}",
                "write the same data_type in both",
            )
        if output.HasField("reshape") and list(output.reshape.shape) != list(output.dims):
            findings.add(
                (*path, "output_name"),
                f"output '{output.name}' of model '{message.name}' has a reshape and is a state as well: the model would be given another shape "
                "than it gives",
                "take reshape out, or give the state an output of its own",
            )


def read_initial_states(
    message: Any, findings: Findings, model_dir: pathlib.Path
) -> dict[str, bytes]:
    """The content of the initial states that are in files, by the name of the input. Blocks; a file that cannot be used is a problem."""
    contents: dict[str, bytes] = {}
    for index, state in enumerate(message.sequence_batching.state):
        if not state.initial_state or not state.initial_state[0].data_file:
            continue
        path: FieldPath = ("sequence_batching", "state", index, "initial_state", 0, "data_file")
        content = _content(state, findings, path, model_dir)
        if content is not None:
            contents[state.input_name] = content
    return contents


def _content(
    state: Any, findings: Findings, path: FieldPath, model_dir: pathlib.Path
) -> bytes | None:
    initial = state.initial_state[0]
    file = model_dir / INITIAL_STATE_FOLDER / initial.data_file
    text, help_text = f"failed to open text file for read {file}: ", "put the file there"
    count = math.prod(initial.dims)
    is_text = initial.data_type == _STRING
    size = -1
    if not is_text and initial.data_type != _INVALID:
        name = model_config_pb2.DataType.Name(initial.data_type)
        size = count * datatypes.BY_CONFIG_NAME[name].dtype.itemsize
    try:
        if kind := special_kind(file):
            findings.add(path, f"{text}it is {kind}", help_text)
            return None
        with file.open("rb") as opened:
            content: bytes = opened.read(size)
    except OSError as error:
        findings.add(path, text + (error.strerror or str(error)), help_text)
        return None
    if size > len(content):
        findings.add(
            path,
            f"initial_state setting expects {size} bytes, but the data provided from {initial.data_file} only has {len(content)} bytes.",
            f"write {count} values of {name}, each in {size // count} bytes",
        )
        return None
    if is_text:
        try:
            check_packed(np.frombuffer(content, np.uint8), count)
        except ValueError as error:
            findings.add(
                path,
                f"initial_state setting expects {count} strings, but the data provided from {initial.data_file} has others: {error}",
                "write each string behind its length in 4 little-endian bytes",
            )
            return None
    return content
