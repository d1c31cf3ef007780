"""A pipeline in a worker process: read or made by the code of the model, held against the config, built by each instance. Importing this imports DALI."""

import pathlib
from typing import Any

import msgspec
from typing_extensions import override

from naiad.backends.dali import agreement, code
from naiad.backends.dali.agreement import ConfigTensor
from naiad.backends.dali.failures import reason_of
from naiad.backends.dali.instance import DaliInstance, OutputPlan
from naiad.backends.dali.plugin import CODE
from naiad.backends.dali.refusals import gpu_needed, refused
from naiad.backends.dali.serialized import MAX_BYTES, WHAT, Pipeline, of_bytes
from naiad.backends.dali.settings import Settings
from naiad.backends.instance import Instance, InstanceSpec, LoadedModel
from naiad.backends.model_files.wire_format import MalformedError
from naiad.errors import internal, invalid


def describe(settings: dict[str, Any]) -> dict[str, Any]:
    """What the code of a model says its pipeline is; see `DaliBackend.completion_plan`.

    Raises:
        InferenceError: INVALID_ARG: it cannot be run, or its pipeline is never served.
    """
    path = pathlib.Path(settings["path"])
    _load_plugins(settings["name"], settings["plugins"])
    _, pipeline = _pipeline(path, pathlib.Path(settings["root"]), settings["name"], device=None)
    return {"pipeline": msgspec.to_builtins(pipeline), "version_dir": str(path.parent)}


class WorkerModel(LoadedModel):
    """The pipeline of a model version, serialised.

    Args:
        settings: see `DaliBackend.worker_plan`.

    Raises:
        InferenceError: it cannot be read, or the config contradicts it.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._name: str = settings["name"]
        self._device: int | None = settings["device"]
        self._max_batch_size: int = settings["max_batch_size"]
        self._settings = msgspec.convert(settings["settings"], Settings)
        self._inputs = msgspec.convert(settings["inputs"], list[ConfigTensor])
        self._outputs = msgspec.convert(settings["outputs"], list[ConfigTensor])
        _load_plugins(self._name, self._settings.plugins)
        path = pathlib.Path(settings["path"])
        self._serialized, pipeline = _pipeline(
            path, pathlib.Path(settings["root"]), self._name, device=self._device
        )
        self._check(pipeline)
        self._samples = self._max_batch_size or max(1, pipeline.batch_size)

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        plans = [
            OutputPlan.of(each, batched=self._max_batch_size > 0, split=self._settings.split)
            for each in self._outputs
        ]
        try:
            return DaliInstance(
                self._serialized,
                model=self._name,
                inputs=[each.name for each in self._inputs],
                outputs=plans,
                samples=self._samples,
                threads=self._settings.threads,
                device=self._device,
            )
        except RuntimeError as error:
            raise internal(
                f"unable to load model '{self._name}': DALI cannot build its pipeline: {reason_of(error)}"
            ) from error

    def _check(self, pipeline: Pipeline) -> None:
        found = agreement.contradictions(
            pipeline,
            self._inputs,
            self._outputs,
            batched=self._max_batch_size > 0,
            split=self._settings.split,
        )
        if found:
            raise invalid(
                f"unable to load model '{self._name}': {found[0].text}: {found[0].suggestion}"
            )
        if self._device is None and (needing := pipeline.needing_gpu()):
            raise gpu_needed(self._name, needing)


def _pipeline(
    path: pathlib.Path, root: pathlib.Path, model: str, *, device: int | None
) -> tuple[bytes, Pipeline]:
    """The serialised pipeline of a file, and what it is; its bytes are those that were looked at.

    Raises:
        InferenceError: it does not hold one, or one that is never run.
    """
    if path.suffix == CODE:
        data = code.serialize(path, root, model, device=device)
    else:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise internal(
                f"unable to load model '{model}': unable to read '{path}': {error.strerror}"
            ) from error
        if len(data) > MAX_BYTES:
            raise invalid(
                f"unable to load model '{model}': '{path}' has more than {MAX_BYTES} bytes: it is not {WHAT}"
            )
    try:
        pipeline = of_bytes(data)
    except MalformedError as error:
        raise internal(f"unable to load model '{model}': '{path}' {error}") from error
    if reason := pipeline.refusal():
        raise refused(model, reason)
    return data, pipeline


def _load_plugins(model: str, plugins: Any) -> None:
    from nvidia.dali import plugin_manager  # noqa: PLC0415 - where there are any

    for path in plugins:
        try:
            plugin_manager.load_library(path)
        except RuntimeError as error:
            raise internal(
                f"unable to load model '{model}': unable to load '{path}', which plugin_libs names: {reason_of(error)}"
            ) from error
