"""What a server would refuse when it loads a model, found before: for `naiad check`. Every rule is the function that a load calls."""

import collections.abc
import pathlib

from naiad.backends.plugin import BackendPlugin
from naiad.backends.registry import check_installed
from naiad.config.document import Document
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem, Scope
from naiad.config.refused import problem_of
from naiad.engine.instances.placement import check_limits, host_of
from naiad.errors import InferenceError


def preflight(
    plugin: BackendPlugin,
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
) -> list[Problem]:
    """Everything that loading a model would refuse for its settings, its files or this installation. Blocking: it reads files.

    Args:
        plugin: its backend.
        config: completed; it may have problems.
        document: where problems with its fields are.
        model_dir: its folder.
        versions: those that would be served, ascending.
        options: the `--backend-config` settings of its backend.
    """
    problems: list[Problem] = []
    host = plugin.default_host
    try:
        host = host_of(config, plugin.default_host, options)
        check_limits(config, host)
    except InferenceError as error:
        problems.append(problem_of(error, document))
    try:
        check_installed(plugin)
    except InferenceError as error:
        problems.append(problem_of(error, document, scope=Scope.HERE))
    if plugin.preflight is None:
        return problems
    try:
        problems += plugin.preflight(
            config,
            document=document,
            model_dir=model_dir,
            versions=versions,
            options=options,
            host=host,
        )
    except OSError as error:
        text = f"unable to read '{error.filename or model_dir}': {error.strerror}"
        problems.append(Problem(path=model_dir, position=None, message=text))
    return problems
