"""What loading a PyTorch model would refuse, seen without torch: for `naiad check`, and for the versions of a model that cannot be served. No code is run."""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.pytorch import (
    archive,
    io_check,
    module_files,
    naming,
    program_file,
    script_code,
)
from naiad.backends.pytorch.cuda_graphs import planning
from naiad.backends.pytorch.plugin import AOTI, PLUGIN, PYTHON_RUNTIME
from naiad.backends.pytorch.settings import settings_of
from naiad.config.document import Document
from naiad.config.findings import Findings
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.config.refused import problem_of
from naiad.errors import InferenceError


def check_file(message: Any, path: pathlib.Path, findings: Findings) -> None:
    """Add a problem if a model file is of a format that the config's platform cannot run. Code of the Python runtime is not looked at."""
    if message.runtime == PYTHON_RUNTIME or not path.is_file():
        return
    try:
        kind = archive.kind_of(path)
        archive.check(path, kind, model=message.name, expects_program=message.platform == AOTI)
    except OSError as error:
        text = f"unable to load model '{message.name}': unable to read '{path}': {error.strerror}"
        findings.problems.append(Problem(path=path, position=None, message=text))
    except InferenceError as error:
        findings.problems.append(Problem(path=path, position=None, message=error.message))


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
) -> list[Problem]:
    """See `Preflight`: parameters, and tensors that are not those of the model's `forward`."""
    problems: dict[Problem, None] = {}
    code = config.message.runtime == PYTHON_RUNTIME
    try:
        settings_of(config.name, config.parameters, python_runtime=code)
        if planning.wants_graphs(config):
            planning.plan(config)
    except InferenceError as error:
        problems[problem_of(error, document)] = None
    for version in versions:
        path = PLUGIN.model_file(
            model_dir / str(version), config.default_model_filename, config.message.runtime
        )
        if not path.is_file():
            continue
        if code and problems:
            continue  # the load ends with them
        if code:
            problems |= dict.fromkeys(_module_problems(path, config.name))
            continue
        try:
            if config.platform == AOTI:
                io_check.refuse_sequences(config)
            program = program_file.read(path) if config.platform == AOTI else None
            if program is not None:
                io_check.check(config, program)
                continue
            is_script = config.platform != AOTI
            arguments = script_code.forward_arguments(path, config.name) if is_script else ()
            naming.plans(config, arguments)
        except InferenceError as error:
            problems[problem_of(error, document)] = None
    return list(problems)


def _module_problems(path: pathlib.Path, model: str) -> list[Problem]:
    """What is wrong with the files of a module in Python."""
    if path.suffix != ".py":
        return []
    problems: list[Problem] = []
    for file, check in (
        (path, module_files.check_code),
        (path.with_suffix(".pt"), module_files.check_weights),
    ):
        try:
            check(file, model)
        except InferenceError as error:
            problems.append(Problem(path=file, position=None, message=error.message))
        except OSError:  # it is not there, or the load says why it cannot be read
            continue
    return problems
