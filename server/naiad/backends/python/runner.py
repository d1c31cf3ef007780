"""One TritonPythonModel in a worker process of its own: what `backend` and `instance` are in a thread of the server.

A process has one model, so nothing is kept apart here: the version's folder and the model's folder stand on `sys.path` (row 15.4),
before installed packages and behind the standard library, and model.py is in a package over both, for relative imports. How it is
called is in `served_model.py`; shapes for clients are the server's.

Limits: those of `backends/runner.py`: standard library and numpy, Python 3.8.
"""

import importlib
import os
import pathlib
import sys
import time
import types
from typing import Any

from naiad.backends.python.api import context, datatypes
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.names import UTILS
from naiad.backends.python.api.response import InferenceResponse, contents_of
from naiad.backends.python.api.tensor import parts_of
from naiad.backends.python.failures import describe, raised
from naiad.backends.python.served_model import APART, ServedModel
from naiad.backends.runner import Answer, Outcome, Post, ReceivedRequest, WorkerError

_PACKAGE = "naiad_model"
_FOLDERS = "NAIAD_MODEL_FOLDERS"
"""The variable by which processes that a model starts learn where its modules are, one folder a line."""


class PythonRunner(ServedModel):
    """Implements `Runner`. Making one imports and initialises the model.

    Args:
        settings: `arguments` (of `initialize`, row 15.2), `path` (the model file), `model_dir`, `outputs` (names), `decoupled`.

    Raises:
        WorkerError: INVALID_ARG: it cannot be imported, lacks what it must have, or `initialize` failed.
    """

    def __init__(self, settings: "dict[str, Any]") -> None:
        arguments = settings["arguments"]
        path = pathlib.Path(settings["path"])
        folder = pathlib.Path(settings["model_dir"])
        running = Running(
            model=arguments["model_name"],
            instance=arguments["model_instance_name"],
            directory=str(path.parent),
            server=context.worker_server,
        )
        context.only = running
        context.current.set(running)
        if "PYTHONBREAKPOINT" not in os.environ:
            sys.breakpointhook = _no_terminal
        super().__init__(
            _made(path, folder, arguments),
            running=running,
            folder=folder,
            outputs=frozenset(settings["outputs"]),
            decoupled=settings["decoupled"],
            now_ns=time.monotonic_ns,
        )
        self._post: Post = _nobody_listens

    def answer_through(self, post: Post) -> None:
        """See `Runner`."""
        self._post = post

    def execute(self, requests: "list[ReceivedRequest]") -> Outcome:
        """See `Runner`."""
        returned, begun_ns, ended_ns = self._call(requests)
        answers = [
            None if response is APART else self._answer(response, request.output_names)
            for response, request in zip(returned, requests)  # noqa: B905 - 3.8 knows no strict; they are as long as each other
        ]
        return Outcome(answers, begun_ns, ended_ns)

    def send(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, call: Any, response: "InferenceResponse | None", *, final: bool, begun_ns: int
    ) -> None:
        """See `Outlet`."""
        answer = None if response is None else self._answer(response, call.output_names)
        self._post(call, answer, final=final, begun_ns=begun_ns)

    def pace(self, call: Any) -> None:  # type: ignore[explicit-override]  # as above
        """See `Outlet`."""
        # A coroutine would keep all others of its instance waiting, perhaps for the one that its client reads first.
        if not self._coroutines.is_this_thread():
            call.wait_for_room()

    def _fail_apart(  # type: ignore[explicit-override]  # as above
        self, call: Any, text: str, begun_ns: int
    ) -> None:
        self._post(call, Answer([], {}, ("INTERNAL", text)), final=True, begun_ns=begun_ns)

    def _error(self, message: str) -> WorkerError:  # type: ignore[explicit-override]  # as above
        return WorkerError("INTERNAL", message)

    def _answer(self, response: Any, wanted: "list[str]") -> Answer:
        self._check_response(response)
        tensors, error, parameters = contents_of(response)
        if error is not None:
            return Answer([], {}, (error.code().name, error.message()))
        outputs: list[tuple[str, str, Any]] = []
        for tensor in tensors:
            name, values, code = parts_of(tensor)
            if name not in self.all_outputs:
                self._note_dropped(name)
            elif not wanted or name in wanted:
                outputs.append((name, datatypes.WIRE_NAMES[code], values))
        return Answer(outputs, parameters)


def _made(path: pathlib.Path, folder: pathlib.Path, arguments: "dict[str, str]") -> Any:
    """The model's object, initialised (rows 15.1-15.3)."""
    name = arguments["model_name"]
    found = entry_class(path, folder, name)
    try:
        model = found()
        if hasattr(model, "initialize"):
            model.initialize(arguments)
    except raised() as error:
        raise WorkerError(
            "INVALID_ARG",
            f"failed to initialize model '{name}' (instance '{arguments['model_instance_name']}'): {describe(error, folder)}",
        ) from error
    return model


def entry_class(path: pathlib.Path, folder: pathlib.Path, name: str) -> Any:
    """Import a model file and find TritonPythonModel (row 15.1).

    Args:
        path: the model file.
        folder: the model's folder.
        name: the model's name.

    Raises:
        WorkerError: INVALID_ARG: no such file, or it cannot be imported, or it does not hold what it must.
    """
    if not path.is_file():
        raise _refusal(name, f"Python model file not found in '{path}'")
    if path.suffix != ".py":
        raise _refusal(name, f"Model name must end with '.py'. Model name is \"{path.name}\".")
    # A model that reads a command line (argparse, unittest.main) finds none, as in Triton: ours is not meant for it.
    sys.argv = [""]
    folders = [str(path.parent), str(folder)]
    at = _before_installed_packages()
    sys.path[at:at] = folders
    _make_importable(folders)
    os.environ[_FOLDERS] = "\n".join(folders)
    try:
        module = importlib.import_module(_PACKAGE + "." + path.stem)
    except raised() as error:
        raise _refusal(name, describe(error, folder)) from error
    found = getattr(module, "TritonPythonModel", None)
    if found is None:
        raise _refusal(
            name,
            f"'{path}' does not define the class TritonPythonModel; it has to, with a method execute(self, requests)",
        )
    if not callable(getattr(found, "execute", None)):
        raise _refusal(
            name,
            f"Python model {path} does not implement `execute` method: "
            "add execute(self, requests) to its TritonPythonModel",
        )
    return found


def know_the_model() -> None:
    """In a process that a model starts anew (multiprocessing's `spawn` and `forkserver`): its functions are found by their names here, too."""
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


def _refusal(name: str, text: str) -> WorkerError:
    return WorkerError("INVALID_ARG", f"unable to load model '{name}': {text}")


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


def _nobody_listens(
    request: ReceivedRequest, answer: "Answer | None", *, final: bool, begun_ns: int
) -> None:
    """Until a worker says where answers go."""
