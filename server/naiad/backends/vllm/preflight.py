"""What loading a language model would refuse, in the words of the load and without vllm: for `naiad check`."""

import collections.abc
import pathlib

from naiad.backends.backend import instance_specs
from naiad.backends.python.parameters import environment_of
from naiad.backends.python.preflight import preflight as python_preflight
from naiad.backends.vllm import engine_arguments
from naiad.backends.vllm.backend import ENTRY, check_config
from naiad.config.document import Document
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem, Scope
from naiad.config.refused import problem_of, problems_of
from naiad.errors import InferenceError


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
) -> list[Problem]:
    """See `Preflight`: the config, the environment of a Python model, and the files of each version."""
    problems = python_preflight(
        config,
        document=document,
        model_dir=model_dir,
        versions=versions,
        options=options,
        host=host,
        backend_file=ENTRY,
    )
    problems += problems_of(document, [lambda: check_config(config)])
    for version in versions:
        problems += _of_version(config, document, model_dir / str(version), options)
    return list(dict.fromkeys(problems))


def _of_version(
    config: ModelConfig,
    document: Document,
    version_dir: pathlib.Path,
    options: collections.abc.Mapping[str, str],
) -> list[Problem]:
    path = version_dir / engine_arguments.ARGUMENTS_FILE
    try:
        arguments = engine_arguments.read_arguments(config.name, version_dir)
        for spec in instance_specs(config):
            engine_arguments.check_devices(config.name, arguments, spec.kind.value)
        if environment_of(config.message, version_dir, options, backend_file=ENTRY) is not None:
            return []
    except InferenceError as error:
        return [problem_of(error, document, path=path)]
    try:
        engine_arguments.check_installed(config.name)
        known = engine_arguments.known_by_source()
        if known:
            engine_arguments.check_known(config.name, version_dir, arguments, known)
    except InferenceError as error:
        return [problem_of(error, document, path=path, scope=Scope.HERE)]
    return []
