"""One TritonPythonModel in a worker process of its own: what `backend` and `instance` are in a thread of the server.

A process has one model, so nothing is kept apart here: the version's folder and the model's folder stand on `sys.path` (row 15.4),
before installed packages and behind the standard library, and model.py is in a package over both, for relative imports. What the model returned is judged
here (rows 15.6, 15.7); shapes for clients are the server's.

Limits: those of `backends/runner.py`: standard library and numpy, Python 3.8.
"""

import asyncio
import importlib
import inspect
import logging
import pathlib
import sys
import time
import types
from typing import Any

from naiad.backends.python.api import context, datatypes, triton_python_backend_utils
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.request import receive
from naiad.backends.python.api.response import InferenceResponse, contents_of
from naiad.backends.python.api.tensor import parts_of
from naiad.backends.python.failures import describe
from naiad.backends.runner import DTYPES, Answer, Outcome, ReceivedRequest, Refusal

_UTILS = "triton_python_backend_utils"
_PACKAGE = "naiad_model"

_NAMES = {
    number: name for name, dtype in DTYPES.items() for number in (datatypes.CODES.get(dtype),)
}
_NAMES[datatypes.BYTES] = "BYTES"
_NAMES[datatypes.BF16] = "BF16"


class PythonRunner:
    """Implements `Runner`. Making one imports and initialises the model.

    Args:
        settings: `arguments` (of `initialize`, row 15.2), `path` (the model file), `model_dir`, `outputs` (names).

    Raises:
        Refusal: INVALID_ARG: it cannot be imported, lacks what it must have, or `initialize` failed.
    """

    def __init__(self, settings: "dict[str, Any]") -> None:
        arguments = settings["arguments"]
        self._name = arguments["model_name"]
        self._instance = arguments["model_instance_name"]
        self._path = pathlib.Path(settings["path"])
        self._folder = pathlib.Path(settings["model_dir"])
        self._outputs = frozenset(settings["outputs"])
        self._dropped: set[str] = set()
        self._log = logging.getLogger("naiad.models." + self._name)
        self._running = Running(
            model=self._name, instance=self._instance, directory=str(self._path.parent)
        )
        context.current.set(self._running)
        try:
            entry_class = self._entry_class()
        except Refusal:
            raise
        except (Exception, SystemExit) as error:
            raise self._refusal(describe(error, self._folder)) from error
        try:
            self._model: Any = entry_class()
            if hasattr(self._model, "initialize"):
                self._model.initialize(arguments)
        except (Exception, SystemExit) as error:
            raise Refusal(
                "INVALID_ARG",
                f"failed to initialize model '{self._name}' (instance '{self._instance}'): "
                f"{describe(error, self._folder)}",
            ) from error

    def execute(self, requests: "list[ReceivedRequest]") -> Outcome:
        """See `Runner`."""
        outputs = self._outputs
        seen = [receive(each, outputs) for each in requests]
        context.current.set(self._running)
        input_end_ns = time.monotonic_ns()
        try:
            returned = self._model.execute(seen)
        except (Exception, SystemExit) as error:
            raise self._failed(describe(error, self._folder)) from error
        output_start_ns = time.monotonic_ns()
        if type(returned) is not list:
            raise self._failed(_not_a_list(returned))
        if len(returned) != len(requests):
            raise self._failed(
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                f"InferenceRequest(s) size is:{len(requests)}, and InferenceResponse(s) size is:{len(returned)}\n"
            )
        answers = [
            self._answer(response, request.requested_outputs)
            for response, request in zip(returned, requests)  # noqa: B905 - 3.8 knows no strict; they are as long as each other
        ]
        return Outcome(answers, input_end_ns, output_start_ns)

    def ready(self) -> bool:
        """What the model's own `is_ready` says, if it has one (row 2.12)."""
        if not hasattr(self._model, "is_ready"):
            return True
        context.current.set(self._running)
        try:
            answer = self._model.is_ready()
            if inspect.iscoroutine(answer):
                answer = asyncio.run(answer)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a hook may raise anything: then it is not ready
            self._log.error("is_ready failed: %s", describe(error, self._folder))
            return False
        if not isinstance(answer, bool):
            self._log.error("is_ready() must return a boolean value; it returned %r", answer)
            return False
        return answer

    def close(self) -> None:
        """Call the model's `finalize`, if it has one (row 15.33)."""
        if not hasattr(self._model, "finalize"):
            return
        context.current.set(self._running)
        try:
            self._model.finalize()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the process ends all the same, whatever it raises
            self._log.error("finalize failed: %s", describe(error, self._folder))

    def _entry_class(self) -> Any:
        path = self._path
        if not path.is_file():
            raise self._refusal(f"Python model file not found in '{path}'")
        if path.suffix != ".py":
            raise self._refusal(f"Model name must end with '.py'. Model name is \"{path.name}\".")
        sys.modules[_UTILS] = triton_python_backend_utils
        # A repository is not ours to write to.
        sys.dont_write_bytecode = True
        folders = [str(path.parent), str(self._folder)]
        at = _before_installed_packages()
        sys.path[at:at] = folders
        package = types.ModuleType(_PACKAGE)
        package.__path__ = folders
        sys.modules[_PACKAGE] = package
        module = importlib.import_module(_PACKAGE + "." + path.stem)
        found = getattr(module, "TritonPythonModel", None)
        if found is None:
            raise self._refusal(
                f"'{path}' does not define the class TritonPythonModel; it has to, with a method execute(self, requests)"
            )
        if not callable(getattr(found, "execute", None)):
            raise self._refusal(
                f"Python model {path} does not implement `execute` method: "
                "add execute(self, requests) to its TritonPythonModel"
            )
        return found

    def _answer(self, response: Any, wanted: "list[str]") -> Answer:
        if not isinstance(response, InferenceResponse):
            raise self._failed(
                "Expected an 'InferenceResponse' object in the execute function return list, found type "
                f"'{type(response)}'."
            )
        tensors, error, parameters = contents_of(response)
        if error is not None:
            return Answer([], {}, (error.code().name, error.message()))
        outputs: list[tuple[str, str, Any]] = []
        for tensor in tensors:
            name, values, code = parts_of(tensor)
            if name not in self._outputs:
                self._note_dropped(name)
            elif not wanted or name in wanted:
                outputs.append((name, _NAMES[code], values))
        return Answer(outputs, parameters)

    def _note_dropped(self, name: str) -> None:
        if name not in self._dropped:
            self._dropped.add(name)
            self._log.warning(
                "the model returns an output '%s' that its config does not list (it lists %s): left out",
                name,
                ", ".join(sorted(self._outputs)) or "none",
            )

    def _refusal(self, text: str) -> Refusal:
        return Refusal("INVALID_ARG", f"unable to load model '{self._name}': {text}")

    def _failed(self, text: str) -> Refusal:
        message = f"Failed to process the request(s) for model '{self._instance}', message: {text}"
        self._log.error("%s", message)
        return Refusal("INTERNAL", message)


def _before_installed_packages() -> int:
    """The first place on `sys.path` that is behind the standard library."""
    for place, folder in enumerate(sys.path):
        if folder.endswith(("site-packages", "dist-packages")):
            return place
    return len(sys.path)


def _not_a_list(returned: Any) -> str:
    if inspect.iscoroutine(returned):
        returned.close()  # else Python warns that it was never awaited
        return "async execute is not there yet in this server: make execute a plain def that returns a list"
    return (
        f"Expected a list in the execute return, found type '{type(returned)}'. "
        "Return [pb_utils.InferenceResponse(...), ...], one for each request, in their order"
    )
