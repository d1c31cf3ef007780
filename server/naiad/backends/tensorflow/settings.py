"""What the config of a TensorFlow model asks of its session. Pure."""

import collections.abc

import msgspec

from naiad.backends.parameter_values import boolean, integer
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.errors import invalid, unsupported


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a session.

    Attributes:
        intra_op_threads, inter_op_threads: 0 means TensorFlow's choice.
        own_threads: the session has threads of its own.
        tag, signature: of the SavedModel; "" for those that are served by default.
        init_ops_file: JSON with operations to run before the first batch; "" for none.
        sharing: how many instances share a session; 0 means all.
        xla: the level of XLA, by its name in OptimizerOptions; "" for TensorFlow's default.
        mixed_precision: TensorFlow may compute in FP16 where it thinks fit.
        soft_placement: an operation that the device does not have runs on the CPU.
    """

    intra_op_threads: int = 0
    inter_op_threads: int = 0
    own_threads: bool = False
    tag: str = ""
    signature: str = ""
    init_ops_file: str = ""
    sharing: int = 0
    xla: str = ""
    mixed_precision: bool = False
    soft_placement: bool = True


def settings_of(config: ModelConfig, options: collections.abc.Mapping[str, str]) -> Settings:
    """The settings of a model's sessions.

    Raises:
        InferenceError: INVALID_ARG: a value that is not valid; UNSUPPORTED: TensorRT as an accelerator.
    """
    read = _Reader(config.name, config.parameters)
    sharing = read.number("MAX_SESSION_SHARE_COUNT", 0)
    if "MAX_SESSION_SHARE_COUNT" in config.parameters and sharing <= 0:
        raise invalid(
            f"parameter 'MAX_SESSION_SHARE_COUNT' must be positive number for TensorFlow model '{config.name}'"
        )
    intra = read.number("TF_NUM_INTRA_THREADS", 0)
    if intra < 0:
        raise invalid(
            f"parameter 'TF_NUM_INTRA_THREADS' must be non-negative number for TensorFlow model '{config.name}'"
        )
    parameters = config.parameters
    return Settings(
        intra_op_threads=intra,
        inter_op_threads=read.number("TF_NUM_INTER_THREADS", 0),
        own_threads=read.flag("TF_USE_PER_SESSION_THREADS"),
        tag=parameters.get("TF_GRAPH_TAG", ""),
        signature=parameters.get("TF_SIGNATURE_DEF", ""),
        init_ops_file=parameters.get("TF_INIT_OPS_FILE", ""),
        sharing=sharing,
        xla=_xla(config),
        mixed_precision=_mixed_precision(config),
        soft_placement=boolean(options.get("allow-soft-placement", "true")) is not False,
    )


def _xla(config: ModelConfig) -> str:
    optimization = config.message.optimization
    if not optimization.HasField("graph"):
        return ""
    level = config.optimization.graph_level
    if level == -1:
        return "OFF"
    if level > 1:
        return "ON_2"
    return "ON_1" if level == 1 else ""


def _mixed_precision(config: ModelConfig) -> bool:
    if config.optimization.cpu_accelerators:
        raise invalid(
            f"CPU Execution Accelerator is not supported in TensorFlow backend (optimization of model '{config.name}'): take it out"
        )
    on_gpu = any(group.kind is not InstanceKind.CPU for group in config.instance_groups)
    mixed = False
    for accelerator in config.optimization.gpu_accelerators if on_gpu else ():
        if accelerator.name == "tensorrt":
            raise unsupported(
                f"model '{config.name}': TensorFlow has had no TensorRT since 2.18, so that gpu_execution_accelerator \"tensorrt\" cannot be used: "
                "take it out, or convert the model to ONNX (tf2onnx) and use that accelerator there, or serve a TensorRT plan of it"
            )
        if accelerator.name == "auto_mixed_precision":
            mixed = True
        elif accelerator.name != "gpu_io":
            raise invalid(f"unknown Execution Accelerator '{accelerator.name}' is requested")
    return mixed


class _Reader:
    """Reads parameters of one model."""

    def __init__(self, model: str, parameters: collections.abc.Mapping[str, str]) -> None:
        self._model = model
        self._parameters = parameters

    def number(self, key: str, default: int) -> int:
        """An integer."""
        text = self._parameters.get(key)
        if text is None:
            return default
        value = integer(text)
        if value is None:
            raise invalid(
                f"failed to convert {key} '{text}' to integral number (parameters of model '{self._model}')"
            )
        return value

    def flag(self, key: str) -> bool:
        """A boolean; False if it is not there."""
        text = self._parameters.get(key, "false")
        value = boolean(text)
        if value is not None:
            return value
        raise invalid(
            f"failed to convert {key} '{text}' to boolean value (parameters of model '{self._model}'): write true or false"
        )
