"""A backend that is a library in C: plans the worker processes that load it. The server itself never does."""

import json
import os
import pathlib
import sys

from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.c import adapter, library
from naiad.backends.instance import InstanceSpec, LoadedModel
from naiad.backends.plugin import BackendContext
from naiad.backends.visible_devices import seen_by
from naiad.config import config_json
from naiad.config.sequence_tensors import model_outputs


def make(_context: BackendContext, *, name: str, backend_dir: pathlib.Path | None) -> "CBackend":
    """Make the backend. The arguments are those of `CBackend`."""
    return CBackend(name=name, backend_dir=backend_dir)


class CBackend:
    """Implements `Backend` and `PlansWorkers`.

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
        for_triton = library.is_for_triton(path)
        seen = seen_by(spec, model=config.name, parameters=config.parameters, environ=os.environ)
        return WorkerPlan(
            load="naiad.backends.c.worker_model:WorkerModel",
            settings={
                "library": str(path.absolute()),
                "adapter": str(adapter.compiled()) if for_triton else "",
                "backend": self._name,
                "name": config.name,
                "version": source.version,
                "model_dir": str(source.model_dir),
                "version_dir": str(source.version_dir),
                "config": json.dumps(config_json.to_json(config.message)),
                "options": dict(source.options),
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
