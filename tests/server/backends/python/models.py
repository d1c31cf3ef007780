"""Python models for tests: written into a folder, loaded, called."""

import pathlib
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from naiad.backends.backend import ModelSource
from naiad.backends.instance import InstanceSpec
from naiad.backends.python.backend import PythonBackend
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.core import datatypes
from naiad.core.clock import Clock, ManualClock
from naiad.core.inference import Inference
from tests.server.backends.configs import Instance, Loaded, inference, model_config, spec, tensor

IDENTITY = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            return [
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())]
                )
                for request in requests
            ]
"""


def write(folder: pathlib.Path, files: Mapping[str, str] | str) -> pathlib.Path:
    """Write a model's files, by their path in `folder`; a lone text is 1/model.py. Gives back `folder`."""
    if isinstance(files, str):
        files = {"1/model.py": files}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def python_config(**more: Any) -> ModelConfig:
    """IN and OUT, FP32 [n, 2] unless said otherwise."""
    settings: dict[str, Any] = {
        "inputs": [spec("IN", datatypes.FP32, (2,))],
        "outputs": [spec("OUT", datatypes.FP32, (2,))],
        "backend": "python",
    }
    return model_config(**{**settings, **more})


def load(
    folder: pathlib.Path,
    config: ModelConfig | None = None,
    *,
    version: int = 1,
    clock: Clock | None = None,
) -> Loaded:
    backend = PythonBackend(clock=clock or ManualClock())
    source = ModelSource(
        config=config or python_config(),
        version=version,
        model_dir=folder,
        options={},
    )
    return Loaded(backend.load(source), source.config, version)


def make_instance(model: Loaded, name: str = "m_0_0") -> Instance:
    return model.make_instance(InstanceSpec(name=name, kind=InstanceKind.CPU, device_id=0))


def instance_of(
    folder: pathlib.Path, files: Mapping[str, str] | str, config: ModelConfig | None = None
) -> Instance:
    return make_instance(load(write(folder, files), config))


def ask(row: Sequence[Any] = (1, 2), **more: Any) -> Inference:
    """A request with one row of IN."""
    return inference(tensor("IN", [row], datatypes.FP32), **more)
