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
from naiad.backends.python.worker_model import entry_class
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
    return not classes or any(each.bases or each.decorator_list for each in classes)


def complete(settings: "dict[str, Any]") -> "dict[str, Any] | None":
    """What the model makes of its config; None when it leaves it alone.

    Args:
        settings: `name`, `path` (the model file), `root` and `version_dir` (as in `CodeFiles`), `config` (as JSON text).

    Raises:
        InferenceError: INVALID_ARG: it cannot be imported, raised, or did not return a config.
    """
    name = settings["name"]
    folder = pathlib.Path(settings["root"])
    path = pathlib.Path(settings["path"])
    context.current.set(Running(model=name, instance="", directory=settings["version_dir"]))
    completer = getattr(entry_class(path, folder, name), _METHOD, None)
    if completer is None:
        return None
    try:
        completed = completer(ModelConfig(settings["config"]))
    except raised() as error:
        raise invalid(
            f"unable to load model '{name}': {_METHOD} failed: {describe(error, folder)}"
        ) from error
    try:
        return shown(name, completed)
    except ValueError as error:
        raise invalid(str(error)) from error


def shown(name: str, completed: Any) -> "dict[str, Any]":
    """What `auto_complete_config` gave back, as JSON has it.

    Args:
        name: the model's.
        completed: what it gave back.

    Raises:
        ValueError: it is no config, or holds what no config can.
    """
    if not isinstance(completed, ModelConfig):
        raise ValueError(_not_a_config(name, completed))  # noqa: TRY004 - the caller translates one kind
    try:
        found: dict[str, Any] = json.loads(json.dumps(completed.as_dict(), default=_plain))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{_METHOD} function in model '{name}' set something other than a model configuration: {error}"
        ) from error
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{value!r} is neither a number nor text, a list or a dict")


def _not_a_config(name: str, completed: Any) -> str:
    """What is said of an `auto_complete_config` that gives back something else."""
    return (
        f"{_METHOD} function in model '{name}' must return a valid pb.ModelConfig object; it returned "
        f"{'nothing' if completed is None else type(completed).__name__}: end it with `return auto_complete_model_config`"
    )
