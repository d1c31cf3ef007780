"""What loading a DALI model would refuse, seen without DALI: the config against a serialised pipeline, the text of one in Python, and settings."""

import collections.abc
import os
import pathlib
from typing import Any

from naiad.backends.backend import instance_specs
from naiad.backends.dali import agreement, code
from naiad.backends.dali.agreement import ConfigTensor
from naiad.backends.dali.backend import refuse_unserved, refused_in_thread
from naiad.backends.dali.plugin import CODE, PLUGIN
from naiad.backends.dali.refusals import gpu_needed, refused
from naiad.backends.dali.serialized import read
from naiad.backends.dali.settings import settings_of
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.backends.visible_devices import seen_by
from naiad.config.document import Document
from naiad.config.findings import Findings
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.config.problem import Problem, Scope
from naiad.config.refused import problem_of, problems_of
from naiad.config.sequence_tensors import added_inputs, added_outputs
from naiad.core.messages import model_config_pb2
from naiad.errors import InferenceError


def check_file(message: Any, path: pathlib.Path, findings: Findings) -> None:
    """Add a problem for everything in a completed config that the model's file contradicts, and for a file that is never served."""
    if path.suffix == CODE:
        fault = code.fault_of(path, path.parent.parent, message.name)
        if fault is not None:
            findings.problems.append(Problem(path=path, position=None, message=fault.message))
        return
    try:
        pipeline = read(path)
    except ModelFileError as error:
        text = f"unable to load model '{message.name}': {error}"
        findings.problems.append(Problem(path=path, position=None, message=text))
        return
    if reason := pipeline.refusal():
        text = refused(message.name, reason).message
        findings.problems.append(Problem(path=path, position=None, message=text))
        return
    split = (
        message.parameters["split_along_outer_axis"].string_value
        if "split_along_outer_axis" in message.parameters
        else ""
    )
    for each in agreement.contradictions(
        pipeline,
        [
            _tensor(spec)
            for spec in (*message.input, *(each.spec for each in added_inputs(message)))
        ],
        [
            _tensor(spec)
            for spec in (*message.output, *(each.spec for each in added_outputs(message)))
        ],
        batched=message.max_batch_size > 0,
        split=split.split(":"),
    ):
        findings.add(
            each.field, f"unable to load model '{message.name}': {each.text}", each.suggestion
        )


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
) -> list[Problem]:
    """See `Preflight`: what the config asks for, and pipelines for GPUs whose instances are on the CPU."""

    def in_process() -> None:
        if host == "thread":
            raise refused_in_thread(config.name)

    def devices() -> None:
        for spec in instance_specs(config):
            seen_by(spec, model=config.name, parameters=config.parameters, environ=os.environ)

    outputs = [spec.name for spec in config.outputs]
    problems = problems_of(
        document,
        [
            in_process,
            devices,
            lambda: refuse_unserved(config),
            lambda: settings_of(config.name, config.parameters, options, outputs=outputs),
        ],
    )
    if all(group.kind is InstanceKind.GPU for group in config.instance_groups):
        return problems
    # Where the config does not say KIND_CPU, the instances are on the CPU for this machine's lack of a GPU.
    chosen = any(
        group.kind == model_config_pb2.ModelInstanceGroup.KIND_CPU
        for group in document.message.instance_group
    )
    scope = Scope.ANYWHERE if chosen else Scope.HERE
    for version in versions:
        path = PLUGIN.model_file(model_dir / str(version), config.default_model_filename)
        if (error := _needing_gpu(path, config.name)) is not None:
            problems.append(problem_of(error, document, path=path, scope=scope))
    return problems


def _needing_gpu(path: pathlib.Path, model: str) -> InferenceError | None:
    if path.suffix == CODE:
        return None
    try:
        needing = read(path).needing_gpu()
    except ModelFileError:
        return None  # `check_file` says so
    return gpu_needed(model, needing) if needing else None


def _tensor(spec: Any) -> ConfigTensor:
    reshaped = hasattr(spec, "reshape") and spec.HasField("reshape")
    dims = tuple(spec.reshape.shape) if reshaped else tuple(spec.dims)
    named = model_config_pb2.DataType.Name(spec.data_type) if spec.data_type else ""
    return ConfigTensor(name=spec.name, data_type=named, dims=dims if dims or reshaped else None)
