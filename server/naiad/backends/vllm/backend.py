"""The backend `vllm`: a Python-based backend whose model code is the server's own (`language_model.py`)."""

import pathlib
from typing import Any

from typing_extensions import override

from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.backends.plugin import BackendContext
from naiad.backends.python.backend import PythonBackend, PythonModel
from naiad.backends.python.parameters import environment_of
from naiad.backends.vllm import engine_arguments
from naiad.backends.vllm.plugin import PLUGIN
from naiad.config.model_config import ModelConfig
from naiad.errors import invalid

ENTRY = pathlib.Path(__file__).parent / "entry" / "model.py"


def make(context: BackendContext) -> "VllmBackend":
    """Make the backend."""
    return VllmBackend(clock=context.clock, server=context.server, name=PLUGIN.name, file=ENTRY)


class VllmBackend(PythonBackend):
    """Serves language models. What can be seen to be wrong without vllm is refused before a worker is started."""

    @override
    def load(self, source: ModelSource) -> PythonModel:
        """See `Backend`: in a thread of the server."""
        check_config(source.config)
        check_version(source.config, source.version_dir, own_environment=False)
        return super().load(source)

    @override
    def worker_plan(self, source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
        """See `Backend`."""
        check_config(source.config)
        environment = environment_of(
            source.config.message, source.version_dir, source.options, backend_file=ENTRY
        )
        arguments = check_version(
            source.config, source.version_dir, own_environment=environment is not None
        )
        engine_arguments.check_devices(source.config.name, arguments, spec.kind.value)
        return super().worker_plan(source, spec)


def check_config(config: ModelConfig) -> None:
    """See that a config leaves batches to the engine.

    Raises:
        InferenceError: INVALID_ARG: it does not.
    """
    message: Any = config.message
    if config.max_batch_size > 0:
        raise invalid(
            f"unable to load model '{config.name}': max_batch_size is {config.max_batch_size}, and the engine of vllm forms its batches itself: "
            "take it out, or write max_batch_size: 0"
        )
    if not message.model_transaction_policy.decoupled:
        raise invalid(
            f"unable to load model '{config.name}': a model of vllm streams its responses: write model_transaction_policy {{ decoupled: true }}"
        )


def check_version(
    config: ModelConfig, version_dir: pathlib.Path, *, own_environment: bool
) -> engine_arguments.EngineArguments:
    """Check the files of a version, and that vllm is there, as far as this interpreter knows: the model may have an environment of its own.

    Raises:
        InferenceError: something is wrong or missing.
    """
    arguments = engine_arguments.read_arguments(config.name, version_dir)
    if not own_environment:
        engine_arguments.check_installed(config.name)
        known = engine_arguments.known_by_source()
        if known:
            engine_arguments.check_known(config.name, version_dir, arguments, known)
    return arguments
