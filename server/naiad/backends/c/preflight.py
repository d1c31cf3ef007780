"""What loading a model of a C library would refuse, without loading the library: for `naiad check`."""

import collections.abc
import pathlib

from naiad.backends.c import adapter, library
from naiad.config.document import Document
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem, Scope
from naiad.config.refused import problem_of
from naiad.core import elf
from naiad.errors import InferenceError


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
    backend_dir: pathlib.Path | None,
) -> list[Problem]:
    """See `Preflight`."""
    problems: list[Problem] = []
    try:
        library.check_config(config, host)
    except InferenceError as error:
        problems.append(problem_of(error, document))
    checked = set[pathlib.Path]()
    for version in versions:
        path: pathlib.Path | None = None
        try:
            places = library.folders(model_dir, version, backend_dir)
            path = library.find(config.backend, places, config.name)
            if path not in checked:
                checked.add(path)
                library.check_library(path, config.name)
                if library.is_for_triton(path):
                    problems += _adapter_problem(document)
        except InferenceError as error:
            problems.append(problem_of(error, document, path=path))
    return list(dict.fromkeys(problems))


def completes(path: pathlib.Path, *, backend: str, backend_dir: pathlib.Path | None) -> bool:
    """Whether the library of a version may complete a config; see `BackendType.completes_itself`. `path` is its folder, or a file in it."""
    version_dir = path if path.is_dir() else path.parent
    try:
        places = library.folders(version_dir.parent, int(version_dir.name), backend_dir)
        return library.may_complete(library.find(backend, places, ""))
    except (InferenceError, OSError, ValueError, elf.NoLibraryError):
        return False


def _adapter_problem(document: Document) -> list[Problem]:
    try:
        adapter.check()
    except InferenceError as error:
        return [problem_of(error, document, scope=Scope.HERE)]
    return []
