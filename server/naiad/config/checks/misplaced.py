"""Model files that are not where they are looked for: what to move or rename, for the problem of a model without version or backend. Pure."""

import collections.abc
import pathlib

from naiad.config.backend_type import BackendType, BackendTypes, Form, ModelFormat

Entries = collections.abc.Collection[str]
"""The names in a folder."""


def without_version(folder: pathlib.Path, files: Entries, backends: BackendTypes) -> str:
    """What to do with a model that has no version; `files` are those in its folder itself."""
    found = _model_file(files, backends)
    if found is None:
        return f"put the model file into {folder / '1'}"
    return f"move {found} into {folder / '1'}: a version is a folder with a number for a name"


def without_backend(
    version: pathlib.Path, listing: Entries, *, named: str, beside: Entries, backends: BackendTypes
) -> str:
    """What to do so that a model has a backend.

    Args:
        version: the folder of its highest version.
        listing: what is in it.
        named: the config's default_model_filename, or "".
        beside: the files in the model's folder itself.
        backends: those that there are.
    """
    found = None if named else _model_file(beside, backends)
    if found is not None:
        return f"move {found} into {version}"
    for backend in _runnable(backends):
        expected = backend.formats[0]
        if not expected.telling_suffix:
            continue
        suffix = pathlib.PurePath(expected.filename).suffix
        if named.endswith(suffix):
            return f'write backend: "{backend.name}"'
        for name in () if named else sorted(listing):
            if name == expected.filename:
                is_folder = expected.form is Form.FOLDER
                found, wanted = ("file", "folder") if is_folder else ("folder", "file")
                return f"{version / name} is a {found}, and a model of {backend.name} is a {wanted} of that name: copy the {wanted} there"
            if name.endswith(suffix):
                return (
                    f'{version} holds {name}: rename it to {expected.filename}, or write backend: "{backend.name}" and '
                    f'default_model_filename: "{name}"'
                )
    supported = _runnable(backends)
    fields = " or ".join(f'backend: "{entry.name}"' for entry in supported)
    files = " or ".join(entry.formats[0].filename for entry in supported)
    return f"write {fields}, or put {files} into the version folder"


def _runnable(backends: BackendTypes) -> list[BackendType]:
    return [entry for entry in backends if entry.supported and entry.formats]


def _formats(backends: BackendTypes) -> list[ModelFormat]:
    return [each for entry in backends for each in entry.formats]


def _model_file(files: Entries, backends: BackendTypes) -> str | None:
    """The file that is most likely the model: one with the name of a model file, else one with the suffix of one."""
    formats = _formats(backends)
    for each in formats:
        if each.filename in files:
            return each.filename
    suffixes = {pathlib.PurePath(each.filename).suffix for each in formats if each.telling_suffix}
    return next((name for name in sorted(files) if pathlib.PurePath(name).suffix in suffixes), None)
