"""Completion of a config from an engine's description (rows 11.49, 16.19), which a worker task reads. The rules and messages are those of Triton's tensorrt backend."""

import collections.abc
import os
import pathlib
import sys
from typing import Any

import msgspec

from naiad.backends import files_per_gpu
from naiad.backends.backend import WorkerPlan
from naiad.backends.instance import InstanceSpec
from naiad.backends.tensorrt.engine.description import LINEAR, EngineDescription, IoTensor, shown
from naiad.backends.tensorrt.engine.profiles import index_of
from naiad.backends.tensorrt.plugin import PLUGIN
from naiad.backends.tensorrt.settings import backend_settings_of
from naiad.backends.visible_devices import seen_by
from naiad.config.backend_type import CompletionError
from naiad.config.model_config import InstanceKind
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode, internal
from naiad.tensors.cudart import CudaError

_INVALID = model_config_pb2.TYPE_INVALID


def complete(message: Any, engine: EngineDescription) -> None:
    """Fill in max_batch_size, the batcher, inputs and outputs.

    Raises:
        CompletionError: the engine contradicts the config.
    """
    hinted, shaped = _batch_hint(message, engine)
    most = _most_rows(message, engine)
    if hinted and not most:
        raise _failed(
            f"autofill failed for model '{message.name}': model tensor shape configuration hints for dynamic batching but the "
            "underlying engine doesn't support batching."
        )
    if shaped and not hinted:
        most = 0
    if not message.max_batch_size:
        message.max_batch_size = most
    elif message.max_batch_size > most:
        raise _failed(
            f"autofill failed for model '{message.name}': configuration specified max-batch {message.max_batch_size} but TensorRT engine "
            f"only supports max-batch {most}",
            ("max_batch_size",),
        )
    if most > 1 and message.WhichOneof("scheduling_choice") is None:
        message.dynamic_batching.SetInParent()
    _fill(message, "input", engine.inputs)
    _fill(message, "output", engine.outputs)


def _batch_hint(message: Any, engine: EngineDescription) -> tuple[bool, bool]:
    """Whether the dims in the config leave out the first dimension, as those of a model that takes batches do; and whether it has any dims."""
    hinted = shaped = False
    for side, tensors in (("input", engine.inputs), ("output", engine.outputs)):
        for index, spec in enumerate(getattr(message, side)):
            if getattr(spec, "allow_ragged_batch", False):
                return True, shaped
            tensor = next((each for each in tensors if each.name == spec.name), None)
            if tensor is None:
                names = ", ".join(each.name for each in tensors)
                raise _failed(
                    f"unexpected inference {side} '{spec.name}', allowed {side}s are: {names} (model '{message.name}')",
                    (side, index, "name"),
                )
            dims = list(spec.reshape.shape) if spec.HasField("reshape") else list(spec.dims)
            if not dims:
                continue
            shaped = True
            batched = (
                tensor.shape[0] == dims[0] + 1
                if tensor.is_shape and tensor.shape
                else len(tensor.shape) == len(dims) + 1
            )
            hinted = hinted or batched
            if hinted and not batched:
                raise _failed(
                    f"unable to autofill for '{message.name}', model tensor configurations are contradicting each other in terms of whether batching "
                    f"is supported ({side} '{spec.name}' has dims {shown(dims)}, and the plan {shown(tensor.shape)})",
                    (side, index, "dims"),
                )
    return hinted, shaped


def _most_rows(message: Any, engine: EngineDescription) -> int:
    """The most rows of a batch, by the profiles that the instance groups use: the first dimension of every input is taken for the batch."""
    count = len(engine.profiles)
    indices: set[int] = set()
    for index, group in enumerate(message.instance_group):
        for name in group.profile:
            number = index_of(name)
            if not 0 <= number < count:
                raise _failed(
                    f"unable to autofill for '{message.name}', configuration specified invalid profile {name} . Number of profiles supported by "
                    f"TensorRT engine: {count}",
                    ("instance_group", index, "profile"),
                )
            indices.add(number)
    most = 0
    for number in indices or {0}:
        profile = engine.profiles[number]
        firsts = [
            (profile.values if tensor.is_shape else profile.shapes)[tensor.name].most
            for tensor in engine.inputs
        ]
        most = max(most, min((first[0] if first else 0 for first in firsts), default=0))
    return most


def _fill(message: Any, side: str, tensors: collections.abc.Iterable[IoTensor]) -> None:
    """Add the tensors of one side or, where the config lists some, what those leave out."""
    specs = getattr(message, side)
    by_name = {tensor.name: tensor for tensor in tensors}
    for name in () if specs else by_name:
        specs.add(name=name)
    for index, spec in enumerate(specs):
        tensor = by_name.get(spec.name)
        if tensor is None:
            continue
        if spec.data_type == _INVALID:
            spec.data_type = model_config_pb2.DataType.Value(tensor.config_type)
        if not spec.dims:
            _fill_dims(spec, tensor, batched=message.max_batch_size != 0)
        if spec.is_shape_tensor and not tensor.is_shape:
            raise CompletionError(
                f"'{spec.name}' is incorrectly specified as a shape tensor.",
                field=(side, index, "is_shape_tensor"),
                suggestion="take is_shape_tensor out",
            )
        spec.is_shape_tensor = tensor.is_shape
        if spec.is_non_linear_format_io and tensor.layout == LINEAR:
            raise CompletionError(
                f"'{spec.name}' uses a linear IO format, but 'is_non_linear_format_io' is incorrectly set to true in the model configuration.",
                field=(side, index, "is_non_linear_format_io"),
                suggestion="take is_non_linear_format_io out",
            )
        spec.is_non_linear_format_io = tensor.layout != LINEAR


def _fill_dims(spec: Any, tensor: IoTensor, *, batched: bool) -> None:
    if tensor.is_shape:
        if tensor.shape:
            spec.dims.append(tensor.shape[0] - (1 if batched else 0))
        return
    dims = tensor.shape[1:] if batched else tensor.shape
    spec.dims.extend(dims or (1,))
    if not dims:
        spec.reshape.SetInParent()


def _failed(text: str, field: tuple[str | int, ...] = ()) -> CompletionError:
    return CompletionError(text, field=field, code=ErrorCode.INTERNAL)


def plan_in_worker(
    message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
) -> WorkerPlan | None:
    """Reading the plan as a one-shot worker task on the first GPU of the config's first group; None if that is not on a GPU, as in Triton."""
    group = next(iter(message.instance_group), None)
    if (
        group is None
        or group.kind != model_config_pb2.ModelInstanceGroup.KIND_GPU
        or not group.gpus
    ):
        return None
    parameters = {key: value.string_value for key, value in message.parameters.items()}
    spec = InstanceSpec(name=group.name, kind=InstanceKind.GPU, device_id=group.gpus[0])
    seen = seen_by(spec, model=message.name, parameters=parameters, environ=os.environ)
    return WorkerPlan(
        load=f"{__name__}:describe_plan",
        settings={
            "model": message.name,
            "device": seen.spec.device_id,
            "version_dir": str(version_dir),
            "filename": message.default_model_filename,
            "filenames": dict(message.cc_model_filenames),
            "options": dict(options),
        },
        executable=sys.executable,
        environ=seen.variables,
    )


def describe_plan(settings: collections.abc.Mapping[str, Any]) -> Any:
    """The task: makes an engine of the plan, and gives its description as JSON has it.

    Raises:
        InferenceError: there is no such plan, or no engine can be made of it.
    """
    from naiad.backends.tensorrt import backend  # noqa: PLC0415 - it imports this module

    model, device = settings["model"], settings["device"]
    message = model_config_pb2.ModelConfig(default_model_filename=settings["filename"])
    message.cc_model_filenames.update(settings["filenames"])
    library = backend.open_library()
    cuda = backend.open_cuda(model)
    try:
        cuda.use_device(device)
        filename = files_per_gpu.filename_for(message, cuda.capability(device))
    except CudaError as error:
        raise internal(f"unable to set CUDA device to GPU {device} : {error}") from error
    path = PLUGIN.model_file(pathlib.Path(settings["version_dir"]), filename)
    engine = library.load(
        files_per_gpu.existing(path, model, filename),
        backend_settings_of(settings["options"]),
        dla_core=-1,
        model=model,
    )
    try:
        return msgspec.to_builtins(engine.description)
    finally:
        engine.close()
