"""Models of the made-up TensorRT, loaded into this process."""

import pathlib
from typing import Self

from google.protobuf import text_format

from naiad.backends.backend import ModelSource, instance_specs
from naiad.backends.tensorrt.backend import TensorrtBackend
from naiad.config.model_config import ModelConfig
from naiad.config.typed import typed
from naiad.core.clock import SystemClock
from naiad.core.messages import model_config_pb2
from tests.server.backends.configs import Instance, Loaded

GPU = "instance_group { name: 'm_0' kind: KIND_GPU count: 1 gpus: 0 }\n"


def config_of(text: str) -> ModelConfig:
    """A config, complete as it is written."""
    message = model_config_pb2.ModelConfig(
        name="m", backend="tensorrt", platform="tensorrt_plan", default_model_filename="model.plan"
    )
    text_format.Merge(text if "instance_group" in text else text + GPU, message)
    return typed(message)


class Model:
    """A loaded model with its instances; closes what it has made."""

    def __init__(self, folder: pathlib.Path, plan: bytes, config: str, **options: str) -> None:
        (folder / "1").mkdir(parents=True, exist_ok=True)
        (folder / "1" / "model.plan").write_bytes(plan)
        self.config = config_of(config)
        source = ModelSource(config=self.config, version=1, model_dir=folder, options=options)
        self.loaded = Loaded(TensorrtBackend(clock=SystemClock()).load(source), self.config)
        self.instances: list[Instance] = []

    def __enter__(self) -> Self:
        for spec in instance_specs(self.config):
            self.instances.append(self.loaded.make_instance(spec))
        return self

    def __exit__(self, *_raised: object) -> None:
        for instance in self.instances:
            instance.instance.close()
        self.loaded.close()
