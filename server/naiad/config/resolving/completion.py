"""Completes a config from a model's files, and holds every version that is to be served against the result (row 11.48)."""

import collections.abc
import logging
import pathlib
from typing import Any

import msgspec

from naiad.config.backend_type import BackendType, Completer, CompletionError
from naiad.config.checks.model_files import files_per_gpu, missing_file, special_file
from naiad.config.document import FieldPath
from naiad.config.findings import Findings
from naiad.config.problem import Problem
from naiad.config.refused import problem_of
from naiad.core.file_kind import exists
from naiad.errors import InferenceError, internal

_DEFAULT_BATCH_SIZE = "default-max-batch-size"
"""The `--backend-config` setting of row 11.50."""


log = logging.getLogger("naiad.config")


class Completion(msgspec.Struct, kw_only=True, eq=False):
    """The completion of one config. What is wrong goes into `findings`, if it is so of all versions.

    Args:
        model_dir: the model's folder.
        versions: those to serve, ascending.
        backend: the model's; None for one that is not known.
        auto_complete: whether the backend may complete the config.
        complete: as `resolve` has it.
        options: the settings of the backend.
        names_no_file: the config names a model file that no model can have, which is a problem already.
        findings: of the config so far.
        is_readable: whether the config's file has been read without a problem.

    Attributes:
        message: the config; after `run` the completed one.
        faults: why single versions would fail to load, while others would not.
        completes_later: only loading the model completes the config, so that what it says of the model is not known yet.
    """

    model_dir: pathlib.Path
    versions: tuple[int, ...]
    backend: BackendType | None
    auto_complete: bool
    complete: collections.abc.Callable[[str], Completer | None] | None
    options: collections.abc.Mapping[str, str]
    names_no_file: bool
    findings: Findings
    is_readable: bool
    message: Any
    faults: list[Problem] = msgspec.field(default_factory=list)
    completes_later: bool = False

    def run(self) -> None:
        """Complete from the highest version that can be read; hold every served version against the result.

        A version that disagrees fails when it is loaded, as in Triton; only when all do is there no model.
        """
        if not self.versions or not self.message.backend or self.names_no_file:
            return
        failures = {
            version: [problem]
            for version in self.versions
            if (problem := self._fault_of_file(version)) is not None
        }
        readable = [version for version in self.versions if version not in failures]
        if readable:
            self._note_later_completion(readable[-1])
        completed = self._completed(failures) if self.auto_complete else None
        compared = self.message if completed is None else completed
        if completed is not None and not self.completes_later:
            self._adopt(completed)
        for version in self.versions:
            if version in failures:
                continue
            problems = self._contradictions(compared, version)
            if problems and self.completes_later and self._fits_without_batches(version):
                self.findings.notes.extend(
                    f"if the model takes batches: {problem.message}" for problem in problems
                )
            elif problems:
                failures[version] = problems
        if len(failures) == len(self.versions):
            self.findings.problems.extend(
                msgspec.structs.replace(problem, version=version)
                for version, problems in failures.items()
                for problem in problems
            )
        else:
            self.faults = [
                msgspec.structs.replace(problem, version=version)
                for version, problems in sorted(failures.items())
                for problem in problems
            ]

    def _contradictions(self, message: Any, version: int) -> list[Problem]:
        """What a version's model file contradicts in a completed config."""
        findings = Findings(self.findings.document)
        if self.backend is not None and self.backend.check is not None:
            path = self._model_file(version)
            others = files_per_gpu(path.parent, message)
            for each in others if others and not exists(path) else (path, *others):
                try:
                    self.backend.check(message, each, findings)
                except Exception as error:  # noqa: BLE001 - a backend's fault with one file must not end the check of other models
                    text = _unexpected(self.message.name, error).message
                    findings.problems.append(Problem(path=each, position=None, message=text))
        return findings.problems

    def _completed(self, failures: dict[int, list[Problem]]) -> Any | None:
        """The config as completed from the highest version that can be read; None if nothing completes it."""
        complete = self.backend.complete if self.backend is not None else None
        if self.complete is not None and self.is_readable:
            complete = self.complete(self.message.backend)
        if complete is None:
            return None
        for version in reversed(self.versions):
            if version in failures:
                continue
            attempt = self._copy()
            folder = self.model_dir / str(version)
            if not exists(self._model_file(version)):
                # Its file for some GPU says the same of the model.
                for path in files_per_gpu(folder, attempt)[:1]:
                    attempt.default_model_filename = path.name
            try:
                complete(attempt, folder, self.options)
            except InferenceError as error:
                failures[version] = [self._completion_problem(error, version)]
            except Exception as error:  # noqa: BLE001 - as in `_contradictions`
                unexpected = _unexpected(self.message.name, error)
                failures[version] = [self._completion_problem(unexpected, version)]
            else:
                attempt.default_model_filename = self.message.default_model_filename
                return attempt
        return None

    def _adopt(self, completed: Any) -> None:
        if completed.max_batch_size != self.message.max_batch_size:
            self.findings.warnings.append(
                f"autofilled max_batch_size to {completed.max_batch_size} for model "
                f"'{completed.name}'; write max_batch_size to choose another"
            )
        self.message = completed

    def _fits_without_batches(self, version: int) -> bool:
        """Whether nothing contradicts the config of a model that turns out to take no batches; one with a batch size of its own does."""
        complete = self.backend.complete if self.backend is not None else None
        if complete is None or self.message.max_batch_size:
            return False
        options = {**self.options, _DEFAULT_BATCH_SIZE: "0"}
        attempt = self._copy()
        try:
            complete(attempt, self.model_dir / str(version), options)
        except InferenceError:
            return False
        return not self._contradictions(attempt, version)

    def _copy(self) -> Any:
        copy = type(self.message)()
        copy.CopyFrom(self.message)
        return copy

    def _note_later_completion(self, version: int) -> None:
        """Note, where no model is loaded and no code of models runs, that a server would complete the config by doing so."""
        if self.complete is not None or self.backend is None or not self.auto_complete:
            return
        lists = bool(self.message.input or self.message.output)
        by_loading, itself = self.backend.completes_by_loading, self.backend.completes_itself
        if by_loading is not None and by_loading(self.message, self.model_dir / str(version)):
            how = (
                "its code says what its pipeline is when it is loaded"
                if itself is not None and itself(self._model_file(version))
                else f"only {self.backend.name} reads the model's file: a server loads the model and completes max_batch_size, inputs "
                "and outputs by what it sees"
                if self.backend.complete is None
                else "an output names its first dimension otherwise than the inputs: a server loads the model to see whether it takes batches, and "
                "completes max_batch_size, inputs and outputs by what it sees"
            )
        elif itself is not None and not lists and itself(self._model_file(version)):
            how = "its code completes the config when it is loaded (auto_complete_config)"
        else:
            return
        self.completes_later = True
        if not self.message.max_batch_size:
            self.findings.open.add(("max_batch_size",))
        if self.backend.complete is not None:
            self.findings.open.update(_left_out(self.message))
        self.findings.notes.append(f"{how}: naiad check --load shows the result")

    def _completion_problem(self, error: InferenceError, version: int) -> Problem:
        path = self._model_file(version)
        if not isinstance(error, CompletionError):
            return problem_of(error, self.findings.document, path=path)
        if error.field:
            return self.findings.document.problem(error.field, error.plain, error.suggestion)
        return Problem(path=path, position=None, message=error.plain, suggestion=error.suggestion)

    def _model_file(self, version: int) -> pathlib.Path:
        folder = self.model_dir / str(version)
        filename = self.message.default_model_filename
        path: pathlib.Path = folder / filename
        if self.backend is not None:
            path = self.backend.model_file(folder, filename, self.message.runtime)
        return path

    def _fault_of_file(self, version: int) -> Problem | None:
        """What is wrong with a version's model file before it is opened."""
        path = self._model_file(version)
        return special_file(path, self.message.name) or missing_file(
            path, self.message, self.findings.document, self.backend
        )


def _unexpected(model: str, error: Exception) -> InferenceError:
    """The error of a backend that failed in a way that it does not know."""
    log.error("the backend of model '%s' cannot take its files", model, exc_info=error)
    return internal(f"unable to load model '{model}': {type(error).__name__}: {error}")


def without_open_tensors(message: Any) -> Any:
    """A config without the tensors whose datatype or dims only the loaded model tells, as if the config did not list them."""
    if not list(_left_out(message)):
        return message
    kept = type(message)()
    kept.CopyFrom(message)
    for side in ("input", "output"):
        kept.ClearField(side)
        getattr(kept, side).extend(
            spec for spec in getattr(message, side) if spec.data_type and spec.dims
        )
    return kept


def _left_out(message: Any) -> collections.abc.Iterator[FieldPath]:
    """What the tensors that a config lists leave open."""
    for side in ("input", "output"):
        for index, spec in enumerate(getattr(message, side)):
            if not spec.data_type:
                yield (side, index, "data_type")
            if not spec.dims:
                yield (side, index, "dims")
