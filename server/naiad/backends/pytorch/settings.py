"""What the parameters and `optimization` of a PyTorch model ask of torch (rows 11.21, 16.15, 16.17). Pure."""

import collections.abc
import json
from typing import Any

import msgspec

from naiad.backends.parameter_values import boolean, integer
from naiad.core.messages import model_config_pb2
from naiad.errors import invalid

_FIRST = -100
"""A priority before all that a GPU has."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a model; None is torch's own default.

    Attributes:
        optimized_execution: the executor optimises graphs while it runs them; the first runs of each shape take longer for it.
        inference_mode: run in `torch.inference_mode`, else in `torch.no_grad`.
        cudnn: use cuDNN, on a GPU.
        cache_cleaning: give cached memory of the GPU back after each batch.
        jit_executor, jit_profiling, tensor_fuser: of TorchScript's executor.
        intra_op_threads, inter_op_threads: threads of the process; the first model that sets them decides for all of its process.
        compile_parameters: arguments of `torch.compile`, of the Python runtime; None without any.
    """

    optimized_execution: bool = True
    inference_mode: bool = True
    cudnn: bool = True
    cache_cleaning: bool = False
    jit_executor: bool | None = None
    jit_profiling: bool | None = None
    tensor_fuser: bool | None = None
    intra_op_threads: int | None = None
    inter_op_threads: int | None = None
    compile_parameters: collections.abc.Mapping[str, Any] | None = None


class DeviceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `optimization` asks of instances on a GPU (row 11.21).

    Attributes:
        priority: of the stream, as CUDA numbers them: a smaller number goes first; torch takes the nearest that the GPU has.
        pinned_inputs: inputs are gathered in pinned memory; otherwise in ordinary memory, which CUDA copies more slowly.
        pinned_outputs: the same of outputs.
    """

    priority: int = 0
    pinned_inputs: bool = True
    pinned_outputs: bool = True


def device_settings_of(message: Any) -> DeviceSettings:
    """The settings in a config.

    PRIORITY_MIN leaves the stream as it is: torch has no priority below CUDA's default.
    """
    optimization = message.optimization
    first = optimization.priority == model_config_pb2.ModelOptimizationPolicy.PRIORITY_MAX
    return DeviceSettings(
        priority=_FIRST if first else 0,
        pinned_inputs=_enabled(optimization, "input_pinned_memory"),
        pinned_outputs=_enabled(optimization, "output_pinned_memory"),
    )


def _enabled(optimization: Any, field: str) -> bool:
    return not optimization.HasField(field) or bool(getattr(optimization, field).enable)


def settings_of(
    model: str, parameters: collections.abc.Mapping[str, str], *, python_runtime: bool
) -> Settings:
    """The settings in a model's parameters.

    With the Python runtime the numbers of threads have other names, and are 1 where they are not given.

    `ENABLE_WEIGHT_SHARING` is read and has no effect: instances on one device share their weights in any case.

    Raises:
        InferenceError: INVALID_ARG: a value that is not valid.
    """
    read = _Reader(model, parameters)
    read.flag("ENABLE_WEIGHT_SHARING")
    return Settings(
        optimized_execution=not read.flag("DISABLE_OPTIMIZED_EXECUTION"),
        inference_mode=read.flag("INFERENCE_MODE") is not False,
        cudnn=not read.flag("DISABLE_CUDNN"),
        cache_cleaning=bool(read.flag("ENABLE_CACHE_CLEANING")),
        jit_executor=read.flag("ENABLE_JIT_EXECUTOR"),
        jit_profiling=read.flag("ENABLE_JIT_PROFILING"),
        tensor_fuser=read.flag("ENABLE_TENSOR_FUSER"),
        intra_op_threads=read.threads("NUM_THREADS") or 1
        if python_runtime
        else read.threads("INTRA_OP_THREAD_COUNT"),
        inter_op_threads=read.threads("NUM_INTEROP_THREADS") or 1
        if python_runtime
        else read.threads("INTER_OP_THREAD_COUNT"),
        compile_parameters=read.compile_parameters(),
    )


class _Reader:
    """Reads parameters of one model."""

    def __init__(self, model: str, parameters: collections.abc.Mapping[str, str]) -> None:
        self._model = model
        self._parameters = parameters

    def flag(self, key: str) -> bool | None:
        """A boolean, as Triton reads one; None if it is not there."""
        text = self._parameters.get(key)
        if text is None:
            return None
        value = boolean(text)
        if value is not None:
            return value
        raise invalid(
            f"failed to convert {key} '{text}' to boolean value (parameters of model '{self._model}'): write true or false"
        )

    def threads(self, key: str) -> int | None:
        """A number of threads; None without one, and for 0 and less, as in Triton."""
        text = self._parameters.get(key)
        if text is None:
            return None
        count = integer(text)
        if count is None:
            raise invalid(
                f"failed to convert {key} '{text}' to integral number (parameters of model '{self._model}'): write a number of threads"
            )
        return count if count > 0 else None

    def compile_parameters(self) -> dict[str, Any] | None:
        """The arguments of `torch.compile`."""
        key = "TORCH_COMPILE_OPTIONAL_PARAMETERS"
        text = self._parameters.get(key)
        if text is None:
            return None
        try:
            parameters = json.loads(text)
        except ValueError as error:
            raise invalid(
                f'{key} of model \'{self._model}\' is not JSON ({error}): write an object, such as {{"mode": "reduce-overhead"}}'
            ) from None
        if not isinstance(parameters, dict):
            raise invalid(f"{key} of model '{self._model}' must be a JSON object, not {text}")
        if "model" in parameters:
            raise invalid(
                f"'model' is not an optional parameter for 'torch.compile' ({key} of model '{self._model}')"
            )
        return parameters
