"""A TritonPythonModel in a worker process of its own, and how the class is found in a model file.

A process has one model, so nothing is kept apart here: the version's folder and the model's folder stand on `sys.path` (row 15.4),
before installed packages and behind the standard library, and model.py is in a package over both, for relative imports.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import importlib
import os
import pathlib
import sys
import time
import types
from collections.abc import Callable
from typing import Any

from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.backends.python.api import context
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.triton_python_backend_utils import UTILS
from naiad.backends.python.failures import describe, raised
from naiad.backends.python.instance import PythonInstance
from naiad.errors import InferenceError, invalid

_PACKAGE = "naiad_model"
_FOLDERS = "NAIAD_MODEL_FOLDERS"
"""The variable by which processes that a model starts learn where its modules are, one folder per line."""


class WorkerModel(LoadedModel):
    """Implements `LoadedModel` for the one instance of a worker process. Making one imports the model file.

    Args:
        settings: `arguments` (of `initialize`, row 15.2), `path` (the model file), `root` and `version_dir` (as in `CodeFiles`), `outputs` (names), `max_batch_size`,
            `decoupled`.

    Raises:
        InferenceError: INVALID_ARG: it cannot be imported, or lacks what it must have.
    """

    leaves_cycles = True

    def __init__(self, settings: "dict[str, Any]") -> None:
        self._settings = settings
        arguments = settings["arguments"]
        self._running = Running(
            model=arguments["model_name"],
            instance=arguments["model_instance_name"],
            directory=settings["version_dir"],
            server=context.worker_server,
        )
        context.only = self._running
        context.current.set(self._running)
        if "PYTHONBREAKPOINT" not in os.environ:
            sys.breakpointhook = _no_terminal
        path, folder = pathlib.Path(settings["path"]), pathlib.Path(settings["root"])
        self._class = entry_class(path, folder, arguments["model_name"])

    def make_instance(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, spec: InstanceSpec
    ) -> PythonInstance:
        """See `LoadedModel`."""
        return initialized(
            self._class, self._settings, running=self._running, now_ns=time.monotonic_ns
        )


def initialized(
    model_class: Any,
    settings: "dict[str, Any]",
    *,
    running: Running,
    now_ns: "Callable[[], int]",
) -> PythonInstance:
    """An instance: an object of the model's class, initialised (rows 15.2, 15.3); settings as those of `WorkerModel`.

    Raises:
        InferenceError: INVALID_ARG: `initialize` or the constructor failed.
    """
    arguments = settings["arguments"]
    folder = pathlib.Path(settings["root"])
    try:
        model = model_class()
        if hasattr(model, "initialize"):
            model.initialize(arguments)
    except raised() as error:
        raise invalid(
            f"failed to initialize model '{arguments['model_name']}' (instance '{arguments['model_instance_name']}'): "
            f"{describe(error, folder)}"
        ) from error
    return PythonInstance(
        model,
        running=running,
        folder=folder,
        outputs=frozenset(settings["outputs"]),
        max_batch_size=settings["max_batch_size"],
        decoupled=settings["decoupled"],
        iterative=settings.get("iterative", False),
        now_ns=now_ns,
    )


def check_file(path: pathlib.Path, model: str) -> None:
    """See that there is a model file (row 15.1).

    Raises:
        InferenceError: INVALID_ARG: there is none, or it has another suffix.
    """
    if not path.is_file():
        raise load_error(model, f"Python model file not found in '{path}'")
    if path.suffix != ".py":
        raise load_error(model, f"Model name must end with '.py'. Model name is \"{path.name}\".")


def class_of(module: Any, path: pathlib.Path, model: str) -> Any:
    """The class TritonPythonModel of a model file's module.

    Raises:
        InferenceError: INVALID_ARG: it has none, or one without `execute`.
    """
    model_class = getattr(module, "TritonPythonModel", None)
    if model_class is None:
        raise without_class(path, model)
    if not callable(getattr(model_class, "execute", None)):
        raise without_execute(path, model)
    return model_class


def without_class(path: pathlib.Path, model: str) -> InferenceError:
    """The error of a model file that does not define TritonPythonModel."""
    return load_error(
        model,
        f"'{path}' does not define the class TritonPythonModel; it has to, with a method execute(self, requests)",
    )


def without_execute(path: pathlib.Path, model: str) -> InferenceError:
    """The error of a class without `execute`."""
    return load_error(
        model,
        f"Python model {path} does not implement `execute` method: "
        "add execute(self, requests) to its TritonPythonModel",
    )


def load_error(model: str, text: str) -> InferenceError:
    """The error of a model that cannot be loaded."""
    return invalid(f"unable to load model '{model}': {text}")


def entry_class(path: pathlib.Path, folder: pathlib.Path, name: str) -> Any:
    """Import a model file in a worker process and find TritonPythonModel (row 15.1); `folder`, the model's, has further modules.

    Raises:
        InferenceError: INVALID_ARG: no such file, or it cannot be imported, or it does not hold what it must.
    """
    check_file(path, name)
    # A model that reads a command line (argparse, unittest.main) finds none, as in Triton: ours is not meant for it.
    sys.argv = [""]
    folders = list(dict.fromkeys((str(path.parent), str(folder))))
    at = _before_installed_packages()
    sys.path[at:at] = folders
    _make_importable(folders)
    os.environ[_FOLDERS] = "\n".join(folders)
    try:
        module = importlib.import_module(_PACKAGE + "." + path.stem)
    except raised() as error:
        raise load_error(name, describe(error, folder)) from error
    return class_of(module, path, name)


def know_the_model() -> None:
    """In a process that a model starts by `spawn` or `forkserver` (multiprocessing): the functions of its module are importable by name there, too."""
    folders = os.environ.get(_FOLDERS)
    if folders:
        _make_importable(folders.splitlines())


def _make_importable(folders: "list[str]") -> None:
    sys.modules.update(UTILS)
    # A repository is not ours to write to.
    sys.dont_write_bytecode = True
    package = types.ModuleType(_PACKAGE)
    package.__path__ = folders
    sys.modules[_PACKAGE] = package


def _before_installed_packages() -> int:
    """The first place on `sys.path` that is behind the standard library."""
    for place, folder in enumerate(sys.path):
        if folder.endswith(("site-packages", "dist-packages")):
            return place
    return len(sys.path)


def _no_terminal(*_args: Any, **_named: Any) -> None:
    raise RuntimeError(
        "breakpoint() needs a terminal, and a worker process has none: run the model in a thread of the server to debug it (its parameter "
        "naiad.host, or --backend-config=python,host=thread), or in pytest with naiad.testing"
    )
