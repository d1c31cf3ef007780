"""What the parameters of an OpenVINO model ask of it. Pure; the texts are those of Triton's openvino backend."""

import collections.abc

import msgspec

from naiad.errors import InferenceError, invalid

_PRECISION = "INFERENCE_PRECISION_HINT"
_PRECISIONS = ("f32", "f16", "bf16")
_MODES = ("latency", "throughput", "cumulative_throughput")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a model.

    Attributes:
        properties: of the device, by OpenVINO's names.
        device: OpenVINO's name of the device.
        extension: a library with operations; "" for none.
        fixed_batch: the model always runs max_batch_size rows, because its topology takes no other number.
        padding: with `fixed_batch`, smaller batches are filled up; else they fail.
        reshapes: inputs get the dims of the config in place of the model's own.
    """

    properties: collections.abc.Mapping[str, str]
    device: str = "CPU"
    extension: str = ""
    fixed_batch: bool = False
    padding: bool = False
    reshapes: bool = False


def settings_of(model: str, parameters: collections.abc.Mapping[str, str]) -> Settings:
    """The settings in a model's parameters.

    Raises:
        InferenceError: INVALID_ARG: a value that is not valid.
    """
    properties: dict[str, str] = {}
    for key in ("INFERENCE_NUM_THREADS", "COMPILATION_NUM_THREADS"):
        if text := parameters.get(key):
            if not text.isdigit():
                raise _expected(key, "a non-negative number", text, model)
            properties[key] = text
    properties.update(_precision(model, parameters))
    if text := parameters.get("NUM_STREAMS"):
        if text.lower() not in ("auto", "numa") and not text.isdigit():
            raise _expected("NUM_STREAMS", "either AUTO/NUMA/<int_value>", text, model)
        properties["NUM_STREAMS"] = text.upper()
    if text := parameters.get("PERFORMANCE_HINT"):
        if text.lower() not in _MODES:
            raise _expected(
                "PERFORMANCE_HINT", "LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT", text, model
            )
        properties["PERFORMANCE_HINT"] = text.upper()
    return Settings(
        properties=properties,
        device=parameters.get("TARGET_DEVICE") or "CPU",
        extension=parameters.get("CPU_EXTENSION_PATH", ""),
        fixed_batch=_yes(parameters, "SKIP_OV_DYNAMIC_BATCHSIZE"),
        padding=_yes(parameters, "ENABLE_BATCH_PADDING"),
        reshapes=_yes(parameters, "RESHAPE_IO_LAYERS"),
    )


def _precision(model: str, parameters: collections.abc.Mapping[str, str]) -> dict[str, str]:
    """The numbers in which it computes; nothing for OpenVINO's choice."""
    if text := parameters.get(_PRECISION):
        if text.lower() not in _PRECISIONS:
            raise _expected(_PRECISION, "/".join(_PRECISIONS), text, model)
        return {_PRECISION: text.lower()}
    if text := parameters.get("HINT_BF16"):
        if text.lower() != "yes":
            raise _expected("HINT_BF16", "YES", text, model)
        return {_PRECISION: "bf16"}
    return {}


def _yes(parameters: collections.abc.Mapping[str, str], key: str) -> bool:
    return parameters.get(key, "").lower() == "yes"


def _expected(key: str, what: str, text: str, model: str) -> InferenceError:
    return invalid(
        f"expected the parameter '{key}' to be {what}, got {text.lower()} (parameters of model '{model}')"
    )
