"""The label files of a model's outputs, which name its classes (rows 5.4, 11.17): read with the config, one label per line."""

import collections.abc
import errno
import pathlib
import types
from typing import Any

from naiad.config.findings import Findings
from naiad.core.file_kind import is_file, why_no_file

Labels = collections.abc.Mapping[str, tuple[bytes, ...]]
"""By the name of an output: the label of each class; b"" for a class without one."""

NO_LABELS: Labels = types.MappingProxyType({})


def read_labels(message: Any, findings: Findings, model_dir: pathlib.Path) -> Labels:
    """The labels of each output that names a file. A file outside the model's folder, or one that cannot be read, is a problem."""
    folder = model_dir.resolve()
    labels: dict[str, tuple[bytes, ...]] = {}
    for index, output in enumerate(message.output):
        if not output.label_filename:
            continue
        path = model_dir / output.label_filename
        field = ("output", index, "label_filename")
        if not _is_inside(path, folder):
            findings.add(
                field,
                f"label file path '{path}' for output '{output.name}' in model "
                f"'{message.name}' is outside model directory",
                "copy the file into the model's folder and write its name",
            )
            continue
        try:
            if not is_file(path):
                raise FileNotFoundError(errno.ENOENT, why_no_file(path))
            labels[output.name] = split(path.read_bytes())
            if other := _first_other(labels[output.name]):
                findings.warnings.append(
                    f"label file {path}, line {other}: the label is not UTF-8: a JSON response with it is sent as it is, as in Triton, and is not valid JSON: save the file as UTF-8"
                )
        except OSError as error:
            findings.add(
                field,
                f"failed to open text file for read {path}: {error.strerror}",
                "put the file there, or take label_filename out"
                if isinstance(error, FileNotFoundError)
                else "let the server read it, or take label_filename out",
            )
    return labels


def split(text: bytes) -> tuple[bytes, ...]:
    """The lines of a label file; nothing is cut off them, as in the reference."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return tuple(lines)


def _first_other(labels: collections.abc.Sequence[bytes]) -> int:
    """The line of the first label that is not UTF-8; 0 for none."""
    for line, label in enumerate(labels, 1):
        try:
            label.decode()
        except UnicodeDecodeError:
            return line
    return 0


def inherited(
    outputs: collections.abc.Iterable[str],
    own: Labels,
    steps: collections.abc.Iterable[tuple[collections.abc.Mapping[str, str], Labels]],
) -> Labels:
    """The labels of an ensemble's outputs: its own, else those of the model whose step writes the output.

    Args:
        outputs: the names of its outputs.
        own: of its own label files.
        steps: for each step the ensemble's tensor of each output of the model, and the model's labels.
    """
    labels = dict(own)
    missing = set(outputs) - labels.keys()
    for tensors, of_model in steps:
        for name, tensor in tensors.items():
            if tensor in missing and name in of_model:
                labels[tensor] = of_model[name]
    return labels


def _is_inside(path: pathlib.Path, folder: pathlib.Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder)
    except (OSError, RuntimeError):  # a link to itself
        return True
