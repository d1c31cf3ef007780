"""Files that a config names: whether they are there, and are files (rows 11.6, 11.7). Looks at them and opens none."""

import collections.abc
import glob
import pathlib
import re
from typing import Any

from naiad.config.backend_type import BackendType
from naiad.config.document import Document
from naiad.config.findings import Findings
from naiad.config.problem import Problem
from naiad.core.file_kind import exists, special_kind

_CAPABILITY = re.compile(r"\d+\.\d+")

_NAMING_THE_FILE = ("default_model_filename", "backend", "platform")
"""Fields from which a model file's name follows."""


def special_file(path: pathlib.Path, model: str) -> Problem | None:
    """The problem of a pipe, a socket or a device in place of the model file, which must not be opened, or of one that cannot be looked at."""
    try:
        kind = special_kind(path)
    except OSError as error:
        text = f"unable to load model '{model}': unable to read '{path}': {error.strerror}"
        return Problem(path=path, position=None, message=text)
    if not kind:
        return None
    text = f"unable to load model '{model}': '{path}' is {kind}, and not a file"
    return Problem(path=path, position=None, message=text, suggestion="put the model file there")


def missing_file(
    path: pathlib.Path, message: Any, document: Document, backend: BackendType | None
) -> Problem | None:
    """The problem of a missing model file, with the file that may have been meant; None when it exists."""
    template = backend.missing_file if backend is not None else ""
    if not template or exists(path) or files_per_gpu(path.parent, message):
        return None
    alike = sorted(entry.name for entry in path.parent.glob(f"*{glob.escape(path.suffix)}"))
    written = (field for field in _NAMING_THE_FILE if (field,) in document.positions)
    return document.problem(
        (next(written, "default_model_filename"),),
        template.format(path=path, model=message.name),
        f'write default_model_filename: "{alike[0]}", or rename that file'
        if alike
        else f"put it there: {path.parent} has {_names(path.parent)}",
    )


def files_per_gpu(folder: pathlib.Path, message: Any) -> list[pathlib.Path]:
    """The files of a version that `cc_model_filenames` names, those that are there, each once."""
    named = message.cc_model_filenames
    paths = dict.fromkeys(folder / named[capability] for capability in sorted(named))
    return [path for path in paths if exists(path)]


def warn_of_files_per_gpu(
    message: Any,
    findings: Findings,
    model_dir: pathlib.Path,
    versions: collections.abc.Iterable[int],
) -> None:
    """Warn of what no GPU, or no GPU of some compute capability, could load: a key that is not one, and files that are not there."""
    for capability in sorted(message.cc_model_filenames):
        name = message.cc_model_filenames[capability]
        if not _CAPABILITY.fullmatch(capability):
            findings.warnings.append(
                f"cc_model_filenames: '{capability}' is not a compute capability such as 8.6, so that no GPU loads '{name}'"
            )
            continue
        findings.warnings.extend(
            f"cc_model_filenames: '{model_dir / str(version) / name}' is not there, so that no GPU of compute capability {capability} can load version "
            f"{version}"
            for version in versions
            if not exists(model_dir / str(version) / name)
        )


def _names(folder: pathlib.Path) -> str:
    """The first few entries of a folder, for a message."""
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    most = 5
    return (", ".join(names[:most]) + (" …" if len(names) > most else "")) or "nothing in it"
