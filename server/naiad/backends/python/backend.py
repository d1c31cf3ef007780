"""Models written in Python (section 15): finds the class in model.py, completes configs, makes instances.

What a model sees is `api/`; how its modules are kept apart from other models' is `modules.py`; how it is called is
`instance.py`.
"""

import collections.abc
import json
import os
import pathlib
import sys
from typing import Any

from google.protobuf import json_format
from typing_extensions import override

from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.backends.plugin import BackendContext
from naiad.backends.python import prints
from naiad.backends.python.api import context
from naiad.backends.python.api.context import Running
from naiad.backends.python.api.model_config import ModelConfig
from naiad.backends.python.api.server import NO_SERVER, Server
from naiad.backends.python.code_files import CodeFiles, code_files
from naiad.backends.python.completion import may_complete, shown
from naiad.backends.python.failures import describe, raised
from naiad.backends.python.instance import PythonInstance
from naiad.backends.python.modules import ModelPackage
from naiad.backends.python.plugin import PLUGIN
from naiad.backends.python.worker_model import check_file, class_of, initialized, load_error
from naiad.backends.visible_devices import seen_by
from naiad.config import config_json
from naiad.core.clock import Clock
from naiad.core.messages import model_config_pb2
from naiad.environments.environments import Environments
from naiad.environments.spec import EnvironmentSpec, refused_in_thread, spec_of
from naiad.errors import InferenceError, invalid

_COMPLETED = ("input", "output")
_FORCE_CPU = "FORCE_CPU_ONLY_INPUT_TENSORS"


def make(
    context: BackendContext, *, name: str = PLUGIN.name, file: pathlib.Path | None = None
) -> "PythonBackend":
    """Make the backend.

    Args:
        context: what the server gives to it.
        name: of a Python-based backend.
        file: the model.py of that one; None for the backend `python` itself.
    """
    return PythonBackend(clock=context.clock, server=context.server, name=name, file=file)


class PythonBackend:
    """The backend `python`, or one based on it.

    Args:
        clock: for the times in an `Execution`.
        server: the calls that models may make to the server.
        name: the backend's.
        file: the model.py that serves all models of a Python-based backend; None where each model has one.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        server: Server = NO_SERVER,
        name: str = PLUGIN.name,
        file: pathlib.Path | None = None,
    ) -> None:
        self.name = name
        self._file = file
        self._clock = clock
        self._environments = Environments(clock=clock)
        self._server = server

    def complete(
        self,
        message: Any,
        *,
        model_dir: pathlib.Path,
        version_dir: pathlib.Path,
        options: collections.abc.Mapping[str, str],
    ) -> None:
        """Let the model's own `auto_complete_config` fill in its config, if it has one (row 15.27).

        It may set inputs, outputs, max_batch_size, dynamic batching and the transaction policy (row 11.49); anything else that
        it changes is left out, as in Triton.
        """
        _check_parameters(message)
        spec = self._spec(message, model_dir, version_dir, options)
        if spec is not None:
            raise refused_in_thread(message.name, spec)
        code = _ModelCode(
            message.name, self._files(message.default_model_filename, model_dir, version_dir)
        )
        code.open()
        try:
            completer = getattr(code.entry_class, "auto_complete_config", None)
            if completer is not None:
                code.enter(instance="")
                _merge(message, _completed(code, completer, message))
        finally:
            code.close()

    def completion_plan(
        self,
        message: Any,
        *,
        model_dir: pathlib.Path,
        version_dir: pathlib.Path,
        options: collections.abc.Mapping[str, str],
    ) -> WorkerPlan | None:
        """See `ModelsComplete`."""
        _check_parameters(message)
        files = self._files(message.default_model_filename, model_dir, version_dir)
        if not may_complete(files.model_file):
            return None
        settings = {
            **files.settings(),
            "name": message.name,
            "config": json.dumps(config_json.to_json(message)),
        }
        executable, variables = self._program(
            message.name, self._spec(message, model_dir, version_dir, options), options
        )
        return WorkerPlan(
            load="naiad.backends.python.completion:complete",
            settings=settings,
            executable=executable,
            environ=variables,
        )

    def take_completion(self, message: Any, result: Any) -> None:
        """See `ModelsComplete`."""
        if result is not None:
            _merge(message, result)

    def load(self, source: ModelSource) -> "PythonModel":
        """Import a model version's code.

        Raises:
            InferenceError: INVALID_ARG: it cannot be imported, or needs an environment of its own, which a thread cannot have.
        """
        _check_parameters(source.config.message)
        spec = self._spec_of(source)
        if spec is not None:
            raise refused_in_thread(source.config.name, spec)
        files = self._files_of(source)
        code = _ModelCode(source.config.name, files, server=self._server)
        code.open()
        return PythonModel(source, code, clock=self._clock)

    def worker_plan(self, source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
        """See `Backend`: the worker needs nothing of the server but the API that models see."""
        config = source.config
        _check_parameters(config.message)
        seen = seen_by(spec, model=config.name, parameters=config.parameters, environ=os.environ)
        executable, variables = self._program(config.name, self._spec_of(source), source.options)
        settings = {
            **self._files_of(source).settings(),
            "arguments": _arguments(source, seen.spec),
            "outputs": [output.name for output in config.outputs],
            "max_batch_size": config.max_batch_size,
            "decoupled": config.decoupled,
        }
        return WorkerPlan(
            load="naiad.backends.python.worker_model:WorkerModel",
            settings=settings,
            executable=executable,
            instance=seen.spec,
            environ={**variables, **seen.variables},
        )

    def close(self) -> None:
        """Stop environments that are being made."""
        self._environments.close()

    def _files_of(self, source: ModelSource) -> CodeFiles:
        filename = source.config.default_model_filename
        return self._files(filename, source.model_dir, source.version_dir)

    def _files(
        self, filename: str, model_dir: pathlib.Path, version_dir: pathlib.Path
    ) -> CodeFiles:
        return code_files(
            filename,
            model_dir=model_dir,
            version_dir=version_dir,
            backend_file=self._file,
        )

    def _spec_of(self, source: ModelSource) -> EnvironmentSpec | None:
        return self._environment(
            source.config.name,
            source.config.parameters,
            model_dir=source.model_dir,
            version_dir=source.version_dir,
            options=source.options,
        )

    def _spec(
        self,
        message: Any,
        model_dir: pathlib.Path,
        version_dir: pathlib.Path,
        options: collections.abc.Mapping[str, str],
    ) -> EnvironmentSpec | None:
        return self._environment(
            message.name,
            {key: value.string_value for key, value in message.parameters.items()},
            model_dir=model_dir,
            version_dir=version_dir,
            options=options,
        )

    def _environment(
        self, model: str, parameters: collections.abc.Mapping[str, str], **where: Any
    ) -> EnvironmentSpec | None:
        backend_dir = self._file.parent if self._file is not None else None
        return spec_of(model, parameters=parameters, backend_dir=backend_dir, **where)

    def _program(
        self, model: str, spec: EnvironmentSpec | None, options: collections.abc.Mapping[str, str]
    ) -> tuple[str, collections.abc.Mapping[str, str | None]]:
        """The one place that says in which interpreter and environment a model's processes run; the environment may be made first."""
        if spec is None:
            return sys.executable, {}
        environment = self._environments.get(model, spec, options)
        return environment.executable, environment.variables


class PythonModel(LoadedModel):
    """A model version: its code, of which each instance makes an object of its own.

    Args:
        source: what was loaded.
        code: its modules, open.
        clock: for its instances.
    """

    leaves_cycles = True
    """Its modules: every function refers to the module that it is in."""

    def __init__(self, source: ModelSource, code: "_ModelCode", *, clock: Clock) -> None:
        self._source = source
        self._code = code
        self._clock = clock

    @override
    def make_instance(self, spec: InstanceSpec) -> PythonInstance:
        """Make a TritonPythonModel and initialise it (rows 15.2, 15.3)."""
        source = self._source
        config = source.config
        running = self._code.enter(instance=spec.name)
        return PythonInstance(
            initialized(self._code.entry_class, _arguments(source, spec), self._code.files.root),
            running=running,
            folder=self._code.files.root,
            outputs=frozenset(output.name for output in config.outputs),
            max_batch_size=config.max_batch_size,
            decoupled=config.decoupled,
            now_ns=self._clock.monotonic_ns,
        )

    @override
    def close(self) -> None:
        """Forget the model's modules."""
        self._code.close()


def _arguments(source: ModelSource, spec: InstanceSpec) -> dict[str, str]:
    """What `initialize` is given (row 15.2)."""
    config = source.config
    return {
        "model_config": json.dumps(config_json.to_json(config.message)),
        "model_instance_kind": spec.kind.value,
        "model_instance_name": spec.name,
        "model_instance_device_id": str(spec.device_id),
        "model_repository": str(source.model_dir),
        "model_version": str(source.version),
        "model_name": config.name,
    }


class _ModelCode:
    """A model version's modules and the class among them.

    Args:
        model: the model's name.
        files: of its code.
        server: the calls that its code may make to the server.
    """

    def __init__(self, model: str, files: CodeFiles, *, server: Server = NO_SERVER) -> None:
        self._model = model
        self.files = files
        self._server = server
        folders = dict.fromkeys((files.model_file.parent, files.root))
        self._package = ModelPackage(f"{model}_{files.version_dir.name}", tuple(folders))
        self.entry_class: Any = None

    def open(self) -> None:
        """Import the model file and find TritonPythonModel (row 15.1).

        Raises:
            InferenceError: INVALID_ARG: no such file, or it cannot be imported, or it does not hold what it must.
        """
        path = self.files.model_file
        check_file(path, self._model)
        self._package.open()
        try:
            self.enter(instance="")
            self.entry_class = class_of(self._package.load(path.stem), path, self._model)
        except InferenceError:
            self.close()
            raise
        except raised() as error:
            self.close()
            raise load_error(self._model, describe(error, self.files.root)) from error

    def enter(self, *, instance: str) -> Running:
        """Say that this thread runs the model's code from now on; the result says the same to `context.current` later."""
        running = Running(
            model=self._model,
            instance=instance,
            directory=str(self.files.version_dir),
            server=self._server,
        )
        prints.listen()
        context.current.set(running)
        context.of_module.setdefault(self._package.name, []).append(running)
        return running

    def close(self) -> None:
        """Forget the modules. Safe at any time."""
        self.entry_class = None
        context.of_module.pop(self._package.name, None)
        self._package.close()

    def call_error(self, what: str, error: BaseException) -> InferenceError:
        """The error of a call into the model's code that failed."""
        return load_error(self._model, f"{what} failed: {describe(error, self.files.root)}")


def _completed(code: _ModelCode, completer: Any, message: Any) -> dict[str, Any]:
    """What `auto_complete_config` makes of a config."""
    given = ModelConfig(json.dumps(config_json.to_json(message)))
    try:
        completed = completer(given)
    except raised() as error:
        raise code.call_error("auto_complete_config", error) from error
    try:
        return shown(message.name, completed)
    except ValueError as error:
        raise invalid(str(error)) from error


def _merge(message: Any, shown: dict[str, Any]) -> None:
    """Take over what a backend may set (row 11.49)."""
    wanted = {
        key: shown[key]
        for key in (*_COMPLETED, "max_batch_size", "dynamic_batching", "model_transaction_policy")
        if key in shown
    }
    parsed = model_config_pb2.ModelConfig()
    try:
        json_format.ParseDict(wanted, parsed)
    except json_format.ParseError as error:
        raise invalid(
            f"auto_complete_config function in model '{message.name}' set something other than a model configuration: {error}"
        ) from error
    for field in _COMPLETED:
        message.ClearField(field)
        getattr(message, field).extend(getattr(parsed, field))
    message.max_batch_size = parsed.max_batch_size
    if parsed.HasField("dynamic_batching") and message.WhichOneof("scheduling_choice") is None:
        message.dynamic_batching.CopyFrom(parsed.dynamic_batching)
    if parsed.HasField("model_transaction_policy"):
        message.model_transaction_policy.CopyFrom(parsed.model_transaction_policy)


def _check_parameters(message: Any) -> None:
    """Refuse what Triton refuses (row 15.31); in a thread of the server every tensor is in the host's memory anyway."""
    forced = message.parameters.get(_FORCE_CPU)
    if forced is not None and forced.string_value.lower() not in {"yes", "no"}:
        raise invalid(
            f"Incorrect value for {_FORCE_CPU}: '{forced.string_value}' (model '{message.name}'); "
            'it must be "yes" or "no"'
        )
