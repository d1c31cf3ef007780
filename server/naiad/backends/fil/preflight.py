"""What loading a tree model would refuse, seen without treelite: the config against the file, and settings."""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.fil import described
from naiad.backends.fil.forest import check_outputs, check_servable, signature
from naiad.backends.fil.settings import settings_of
from naiad.backends.model_files.graph_check import check_graph
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.config.document import Document
from naiad.config.findings import Findings
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.config.refused import problems_of
from naiad.errors import InferenceError


def check_file(message: Any, path: pathlib.Path, findings: Findings) -> None:
    """Add a problem for everything in a completed config that the model's file contradicts."""
    parameters = {key: value.string_value for key, value in message.parameters.items()}
    try:
        settings = settings_of(message.name, parameters, path.name)
        forest = described.read(path, settings.model_type)
        check_outputs(message)
        if forest is not None:
            check_servable(forest, message.name)
            check_graph(message, signature(message, forest, settings), findings)
    except ModelFileError as error:
        _add(findings, path, f"unable to load model '{message.name}': {error}")
    except InferenceError as error:
        _add(findings, path, error.message)


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
) -> list[Problem]:
    """See `Preflight`: parameters that no model could have."""
    return problems_of(
        document,
        [lambda: settings_of(config.name, config.parameters, config.default_model_filename)],
    )


def _add(findings: Findings, path: pathlib.Path, text: str) -> None:
    findings.problems.append(Problem(path=path, position=None, message=text))
