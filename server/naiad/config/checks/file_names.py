"""Names of files in a config that no file can have: refused at their line, before anything looks for such a file. Pure."""

from typing import Any

from naiad.config.findings import Findings

_LONGEST = 255
"""Bytes of a name; Linux file systems take no longer ones."""


def refuse_unusable(message: Any, findings: Findings) -> None:
    """Report and clear names that hold a zero character or are too long."""
    _look_at(message, (), "default_model_filename", findings)
    for index, output in enumerate(message.output):
        _look_at(output, ("output", index), "label_filename", findings)


def _look_at(holder: Any, place: tuple[str | int, ...], field: str, findings: Findings) -> None:
    name: str = getattr(holder, field)
    if "\0" in name:
        fault = "holds a zero character"
    elif any(len(part.encode("utf-8", "replace")) > _LONGEST for part in name.split("/")):
        fault = f"is longer than {_LONGEST} bytes"
    else:
        return
    findings.add(
        (*place, field),
        f"{field} {fault}: no file can have this name",
        "write the name of a file in the model's folder",
    )
    holder.ClearField(field)
