"""A pipeline in Python (`dali.py`): what its text shows without running it, and the pipeline that it serialises when it is run, in a worker process.

The file is code of the model repository, as a `model.py` is. It marks one `pipeline_def` with `autoserialize` (`nvidia.dali.plugin.triton`).
"""

import ast
import collections.abc
import importlib.util
import pathlib
import sys
from typing import Any

from naiad.backends.python.failures import describe, raised
from naiad.errors import InferenceError, invalid

_MODULE = "naiad_dali_pipeline"
_MARK = "autoserialize"

ONE = "Precisely one autoserialize function must exist in the module."


def fault_of(path: pathlib.Path, root: pathlib.Path, model: str) -> InferenceError | None:
    """What a load of this file would refuse, as far as its text shows it: that it cannot be compiled, or marks none or several pipelines."""
    try:
        data = path.read_bytes()
        tree = ast.parse(data, filename=str(path))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        return _cannot(model, describe(error, root))
    marked = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any(map(_is_mark, node.decorator_list))
    ]
    if len(marked) > 1:
        return several(model, path, marked)
    beside = [
        each
        for folder in {path.parent, root}
        for each in folder.glob("*")
        if _is_module(each, path)
    ]
    if not marked and not beside and _MARK.encode() not in data:
        return none(model, path)
    return None


def serialize(path: pathlib.Path, root: pathlib.Path, model: str, *, device: int | None) -> bytes:
    """Run the file and serialise the pipeline that it marks. In a worker process only: it changes `sys.path`.

    Args:
        path: the file; modules beside it, and in `root`, can be imported.
        root: the model's folder.
        model: its name, for messages.
        device: the GPU that the pipeline is for; None for the CPU. It takes the place of the `device_id` in the file.

    Raises:
        InferenceError: INVALID_ARG: it cannot be run, or marks none or several pipelines, or its pipeline cannot be serialised.
    """
    sys.argv = [""]
    sys.dont_write_bytecode = True  # a repository is not ours to write to
    sys.path[:0] = dict.fromkeys((str(path.parent), str(root)))
    try:
        spec = importlib.util.spec_from_file_location(_MODULE, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[_MODULE] = module
        spec.loader.exec_module(module)
    except raised() as error:
        raise _cannot(model, describe(error, root)) from error
    found = _marked(module, root)
    if not found:
        raise none(model, path)
    if len(found) > 1:
        raise several(model, path, [function.__name__ for function in found])
    (function,) = found
    try:
        serialized: bytes = function(device_id=device).serialize()
    except raised() as error:
        raise _cannot(
            model, f"its pipeline {function.__name__} cannot be serialised: {describe(error, root)}"
        ) from error
    return serialized


def none(model: str, path: pathlib.Path) -> InferenceError:
    """The error of a file that marks no pipeline."""
    return _cannot(
        model,
        f"{ONE} Found none in '{path}': write @nvidia.dali.plugin.triton.autoserialize above the @pipeline_def that is to be served",
    )


def several(model: str, path: pathlib.Path, names: collections.abc.Sequence[str]) -> InferenceError:
    """The error of a file that marks several."""
    return _cannot(
        model,
        f"{ONE} Found {len(names)} in '{path}': {', '.join(names)}: take {_MARK} away from all but one",
    )


def _marked(module: Any, root: pathlib.Path) -> list[Any]:
    """The marked functions of the file and of the modules beside it that it imported, each once."""
    inside = str(root.resolve())
    modules = [
        each
        for each in list(sys.modules.values())
        if str(getattr(each, "__file__", None) or "").startswith((inside, str(root)))
    ]
    found: dict[int, Any] = {}
    for each in [module, *modules]:
        for value in list(vars(each).values()):
            if callable(value) and getattr(value, "_is_autoserialize", False) is True:
                found[id(value)] = value
    return list(found.values())


def _is_mark(decorator: ast.expr) -> bool:
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    return name == _MARK


def _is_module(path: pathlib.Path, itself: pathlib.Path) -> bool:
    return path != itself and (path.suffix == ".py" or (path / "__init__.py").is_file())


def _cannot(model: str, text: str) -> InferenceError:
    return invalid(f"unable to load model '{model}': {text}")
