"""From a model's folder to its configuration: read, name, complete, normalise, check (section 11).

All steps of reading a config, in their order. It reads the file system and calls the backend's completion; the rules are in the
modules that it calls. An invalid config raises nothing: everything wrong is a `Problem` at its line.
"""

import collections.abc
import pathlib
import types
from typing import Any

import msgspec

from naiad.config.backend_type import BackendType, BackendTypes, Completer
from naiad.config.checks import misplaced
from naiad.config.checks.batch_strategy import batch_strategies
from naiad.config.checks.features import (
    ServerFeatures,
    find_unsupported,
    note_what_has_no_effect,
)
from naiad.config.checks.model_files import (
    warn_of_files_per_gpu,
)
from naiad.config.checks.optimization import note_optimization
from naiad.config.checks.paths import clear_unusable_paths
from naiad.config.checks.states import read_initial_states
from naiad.config.checks.validate import check_backend_is_supported, check_name, validate
from naiad.config.checks.warmup import check_warmup
from naiad.config.document import Document
from naiad.config.findings import Findings, in_order
from naiad.config.gpu_fallback import fall_back_to_cpu
from naiad.config.labels import read_labels
from naiad.config.model_config import ModelConfig
from naiad.config.pbtxt import parser as pbtxt
from naiad.config.problem import Problem
from naiad.config.resolving import versions
from naiad.config.resolving.completion import Completion, without_open_tensors
from naiad.config.resolving.normalise import autofill, normalise, normalise_instance_groups
from naiad.config.typed import is_typed, typed
from naiad.core.file_kind import exists, is_file

CONFIG_FILE = "config.pbtxt"
CONFIG_FOLDER = "configs"

NO_VERSION = "at least one version must be available under the version policy"
"""Begins the problem of a model without a version to serve (row 7.40)."""

_NO_OPTIONS: collections.abc.Mapping[str, collections.abc.Mapping[str, str]] = (
    types.MappingProxyType({})
)


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """The result of resolving a model's folder: its config, or problems in the order of the file; and the versions to serve, ascending.

    Attributes:
        draft: the config as completed, also when it has problems; None if there are fields that it cannot do without.
        document: the config file as it was read; empty when there is none.
        faults: why single versions would fail to load, while others would not.
        warnings: problems that do not stop the model.
        notes: the fields that have no effect here.
        remark: one of the warnings, that the index of the repository shows as well; "" for none.
        strategies: the files of batching strategies, by version.
    """

    config: ModelConfig | None
    draft: ModelConfig | None
    document: Document
    problems: tuple[Problem, ...]
    versions: tuple[int, ...]
    faults: tuple[Problem, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    remark: str = ""
    strategies: collections.abc.Mapping[int, pathlib.Path] = types.MappingProxyType({})


def config_file(model_dir: pathlib.Path, config_name: str) -> pathlib.Path:
    """`configs/<NAME>.pbtxt` where it is there, else `config.pbtxt` (row 7.34)."""
    custom = model_dir / CONFIG_FOLDER / f"{config_name}.pbtxt"
    return custom if config_name and exists(custom) else model_dir / CONFIG_FILE


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
    features: ServerFeatures = ServerFeatures(),  # noqa: B008 - it is immutable
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
        features: what the server's options switch on.
    """
    if document is None:
        document = pbtxt.read(config_file(model_dir, config_name))
    # A problem without a position names the model's folder where there is no config file.
    named = is_file(document.path) or not document.is_file
    path = document.path if named else model_dir
    message = type(document.message)()
    message.CopyFrom(document.message)
    return _Resolving(
        model_dir=model_dir,
        document=document,
        auto_complete=auto_complete,
        gpus=gpus,
        complete=complete,
        backend_options=backend_options,
        backends=backends,
        features=features,
        findings=Findings(msgspec.structs.replace(document, path=path)),
        message=message,
    ).run()


class _Resolving(msgspec.Struct, kw_only=True, eq=False):
    """The state of one `resolve`: its arguments, the findings, the message in progress, and what was found of the model."""

    model_dir: pathlib.Path
    document: Document
    auto_complete: bool
    gpus: collections.abc.Sequence[int]
    complete: collections.abc.Callable[[str], Completer | None] | None
    backend_options: collections.abc.Mapping[str, collections.abc.Mapping[str, str]]
    backends: BackendTypes
    features: ServerFeatures
    findings: Findings
    message: Any
    backend: BackendType | None = None
    present: tuple[int, ...] = ()
    versions: tuple[int, ...] = ()
    remark: str = ""
    completes_later: bool = False
    """Only loading the model completes the config, so that what it says of the model is not known yet."""

    def run(self) -> Resolution:
        """Run every step."""
        self.findings.warnings.extend(self.document.warnings)
        absent = self.document.is_file and not exists(self.document.path)
        if absent and not self.auto_complete:
            self.findings.add(
                (),
                f"failed to open text file for read {self.document.path}: No such file or directory",
                "write it, or start without --disable-auto-complete-config",
            )
        check_name(self.message, self.findings, self.model_dir.name)
        self.message.name = self.model_dir.name
        clear_unusable_paths(self.message, self.findings)
        names_no_file = bool(self.document.message.default_model_filename) and not (
            self.message.default_model_filename
        )
        self._find_versions()
        autofill(self.message, self._listing(), self.backends)
        self.backend = self.backends.find(self.message.backend) if self.message.backend else None
        if self.backend is not None and not self.message.runtime:
            self.message.runtime = self.backend.runtime
        never = self.backend is not None and bool(self.backend.no_gpu)
        falls_back = self.features.gpu_fallback and (never or not self.gpus)
        if falls_back:
            self.remark = fall_back_to_cpu(self.message, self.findings, self.backend)
        find_unsupported(self.message, self.findings, gpus=self.gpus, backend=self.backend)
        note_what_has_no_effect(self.message, self.findings, self.features, self.backend)
        note_optimization(
            self.message,
            self.findings,
            backend=self.backend,
            gpus=self.gpus,
            host=self._options(self.message.backend).get("host", ""),
        )
        normalise(self.message)
        self._serve_versions()
        warn_of_files_per_gpu(self.message, self.findings, self.model_dir, self.versions)
        normalise_instance_groups(self.message, self.gpus, self.backend)
        completion = Completion(
            model_dir=self.model_dir,
            versions=self.versions,
            backend=self.backend,
            auto_complete=self.auto_complete,
            complete=self.complete,
            options=self._options(self.message.backend),
            names_no_file=names_no_file,
            findings=self.findings,
            is_readable=not self.document.problems,
            message=self.message,
        )
        completion.run()
        self.message = completion.message
        self.completes_later = completion.completes_later
        normalise(self.message)
        folder = self.backends.folder(self.message.backend)
        strategies = batch_strategies(
            self.message,
            self.findings,
            self.model_dir,
            self.versions,
            folder,
            libraries=self.features.strategy_libraries,
        )
        check_backend_is_supported(
            self.message, self.findings, self.backends, falls_back=falls_back
        )
        validate(
            self.message,
            self.findings,
            gpus=self.gpus,
            backends=self.backends,
            falls_back=falls_back,
            no_backend=""
            if self.message.backend or self.message.platform
            else self._how_to_name_a_backend(),
        )
        labels = read_labels(self.message, self.findings, self.model_dir)
        initial_states = read_initial_states(self.message, self.findings, self.model_dir)
        check_warmup(
            self.message, self.findings, self.model_dir, knows_inputs=not self.completes_later
        )
        self._note_tensors()
        problems = in_order([*self.document.problems, *self.findings.problems])
        if self.completes_later:
            self.message = without_open_tensors(self.message)
        known = not problems or is_typed(self.message)
        takes = getattr(self.backends.find(self.message.backend), "takes_device_inputs", None)
        draft = (
            typed(
                self.message,
                labels,
                initial_states,
                takes_device_inputs=takes is not None and takes(self.message),
            )
            if known
            else None
        )
        return Resolution(
            config=None if problems else draft,
            draft=draft,
            document=self.findings.document,
            problems=problems,
            versions=self.versions,
            faults=tuple(completion.faults),
            warnings=tuple(self.findings.warnings),
            notes=tuple(dict.fromkeys(self.findings.notes)),
            remark=self.remark,
            strategies=strategies,
        )

    def _find_versions(self) -> None:
        folders = [name for name, is_folder in self._entries(self.model_dir).items() if is_folder]
        self.present, warnings = versions.present(folders)
        self.findings.warnings.extend(warnings)

    def _serve_versions(self) -> None:
        """Find the versions to serve (row 7.40)."""
        name = self.message.name
        self.versions, absent = versions.served(self.message.version_policy, self.present)
        self.findings.warnings.extend(
            f"version {version} is specified for model '{name}', but the version directory is not present"
            for version in absent
        )
        if not self.versions and self.findings.trusted(("version_policy",)):
            present = ", ".join(map(str, self.present)) or "none"
            self.findings.add(
                ("version_policy",),
                f"{NO_VERSION} of model '{name}'; versions present: {present}",
                "write a version_policy that names one of them"
                if self.present
                else misplaced.without_version(self.model_dir, self._files(), self.backends),
            )

    def _how_to_name_a_backend(self) -> str:
        """What to do when neither the config nor a file says which backend runs the model; "" when no version is the reason."""
        if not self.present:
            return ""
        version = self.model_dir / str(self.present[-1])
        return misplaced.without_backend(
            version,
            self._listing(),
            named=self.message.default_model_filename,
            beside=self._files(),
            backends=self.backends,
        )

    def _files(self) -> list[str]:
        """The files of the model's folder itself."""
        return [name for name, is_folder in self._entries(self.model_dir).items() if not is_folder]

    def _note_tensors(self) -> None:
        """Note that a model has neither inputs nor outputs: no request can bring it anything."""
        message, backend = self.message, self.backend
        if message.input or message.output or backend is None or self.completes_later:
            return
        if self.document.problems or self.findings.problems:
            return
        ways = "write a config.pbtxt with input and output" + (
            ", or an auto_complete_config in model.py" if backend.completes_itself else ""
        )
        self.findings.warnings.append(
            f"the config lists neither inputs nor outputs, so that requests can neither send nor get a tensor: {ways}"
        )

    def _listing(self) -> dict[str, bool]:
        """The entries of the highest version's folder."""
        return self._entries(self.model_dir / str(self.present[-1])) if self.present else {}

    def _entries(self, folder: pathlib.Path) -> dict[str, bool]:
        """The entries of a folder, by name: whether it is a folder. A folder that cannot be read is a problem."""
        try:
            return {entry.name: entry.is_dir() for entry in folder.iterdir()}
        except OSError as error:
            text = f"unable to read '{folder}': {error.strerror}"
            self.findings.problems.append(Problem(path=folder, position=None, message=text))
            return {}

    def _options(self, backend: str) -> dict[str, str]:
        """A backend's settings, those for all backends included."""
        return {**self.backend_options.get("", {}), **self.backend_options.get(backend, {})}
