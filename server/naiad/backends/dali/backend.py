"""The backend `dali`: plans the worker processes in which pipelines run. Imports no DALI: that happens in them alone.

DALI starts threads of its own, which no fork survives, and `dali.py` is code of the model; so no pipeline runs in a thread of the server.
"""

import collections.abc
import os
import pathlib
import sys
from typing import Any, NoReturn

import msgspec

from naiad.backends.backend import ModelSource, WorkerPlan
from naiad.backends.dali import code, completion
from naiad.backends.dali.plugin import CODE, PLUGIN
from naiad.backends.dali.serialized import Pipeline
from naiad.backends.dali.settings import settings_of
from naiad.backends.instance import InstanceSpec
from naiad.backends.plugin import BackendContext
from naiad.backends.registry import check_installed
from naiad.backends.visible_devices import seen_by
from naiad.config.model_config import InstanceKind, ModelConfig, TensorSpec
from naiad.config.sequence_tensors import model_inputs, model_outputs
from naiad.errors import InferenceError, invalid, unavailable

Options = collections.abc.Mapping[str, str]


def make(context: BackendContext) -> "DaliBackend":
    """Make the backend."""
    return DaliBackend()


class DaliBackend:
    """The backend `dali`."""

    def load(self, source: ModelSource) -> NoReturn:
        """See `Backend`: asked for in a thread, which is refused.

        Raises:
            InferenceError: INVALID_ARG: always.
        """
        raise refused_in_thread(source.config.name)

    def worker_plan(self, source: ModelSource, spec: InstanceSpec) -> WorkerPlan:
        """See `PlansWorkers`."""
        config = source.config
        check_installed(PLUGIN)
        refuse_unserved(config)
        path = model_file(source.version_dir, config.default_model_filename, config.name)
        seen = seen_by(spec, model=config.name, parameters=config.parameters, environ=os.environ)
        outputs = model_outputs(config)
        settings = settings_of(
            config.name, config.parameters, source.options, outputs=[each.name for each in outputs]
        )
        return WorkerPlan(
            load="naiad.backends.dali.worker_model:WorkerModel",
            settings={
                "name": config.name,
                "path": str(path),
                "root": str(source.model_dir),
                "device": seen.spec.device_id if seen.spec.kind is InstanceKind.GPU else None,
                "max_batch_size": config.max_batch_size,
                "inputs": [_plain(each) for each in model_inputs(config)],
                "outputs": [_plain(each) for each in outputs],
                "settings": msgspec.to_builtins(settings),
            },
            executable=sys.executable,
            instances=(seen.spec,),
            environ=seen.variables,
        )

    def complete(self, message: Any, version_dir: pathlib.Path, options: Options) -> None:
        """See `ModelsComplete`: asked for in a thread, which is refused.

        Raises:
            InferenceError: INVALID_ARG: always.
        """
        raise refused_in_thread(message.name)

    def completion_plan(
        self, message: Any, version_dir: pathlib.Path, options: Options
    ) -> WorkerPlan:
        """See `ModelsComplete`: the code of the model is run, and says what its pipeline is."""
        check_installed(PLUGIN)
        path = model_file(version_dir, message.default_model_filename, message.name)
        plugins = options.get("plugin_libs", "").split(":")
        return WorkerPlan(
            load="naiad.backends.dali.worker_model:describe",
            settings={
                "name": message.name,
                "path": str(path),
                "root": str(version_dir.parent),
                "plugins": list(filter(None, plugins)),
            },
            executable=sys.executable,
        )

    def take_completion(self, message: Any, result: Any) -> None:
        """See `ModelsComplete`."""
        pipeline = msgspec.convert(result["pipeline"], Pipeline)
        completion.complete_from(message, pathlib.Path(result["version_dir"]), pipeline)


def refused_in_thread(model: str) -> InferenceError:
    """The error of a model that is to run in a thread of the server."""
    return invalid(
        f"unable to load model '{model}': pipelines of DALI run in worker processes alone: take host=thread out (parameter naiad.host, or "
        f"--backend-config={PLUGIN.name},host=thread)"
    )


def model_file(version_dir: pathlib.Path, filename: str, model: str) -> pathlib.Path:
    """The file of a version; one in Python has been read, and nothing in it is known to be refused.

    Raises:
        InferenceError: UNAVAILABLE: there is none; INVALID_ARG: it is Python and cannot be run.
    """
    path = PLUGIN.model_file(version_dir, filename)
    if not path.is_file():
        raise unavailable(
            f"unable to load model '{model}': unable to find '{path}': put the pipeline there, serialised, or write it in {version_dir / 'dali.py'}"
        )
    if path.suffix == CODE and (fault := code.fault_of(path, version_dir.parent, model)):
        raise fault
    return path


def refuse_unserved(config: ModelConfig) -> None:
    """See that a config asks for nothing that pipelines are not served with.

    Raises:
        InferenceError: INVALID_ARG: it is decoupled, or has an input that may be left out, or a batch_input or batch_output.
    """
    text = ""
    if config.decoupled:
        text = (
            "model_transaction_policy is decoupled, which is for pipelines that split videos into many responses, and these are not served: take it "
            "out, and send the frames of one response in each request"
        )
    elif config.batch_inputs or config.batch_outputs:
        text = "batch_input and batch_output have no use here: a pipeline takes the samples of a ragged batch as they are: take them out"
    elif optional := [spec.name for spec in config.inputs if spec.optional]:
        text = f"input '{optional[0]}' is optional, and a pipeline needs all of its inputs: take optional out"
    if text:
        raise invalid(f"unable to load model '{config.name}': {text}")


def _plain(spec: TensorSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "data_type": spec.datatype.config_name,
        "dims": list(spec.dims if spec.reshape is None else spec.reshape),
    }
