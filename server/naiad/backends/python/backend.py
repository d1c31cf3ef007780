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

from typing_extensions import override

from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.completed_config import adopt
from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.backends.plugin import BackendContext
from naiad.backends.python.api.server import NO_SERVER, Server
from naiad.backends.python.completion import completed_by, may_complete
from naiad.backends.python.instance import PythonInstance
from naiad.backends.python.modules import CodeFiles, ModelCode
from naiad.backends.python.parameters import check_parameters, environment_of
from naiad.backends.python.plugin import PLUGIN
from naiad.backends.python.worker_model import initialized
from naiad.backends.visible_devices import seen_by
from naiad.config import config_json
from naiad.config.sequence_tensors import model_outputs
from naiad.core.clock import Clock
from naiad.environments.environments import Environments
from naiad.environments.spec import EnvironmentSpec, Options, refused_in_thread


def make(
    context: BackendContext, *, name: str = PLUGIN.name, file: pathlib.Path | None = None
) -> "PythonBackend":
    """Make the backend. The arguments are those of `PythonBackend`."""
    return PythonBackend(clock=context.clock, server=context.server, name=name, file=file)


class PythonBackend:
    """The backend `python`, or one based on it: then `file` is the model.py that serves all its models."""

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

    def complete(self, message: Any, version_dir: pathlib.Path, options: Options) -> None:
        """Let the model's own `auto_complete_config` fill in its config, if it has one (row 15.27).

        It may set inputs, outputs, max_batch_size, dynamic batching and the transaction policy (row 11.49); anything else that
        it changes is left out, as in Triton.
        """
        code = ModelCode(message.name, self._files_in_thread(message, version_dir, options))
        code.open()
        try:
            config = json.dumps(config_json.to_json(message))
            result = completed_by(code.entry_class, message.name, config, code.files.root)
        finally:
            code.close()
        self.take_completion(message, result)

    def completion_plan(
        self, message: Any, version_dir: pathlib.Path, options: Options
    ) -> WorkerPlan | None:
        """See `ModelsComplete`."""
        check_parameters(message)
        files = self._files(message, version_dir)
        if not may_complete(files.model_file):
            return None
        settings = {
            **files.settings(),
            "name": message.name,
            "config": json.dumps(config_json.to_json(message)),
        }
        executable, variables = self._program(message, version_dir, options)
        return WorkerPlan(
            load="naiad.backends.python.completion:complete",
            settings=settings,
            executable=executable,
            environ=variables,
        )

    def take_completion(self, message: Any, result: Any) -> None:
        """Take over what the model set; see `ModelsComplete`."""
        if result is None:
            return
        adopt(message, result, by=f"auto_complete_config function in model '{message.name}'")

    def load(self, source: ModelSource) -> "PythonModel":
        """Import a model version's code.

        Raises:
            InferenceError: INVALID_ARG: it cannot be imported, or needs an environment of its own, which a thread cannot have.
        """
        message = source.config.message
        files = self._files_in_thread(message, source.version_dir, source.options)
        code = ModelCode(message.name, files, server=self._server)
        code.open()
        return PythonModel(source, code, clock=self._clock)

    def worker_plan(self, source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
        """See `Backend`: the worker needs nothing of the server but the API that models see."""
        config = source.config
        message = config.message
        check_parameters(message)
        seen = seen_by(spec, model=config.name, parameters=config.parameters, environ=os.environ)
        executable, variables = self._program(message, source.version_dir, source.options)
        files = self._files(message, source.version_dir)
        return WorkerPlan(
            load="naiad.backends.python.worker_model:WorkerModel",
            settings=_settings(source, files, seen.spec),
            executable=executable,
            instances=(seen.spec,),
            environ={**variables, **seen.variables},
        )

    def close(self) -> None:
        """Stop environments that are being made."""
        self._environments.close()

    def _files_in_thread(
        self, message: Any, version_dir: pathlib.Path, options: Options
    ) -> CodeFiles:
        """The files of a model whose code runs in a thread of the server.

        Raises:
            InferenceError: INVALID_ARG: it needs an environment of its own.
        """
        check_parameters(message)
        spec = self._spec(message, version_dir, options)
        if spec is not None:
            raise refused_in_thread(message.name, spec)
        return self._files(message, version_dir)

    def _files(self, message: Any, version_dir: pathlib.Path) -> CodeFiles:
        if self._file is not None:
            root = self._file.parent
            return CodeFiles(model_file=self._file, root=root, version_dir=version_dir)
        path = version_dir / (message.default_model_filename or "model.py")
        return CodeFiles(model_file=path, root=version_dir.parent, version_dir=version_dir)

    def _spec(
        self, message: Any, version_dir: pathlib.Path, options: Options
    ) -> EnvironmentSpec | None:
        return environment_of(message, version_dir, options, backend_file=self._file)

    def _program(
        self, message: Any, version_dir: pathlib.Path, options: Options
    ) -> tuple[str, collections.abc.Mapping[str, str | None]]:
        """The one place that says in which interpreter and environment a model's processes run; the environment may be made first."""
        spec = self._spec(message, version_dir, options)
        if spec is None:
            return sys.executable, {}
        environment = self._environments.get(message.name, spec, options)
        return environment.executable, environment.variables


class PythonModel(LoadedModel):
    """A model version: its code, of which each instance makes an object of its own."""

    leaves_cycles = True
    """Its modules: every function refers to the module that it is in."""

    def __init__(self, source: ModelSource, code: ModelCode, *, clock: Clock) -> None:
        self._source = source
        self._code = code
        self._clock = clock

    @override
    def make_instance(self, spec: InstanceSpec) -> PythonInstance:
        """Make a TritonPythonModel and initialise it (rows 15.2, 15.3)."""
        code = self._code
        return initialized(
            code.entry_class,
            _settings(self._source, code.files, spec),
            running=code.enter(instance=spec.name),
            now_ns=self._clock.monotonic_ns,
        )

    @override
    def close(self) -> None:
        self._code.close()


def _settings(source: ModelSource, files: CodeFiles, spec: InstanceSpec) -> dict[str, Any]:
    """What an instance is made of; see `WorkerModel`."""
    config = source.config
    return {
        **files.settings(),
        "arguments": {
            "model_config": json.dumps(config_json.to_json(config.message)),
            "model_instance_kind": spec.kind.value,
            "model_instance_name": spec.name,
            "model_instance_device_id": str(spec.device_id),
            "model_repository": str(source.model_dir),
            "model_version": str(source.version),
            "model_name": config.name,
        },
        "outputs": [output.name for output in model_outputs(config)],
        "max_batch_size": config.max_batch_size,
        "decoupled": config.decoupled,
        "iterative": config.sequence_batching is not None and config.sequence_batching.iterative,
    }
