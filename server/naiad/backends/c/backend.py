"""A backend that is a library in C: plans the worker processes that load it, or complete a config by it. The server itself never does."""

import collections.abc
import json
import os
import pathlib
import sys
from typing import Any

from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.c import adapter, library
from naiad.backends.completed_config import adopt
from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.backends.plugin import BackendContext
from naiad.backends.visible_devices import seen_by
from naiad.config import config_json
from naiad.config.sequence_tensors import model_outputs
from naiad.errors import InferenceError, invalid

Options = collections.abc.Mapping[str, str]


def make(_context: BackendContext, *, name: str, backend_dir: pathlib.Path | None) -> "CBackend":
    """Make the backend. The arguments are those of `CBackend`."""
    return CBackend(name=name, backend_dir=backend_dir)


class CBackend:
    """Implements `Backend`, `PlansWorkers` and `ModelsComplete`.

    Args:
        name: its name.
        backend_dir: its folder in `--backend-directory`; None without one.
    """

    def __init__(self, *, name: str, backend_dir: pathlib.Path | None) -> None:
        self._name = name
        self._backend_dir = backend_dir

    def load(self, source: ModelSource) -> LoadedModel:
        """Refuse: this is how a model is loaded into a thread of the server.

        Raises:
            InferenceError: always.
        """
        library.check_config(source.config, "thread")
        raise AssertionError

    def worker_plan(self, source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
        """See `PlansWorkers`."""
        config = source.config
        library.check_config(config, "process")
        places = library.folders(source.model_dir, source.version, self._backend_dir)
        path = library.find(self._name, places, config.name)
        library.check_library(path, config.name)
        seen = seen_by(spec, model=config.name, parameters=config.parameters, environ=os.environ)
        return WorkerPlan(
            load="naiad.backends.c.worker_model:WorkerModel",
            settings={
                **self._settings(
                    config.message, source.model_dir / str(source.version), path, source.options
                ),
                "batched": config.max_batch_size > 0,
                "outputs": [
                    [
                        output.name,
                        output.datatype.name,
                        list(output.dims if output.reshape is None else output.reshape),
                    ]
                    for output in model_outputs(config)
                ],
            },
            executable=sys.executable,
            instances=(seen.spec,),
            environ=seen.variables,
        )

    def complete(self, message: Any, version_dir: pathlib.Path, options: Options) -> None:
        """See `ModelsComplete`: asked for in a thread, where no library is loaded; the load refuses it."""

    def completion_plan(
        self, message: Any, version_dir: pathlib.Path, options: Options
    ) -> WorkerPlan | None:
        """See `ModelsComplete`; None for a library that completes nothing. What is wrong with its file is said by the load."""
        places = library.folders(version_dir.parent, int(version_dir.name), self._backend_dir)
        try:
            path = library.find(self._name, places, message.name)
            library.check_library(path, message.name)
        except InferenceError:
            return None
        if not library.may_complete(path):
            return None
        return WorkerPlan(
            load="naiad.backends.c.worker_model:complete",
            settings=self._settings(message, version_dir, path, options),
            executable=sys.executable,
        )

    def take_completion(self, message: Any, result: Any) -> None:
        """See `ModelsComplete`."""
        if result is None:
            return
        by = f"the library of backend '{self._name}' of model '{message.name}'"
        try:
            completed = json.loads(result)
        except ValueError as error:
            raise invalid(f"{by} set a config that is not valid JSON: {error}") from error
        if not isinstance(completed, dict):
            raise invalid(f"{by} set a config that is {type(completed).__name__}, not an object")
        adopt(message, completed, by=by)

    def _settings(
        self, message: Any, version_dir: pathlib.Path, path: pathlib.Path, options: Options
    ) -> dict[str, Any]:
        """What both need that open the library; see `WorkerModel`."""
        return {
            "library": str(path.absolute()),
            "adapter": str(adapter.compiled()) if library.is_for_triton(path) else "",
            "backend": self._name,
            "name": message.name,
            "version": int(version_dir.name),
            "model_dir": str(version_dir.parent),
            "version_dir": str(version_dir),
            "config": json.dumps(config_json.to_json(message)),
            "options": dict(options),
            "states": [state.output_name for state in message.sequence_batching.state],
            "decoupled": message.model_transaction_policy.decoupled,
        }
