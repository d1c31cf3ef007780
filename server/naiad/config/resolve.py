"""From a model's folder to its configuration: read, name, complete, normalise, check (section 11).

All steps of reading a config, in their order. It reads the file system and calls the backend's completion; the rules are in the
modules that it calls. An invalid config raises nothing: everything wrong is a `Problem` at its line.
"""

import collections.abc
import glob
import pathlib
import types
from typing import Any

import msgspec

from naiad.config import platforms, versions
from naiad.config.backend_type import BackendType, BackendTypes, Completer, CompletionError
from naiad.config.checks.no_effect import note_what_has_no_effect
from naiad.config.checks.unsupported import CUSTOM_BATCHING_LIBRARY, find_unsupported
from naiad.config.checks.validate import (
    check_backend_is_supported,
    check_name,
    clear_unusable_file_names,
    validate,
)
from naiad.config.document import Document
from naiad.config.findings import Findings, in_order
from naiad.config.model_config import ModelConfig
from naiad.config.normalise import normalise, normalise_instance_groups
from naiad.config.pbtxt import parser as pbtxt
from naiad.config.problem import Problem
from naiad.config.typed import typed
from naiad.errors import InferenceError

CONFIG_FILE = "config.pbtxt"
CONFIG_FOLDER = "configs"

_NAMING_THE_FILE = ("default_model_filename", "backend", "platform")
"""Fields from which a model file's name follows."""

_NO_OPTIONS: collections.abc.Mapping[str, collections.abc.Mapping[str, str]] = (
    types.MappingProxyType({})
)


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """The result of resolving a model's folder.

    Attributes:
        config: None when there are problems.
        document: the config file as it was read; empty when there is none.
        problems: in the order of the file.
        versions: those present that the policy serves, ascending.
        warnings: problems that do not stop the model.
        notes: the fields that have no effect here.
    """

    config: ModelConfig | None
    document: Document
    problems: tuple[Problem, ...]
    versions: tuple[int, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()


def config_file(model_dir: pathlib.Path, config_name: str) -> pathlib.Path:
    """`configs/<NAME>.pbtxt` where it is there, else `config.pbtxt` (row 7.34)."""
    custom = model_dir / CONFIG_FOLDER / f"{config_name}.pbtxt"
    return custom if config_name and custom.is_file() else model_dir / CONFIG_FILE


def resolve(
    model_dir: pathlib.Path,
    *,
    backends: BackendTypes,
    config_name: str = "",
    auto_complete: bool = True,
    gpus: collections.abc.Sequence[int] = (),
    complete: collections.abc.Callable[[str], Completer | None] | None = None,
    backend_options: collections.abc.Mapping[str, collections.abc.Mapping[str, str]] = _NO_OPTIONS,
    document: Document | None = None,
) -> Resolution:
    """Read a model's configuration. May block: it reads files and runs the backend's completion.

    Args:
        model_dir: the model's folder; its name is the model's.
        backends: the backends that there are; a model of another is refused at its line (row 11.53).
        config_name: `--model-config-name` (row 7.34).
        auto_complete: whether the backend may complete the config, and the file may be missing (row 11.48). The
            backend is found by the files present either way, as the real server does (2.51 and newer; the row has it
            otherwise).
        gpus: the device ids of this machine.
        complete: gives a backend's completion by the backend's name, None for none; by default the one that needs no
            framework.
        backend_options: `--backend-config` by backend name, "" for all.
        document: a config in place of the model's own.
    """
    if document is None:
        document = pbtxt.read(config_file(model_dir, config_name))
    return _Resolving(
        model_dir=model_dir,
        document=document,
        auto_complete=auto_complete,
        gpus=gpus,
        complete=complete,
        backend_options=backend_options,
        backends=backends,
    ).run()


class _Resolving:
    """The state of one `resolve`: the message in progress, and the findings."""

    def __init__(
        self,
        *,
        model_dir: pathlib.Path,
        document: Document,
        auto_complete: bool,
        gpus: collections.abc.Sequence[int],
        complete: collections.abc.Callable[[str], Completer | None] | None,
        backend_options: collections.abc.Mapping[str, collections.abc.Mapping[str, str]],
        backends: BackendTypes,
    ) -> None:
        self._model_dir = model_dir
        self._document = document
        self._auto_complete = auto_complete
        self._gpus = gpus
        self._complete = complete
        self._backend_options = backend_options
        self._backends = backends
        located = (
            document
            if document.path.is_file()
            else msgspec.structs.replace(document, path=model_dir)
        )
        self._findings = Findings(located)
        self._message: Any = document.message
        self._backend: BackendType | None = None
        self._present: tuple[int, ...] = ()
        self._versions: tuple[int, ...] = ()

    def run(self) -> Resolution:
        """Run every step."""
        self._message = type(self._document.message)()
        self._message.CopyFrom(self._document.message)
        if not self._auto_complete and not self._document.path.is_file():
            self._findings.add(
                (),
                f"failed to open text file for read {self._document.path}: No such file or directory",
                "write it, or start without --disable-auto-complete-config",
            )
        check_name(self._message, self._findings, self._model_dir.name)
        self._message.name = self._model_dir.name
        clear_unusable_file_names(self._message, self._findings)
        self._find_versions()
        platforms.autofill(self._message, self._listing(), self._backends)
        self._backend = (
            self._backends.find(self._message.backend) if self._message.backend else None
        )
        if self._backend is not None and not self._message.runtime:
            self._message.runtime = self._backend.runtime
        find_unsupported(self._message, self._findings, gpus=self._gpus, backend=self._backend)
        note_what_has_no_effect(self._message, self._findings)
        self._find_custom_batching()
        normalise(self._message)
        self._serve_versions()
        normalise_instance_groups(self._message, self._gpus, self._backend)
        self._complete_and_compare()
        normalise(self._message)
        check_backend_is_supported(self._message, self._findings, self._backends)
        validate(self._message, self._findings, gpus=self._gpus, backends=self._backends)
        self._check_labels()
        problems = in_order([*self._document.problems, *self._findings.problems])
        return Resolution(
            config=None if problems else typed(self._message),
            document=self._document,
            problems=problems,
            versions=self._versions,
            warnings=tuple(self._findings.warnings),
            notes=tuple(dict.fromkeys(self._findings.notes)),
        )

    def _find_versions(self) -> None:
        folders = [name for name, is_folder in self._entries(self._model_dir).items() if is_folder]
        self._present, warnings = versions.present(folders)
        self._findings.warnings.extend(warnings)

    def _serve_versions(self) -> None:
        """Find the versions to serve (row 7.40)."""
        name = self._message.name
        self._versions, absent = versions.served(self._message.version_policy, self._present)
        self._findings.warnings.extend(
            f"version {version} is specified for model '{name}', but the version directory is not present"
            for version in absent
        )
        if not self._versions and self._findings.trusted(("version_policy",)):
            present = ", ".join(map(str, self._present)) or "none"
            self._findings.add(
                ("version_policy",),
                "at least one version must be available under the version policy of model "
                f"'{name}'; versions present: {present}",
                "write a version_policy that names one of them"
                if self._present
                else f"put the model file into {self._model_dir / '1'}",
            )

    def _listing(self) -> dict[str, bool]:
        """The entries of the highest version's folder."""
        return self._entries(self._model_dir / str(self._present[-1])) if self._present else {}

    def _entries(self, folder: pathlib.Path) -> dict[str, bool]:
        """The entries of a folder, by name: whether it is a folder. A folder that cannot be read is a problem."""
        try:
            return {entry.name: entry.is_dir() for entry in folder.iterdir()}
        except OSError as error:
            text = f"unable to read '{folder}': {error.strerror}"
            self._findings.problems.append(Problem(path=folder, position=None, message=text))
            return {}

    def _find_custom_batching(self) -> None:
        """Refuse a custom batching library in the model's or a version's folder (row 12.18)."""
        for folder in (self._model_dir, *(self._model_dir / str(n) for n in self._present)):
            library = folder / CUSTOM_BATCHING_LIBRARY
            if library.exists():
                self._findings.problems.append(
                    Problem(
                        path=library,
                        position=None,
                        message=f"{CUSTOM_BATCHING_LIBRARY} is not supported yet: custom batching",
                        suggestion="take the file away to batch by the config's own rules",
                    )
                )

    def _options(self, backend: str) -> dict[str, str]:
        """A backend's settings, those for all backends included."""
        try:
            own = self._backend_options[backend]
        except KeyError:
            own = {}
        return {**self._backend_options.get("", {}), **own}

    def _complete_and_compare(self) -> None:
        """Complete from the highest version that can be read; hold every served version against the result.

        A version that disagrees fails alone, as in Triton, when it is loaded; only when all do is there no model.
        """
        if not self._versions or not self._message.backend:
            return
        failures = {
            version: [problem]
            for version in self._versions
            if (problem := self._missing_file(version)) is not None
        }
        if self._auto_complete and not self._document.problems:
            self._run_completion(failures)
        check = self._backend.check if self._backend is not None else None
        if check is not None:
            for version in self._versions:
                findings = Findings(self._findings.document)
                if version not in failures:
                    check(self._message, self._model_file(version), findings)
                if findings.problems:
                    failures[version] = findings.problems
        everything = [problem for problems in failures.values() for problem in problems]
        if len(failures) == len(self._versions):
            self._findings.problems.extend(everything)
        else:
            self._findings.warnings.extend(
                f"version {version} will not load: {problem.message}"
                for version, problems in sorted(failures.items())
                for problem in problems
            )

    def _run_completion(self, failures: dict[int, list[Problem]]) -> None:
        complete: Completer | None
        if self._complete is not None:
            complete = self._complete(self._message.backend)
        else:
            complete = self._backend.complete if self._backend is not None else None
        if complete is None:
            return
        for version in reversed(self._versions):
            if version in failures:
                continue
            attempt = type(self._message)()
            attempt.CopyFrom(self._message)
            try:
                complete(
                    attempt,
                    model_dir=self._model_dir,
                    version_dir=self._model_dir / str(version),
                    options=self._options(self._message.backend),
                )
            except InferenceError as error:
                failures[version] = [self._completion_problem(error, version)]
            else:
                if attempt.max_batch_size != self._message.max_batch_size:
                    self._findings.warnings.append(
                        f"autofilled max_batch_size to {attempt.max_batch_size} for model "
                        f"'{attempt.name}'; write max_batch_size to choose another"
                    )
                self._message = attempt
                return

    def _completion_problem(self, error: InferenceError, version: int) -> Problem:
        if not isinstance(error, CompletionError):
            return Problem(path=self._model_file(version), position=None, message=error.message)
        if error.field:
            return self._findings.document.problem(error.field, error.plain, error.suggestion)
        return Problem(
            path=self._model_file(version),
            position=None,
            message=error.plain,
            suggestion=error.suggestion,
        )

    def _model_file(self, version: int) -> pathlib.Path:
        folder = self._model_dir / str(version)
        filename = self._message.default_model_filename
        return self._backend.model_file(folder, filename) if self._backend else folder / filename

    def _missing_file(self, version: int) -> Problem | None:
        """The problem of a missing model file, with the file that may have been meant; None when it exists."""
        template = self._backend.missing_file if self._backend is not None else ""
        path = self._model_file(version)
        if not template or self._message.cc_model_filenames or path.exists():
            return None
        alike = sorted(entry.name for entry in path.parent.glob(f"*{glob.escape(path.suffix)}"))
        text = template.format(path=path, model=self._message.name)
        document = self._findings.document
        written = (field for field in _NAMING_THE_FILE if (field,) in document.positions)
        return document.problem(
            (next(written, "default_model_filename"),),
            text,
            f'write default_model_filename: "{alike[0]}", or rename that file'
            if alike
            else f"put it there: {path.parent} has {_names(path.parent)}",
        )

    def _check_labels(self) -> None:
        """Label files are inside the model's folder and can be read (row 11.17)."""
        folder = self._model_dir.resolve()
        for index, output in enumerate(self._message.output):
            if not output.label_filename:
                continue
            path = self._model_dir / output.label_filename
            field = ("output", index, "label_filename")
            if not path.resolve().is_relative_to(folder):
                self._findings.add(
                    field,
                    f"label file path '{path}' for output '{output.name}' in model "
                    f"'{self._message.name}' is outside model directory",
                    "copy the file into the model's folder and write its name",
                )
            elif not path.is_file():
                self._findings.add(
                    field,
                    f"failed to open text file for read {path}: No such file or directory",
                    "put the file there, or take label_filename out",
                )


def _names(folder: pathlib.Path) -> str:
    """The first few entries of a folder, for a message."""
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    most = 5
    return (", ".join(names[:most]) + (" …" if len(names) > most else "")) or "nothing in it"
