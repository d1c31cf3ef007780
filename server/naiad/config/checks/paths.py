"""Paths in a config: each names a file inside the model's folder. One that leads out of it is refused before anything opens it. Pure.

A config can come with a load request: without this rule a client could have any file of the machine loaded, another model's code among them.
Links in the folder may lead where they like: who writes the repository has made them. Absolute paths that Triton takes by design stay
(`EXECUTION_ENV_PATH`, custom operator libraries). Label files have the reference's own rule (`resolve`).
"""

import collections.abc
import os.path
from typing import Any

from naiad.config.document import FieldPath, dotted
from naiad.config.findings import Findings

_LONGEST_FILE_NAME = 255
"""Bytes; Linux file systems accept no longer names."""

_VERSION, _WARMUP, _INITIAL_STATE = "1", "warmup", "initial_state"
"""The folders below the model's from which paths count (rows 11.28, 11.41); all versions are at the same depth."""


def clear_unusable_paths(message: Any, findings: Findings) -> None:
    """Report and clear the names of files that no file can have, and those that lead out of the model's folder."""
    _clear(message, (), "default_model_filename", findings, below=_VERSION)
    for index, output in enumerate(message.output):
        _clear(output, ("output", index), "label_filename", findings)
    for capability in sorted(message.cc_model_filenames):
        path: FieldPath = ("cc_model_filenames", capability)
        if fault := _fault(message.cc_model_filenames[capability], _VERSION):
            _report(path, message.cc_model_filenames[capability], fault, findings)
            del message.cc_model_filenames[capability]
    for index, sample in enumerate(message.model_warmup):
        for name in sorted(sample.inputs):
            path = ("model_warmup", index, "inputs", name)
            _clear(sample.inputs[name], path, "input_data_file", findings, below=_WARMUP)
    for path, state in _initial_states(message):
        _clear(state, path, "data_file", findings, below=_INITIAL_STATE)


def _initial_states(message: Any) -> collections.abc.Iterator[tuple[FieldPath, Any]]:
    for index, state in enumerate(message.sequence_batching.state):
        for number, initial in enumerate(state.initial_state):
            yield ("sequence_batching", "state", index, "initial_state", number), initial


def _clear(
    holder: Any, path: FieldPath, field: str, findings: Findings, *, below: str = ""
) -> None:
    """Report and clear one field; `below`: the folder of the model's folder that it counts from, "" for one with a rule of its own."""
    name: str = getattr(holder, field)
    fault = _fault(name, below)
    if fault:
        _report((*path, field), name, fault, findings)
        holder.ClearField(field)


def _report(path: FieldPath, name: str, fault: str, findings: Findings) -> None:
    shown = f" '{name}'" if fault == _OUTSIDE else ""
    findings.add(
        path, f"{dotted(path)}{shown} {fault}", "write the name of a file in the model's folder"
    )
    findings.cleared.add(path)


_OUTSIDE = "leads out of the model's folder"


def _fault(name: str, below: str) -> str:
    if "\0" in name:
        return "holds a zero character: no file can have this name"
    if any(len(part.encode("utf-8", "replace")) > _LONGEST_FILE_NAME for part in name.split("/")):
        return f"is longer than {_LONGEST_FILE_NAME} bytes: no file can have this name"
    if below and (
        name.startswith("/") or os.path.normpath(f"{below}/{name}").partition("/")[0] == ".."
    ):
        return _OUTSIDE
    return ""
