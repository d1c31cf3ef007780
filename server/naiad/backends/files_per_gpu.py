"""Which model file an instance loads: of `cc_model_filenames` the one for its GPU's compute capability, else `default_model_filename` (row 11.7)."""

import collections.abc
import pathlib
from typing import Any

import msgspec

from naiad.backends import cuda_runtime
from naiad.backends.backend import ModelSource
from naiad.core.messages import model_config_pb2
from naiad.errors import unavailable
from naiad.tensors.cudart import CudaError

Capability = tuple[int, int]


def filename_for(message: Any, capability: Capability) -> str:
    """The model file for a GPU; "" for the backend's default."""
    key = ".".join(map(str, capability))
    named: collections.abc.Mapping[str, str] = message.cc_model_filenames
    return named.get(key) or str(message.default_model_filename)


def for_device(
    source: ModelSource,
    device: int,
    capability_of: collections.abc.Callable[[int], Capability] | None = None,
) -> ModelSource:
    """A source whose `default_model_filename` is the file for a GPU of this process.

    Args:
        source: of a model whose instance is on a GPU.
        device: as this process counts it.
        capability_of: of a device; by default as CUDA says it.

    Raises:
        InferenceError: UNAVAILABLE: CUDA does not say which GPU it is.
    """
    config = source.config
    if not config.message.cc_model_filenames:
        return source
    try:
        capability = (capability_of or _capability)(device)
    except CudaError as error:
        raise unavailable(
            f"unable to load model '{config.name}': cc_model_filenames names a file for each compute capability, and that of GPU {device} is not known: {error}"
        ) from error
    filename = filename_for(config.message, capability)
    message = model_config_pb2.ModelConfig()
    message.CopyFrom(config.message)
    message.default_model_filename = filename
    changed = msgspec.structs.replace(config, default_model_filename=filename, message=message)
    return msgspec.structs.replace(source, config=changed)


def existing(path: pathlib.Path, model: str, named: str) -> pathlib.Path:
    """A model file, if it is there.

    Raises:
        InferenceError: UNAVAILABLE: it is not.
    """
    if path.is_file():
        return path
    how = (
        f"the config names '{named}'"
        if named
        else "put it there, or name another file in default_model_filename"
    )
    raise unavailable(f"unable to find '{path}' for model '{model}': {how}")


def _capability(device: int) -> Capability:
    return cuda_runtime.open_runtime().capability(device)
