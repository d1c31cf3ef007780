"""PyTorch models for tests, and instances that have loaded them."""

import pathlib
import warnings
from typing import Any

import torch

from naiad.backends.backend import ModelSource
from naiad.backends.instance import InstanceSpec
from naiad.backends.pytorch.backend import PytorchBackend
from naiad.config.model_config import InstanceGroup, InstanceKind, ModelConfig
from naiad.core.clock import ManualClock
from tests.server.backends.configs import Instance, Loaded, model_config

SPEC = InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0)


def save(folder: pathlib.Path, module: torch.nn.Module) -> pathlib.Path:
    """Write `<folder>/1/model.pt`, a TorchScript archive; gives back `folder`."""
    path = folder / "1" / "model.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(module.eval()).save(str(path))
    return folder


def export(
    folder: pathlib.Path, module: torch.nn.Module, arguments: tuple[Any, ...], **more: Any
) -> pathlib.Path:
    """Write `<folder>/1/model.pt2`, a program of torch.export; gives back `folder`."""
    path = folder / "1" / "model.pt2"
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module.eval(), arguments, **more), path)
    return folder


def torch_config(
    *, runtime: str = "", platform: str = "pytorch_libtorch", **more: Any
) -> ModelConfig:
    """A config of a PyTorch model."""
    filename = {"torch_aoti": "model.pt2"}.get(platform, "model.pt") if not runtime else ""
    config = model_config(
        backend="pytorch", platform=platform, default_model_filename=filename, **more
    )
    config.message.runtime = runtime
    config.message.platform = platform
    return config


def load(folder: pathlib.Path, config: ModelConfig) -> Loaded:
    """Load version 1."""
    backend = PytorchBackend(clock=ManualClock())
    source = ModelSource(config=config, version=1, model_dir=folder, options={})
    return Loaded(backend.load(source), config)


def instance_of(folder: pathlib.Path, config: ModelConfig) -> Instance:
    """An instance on the CPU."""
    return load(folder, config).make_instance(SPEC)


def groups(count: int) -> tuple[InstanceGroup, ...]:
    """One group of so many instances on the CPU."""
    return (InstanceGroup(name="m_0", kind=InstanceKind.CPU, count=count),)
