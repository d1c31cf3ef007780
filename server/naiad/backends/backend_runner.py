"""Any backend in a worker process: what a process runs for frameworks without lighter code of their own, ONNX Runtime and the like.

The worker loads the model by the same code as a thread of the server would, so it needs everything that the server needs and runs in
the server's interpreter.
"""

import base64
import collections.abc
import os
import pathlib
import sys
from typing import Any

from typing_extensions import override

from naiad.backends import files_per_gpu
from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.instance import Instance, InstanceSpec, LoadedModel
from naiad.backends.registry import Registry
from naiad.backends.visible_devices import seen_by
from naiad.config.model_config import InstanceKind
from naiad.config.typed import typed
from naiad.core.clock import SystemClock
from naiad.core.messages import model_config_pb2


def plan_of(source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
    """How an instance of any backend runs in a worker process."""
    config = source.config.message.SerializeToString(deterministic=True)
    seen = seen_by(
        spec, model=source.config.name, parameters=source.config.parameters, environ=os.environ
    )
    return WorkerPlan(
        load=f"{__name__}:BackendRunner",
        settings={
            "config": base64.b64encode(config).decode(),
            "version": source.version,
            "model_dir": str(source.model_dir),
            "options": dict(source.options),
            "device": seen.spec.device_id if spec.kind is InstanceKind.GPU else None,
        },
        executable=sys.executable,
        instances=(seen.spec,),
        environ=seen.variables,
    )


class BackendRunner(LoadedModel):
    """Implements `LoadedModel` in a worker process, from settings that `plan_of` has made.

    Raises:
        InferenceError: the model cannot be loaded.
    """

    def __init__(self, settings: collections.abc.Mapping[str, Any]) -> None:
        message = model_config_pb2.ModelConfig.FromString(base64.b64decode(settings["config"]))
        config = typed(message)
        source = ModelSource(
            config=config,
            version=settings["version"],
            model_dir=pathlib.Path(settings["model_dir"]),
            options=settings["options"],
        )
        if settings["device"] is not None:
            source = files_per_gpu.for_device(source, settings["device"])
        backend = Registry(clock=SystemClock()).get(config.backend)
        self._loaded: LoadedModel = backend.load(source)
        self.leaves_cycles = self._loaded.leaves_cycles

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        return self._loaded.make_instance(spec._replace(kind=InstanceKind(spec.kind)))

    @override
    def close(self) -> None:
        self._loaded.close()
