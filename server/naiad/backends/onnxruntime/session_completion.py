"""Completion of a config from a session, where the file alone does not say whether the model takes batches (`completion.leaves_batching_open`).

As in Triton, the session's shapes count then: onnxruntime works out more of them than the file declares.
"""

import base64
import collections.abc
import pathlib
import sys
from typing import Any

from naiad.backends.backend import WorkerPlan
from naiad.backends.onnxruntime import completion
from naiad.backends.onnxruntime.plan import plan_to_complete
from naiad.backends.onnxruntime.plugin import PLUGIN
from naiad.backends.onnxruntime.session import GlobalThreadPool, make_session, signature_of
from naiad.core.messages import model_config_pb2
from naiad.errors import InferenceError

Options = collections.abc.Mapping[str, str]


def complete(
    message: Any, version_dir: pathlib.Path, options: Options, pool: GlobalThreadPool
) -> None:
    """Complete a config here; from the file if no session can be made, so that the load says why.

    Raises:
        CompletionError: the model contradicts max_batch_size.
    """
    path = PLUGIN.model_file(version_dir, message.default_model_filename)
    try:
        plan = plan_to_complete(message, options)
        session = make_session(path, plan, model=message.name, pool=pool)
    except InferenceError:
        completion.complete(message, version_dir, options)
        return
    completion.complete_from(message, signature_of(session, path), options)


def plan_in_worker(message: Any, version_dir: pathlib.Path, options: Options) -> WorkerPlan:
    """The completion as a one-shot worker task."""
    return WorkerPlan(
        load=f"{__name__}:run_in_worker",
        settings={
            "config": _written(message),
            "version_dir": str(version_dir),
            "options": dict(options),
        },
        executable=sys.executable,
    )


def run_in_worker(settings: collections.abc.Mapping[str, Any]) -> str:
    """The task: gives the completed config, for `take`."""
    message = _read(settings["config"])
    complete(
        message, pathlib.Path(settings["version_dir"]), settings["options"], GlobalThreadPool()
    )
    return _written(message)


def take(message: Any, result: str) -> None:
    """Take over the config that a worker completed."""
    message.CopyFrom(_read(result))


def _written(message: Any) -> str:
    return base64.b64encode(message.SerializeToString(deterministic=True)).decode()


def _read(text: str) -> Any:
    return model_config_pb2.ModelConfig.FromString(base64.b64decode(text))
