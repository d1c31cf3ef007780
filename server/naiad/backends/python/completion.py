"""A model's `auto_complete_config` in a process of its own (row 15.27), so that a model's code never runs in the server.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import ast
import json
import pathlib
from typing import Any

import numpy as np

from naiad.backends.python.api import context
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.model_config import ModelConfig
from naiad.backends.python.failures import describe, raised
from naiad.backends.python.worker_model import entry_class, load_error
from naiad.errors import invalid

_METHOD = "auto_complete_config"
_CLASS = "TritonPythonModel"


def may_complete(path: pathlib.Path) -> bool:
    """Whether a model file may have an `auto_complete_config`, by its text: a process for nothing costs a tenth of a second."""
    try:
        text = path.read_text(encoding="utf-8")
        if _METHOD in text:
            return True
        classes = [
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ClassDef) and node.name == _CLASS
        ]
    except (OSError, ValueError, SyntaxError):
        return False  # it cannot be loaded either, and that tells why
    return not classes or any(cls.bases or cls.decorator_list for cls in classes)


def complete(settings: "dict[str, Any]") -> "dict[str, Any] | None":
    """What the model makes of its config; None when it leaves it alone.

    Args:
        settings: `name`, `path` (the model file), `root` and `version_dir` (as in `CodeFiles`), `config` (as JSON text).

    Raises:
        InferenceError: INVALID_ARG: it cannot be imported, raised, or did not return a config.
    """
    name = settings["name"]
    folder = pathlib.Path(settings["root"])
    context.current.set(Running(model=name, instance="", directory=settings["version_dir"]))
    model_class = entry_class(pathlib.Path(settings["path"]), folder, name)
    return completed_by(model_class, name, settings["config"], folder)


def completed_by(
    model_class: Any, name: str, config: str, folder: pathlib.Path
) -> "dict[str, Any] | None":
    """The same for a class that is imported already, with the config as JSON text; lines of `folder` come first in tracebacks.

    Raises:
        InferenceError: INVALID_ARG: it raised, or did not return a config.
    """
    completer = getattr(model_class, _METHOD, None)
    if completer is None:
        return None
    try:
        completed = completer(ModelConfig(config))
    except raised() as error:
        raise load_error(name, f"{_METHOD} failed: {describe(error, folder)}") from error
    if not isinstance(completed, ModelConfig):
        raise invalid(
            f"{_METHOD} function in model '{name}' must return a valid pb.ModelConfig object; it returned "
            f"{'nothing' if completed is None else type(completed).__name__}: end it with `return auto_complete_model_config`"
        )
    try:
        plain: dict[str, Any] = json.loads(json.dumps(completed.as_dict(), default=_plain))
    except (TypeError, ValueError) as error:
        raise invalid(
            f"{_METHOD} function in model '{name}' set something other than a model configuration: {error}"
        ) from error
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{value!r} is neither a number nor text, a list or a dict")
