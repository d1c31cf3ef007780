"""What loading a plan would refuse, seen without TensorRT and without a GPU: the file's beginning, files by compute capability, and settings."""

import collections.abc
import functools
import pathlib
from typing import Any

from naiad.backends.cuda_graph_specs import plan_graphs
from naiad.backends.tensorrt.engine import plan_file, profiles
from naiad.backends.tensorrt.settings import settings_of
from naiad.config.document import Document
from naiad.config.findings import Findings
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.config.refused import problems_of
from naiad.errors import InferenceError


def check_file(message: Any, path: pathlib.Path, findings: Findings) -> None:
    """Add a problem if a file is not a plan."""
    if not path.is_file():
        return  # a missing file is a problem of its own
    try:
        plan_file.read_version(path, message.name)
    except InferenceError as error:
        findings.problems.append(Problem(path=path, position=None, message=error.message))
    except OSError as error:
        text = f"unable to load model '{message.name}': unable to read '{path}': {error.strerror}"
        findings.problems.append(Problem(path=path, position=None, message=text))


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
) -> list[Problem]:
    """See `Preflight`: parameters, profiles and CUDA graphs that no plan could have."""
    decisions: list[collections.abc.Callable[[], object]] = [
        functools.partial(settings_of, config.name, config.message, config.parameters)
    ]
    if config.message.optimization.cuda.graphs:
        decisions.append(functools.partial(plan_graphs, config.message))
    decisions += [
        functools.partial(profiles.index_of, name)
        for group in config.instance_groups
        for name in group.profiles
    ]
    return problems_of(document, decisions)
