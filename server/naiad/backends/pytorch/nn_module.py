"""Models that are a `torch.nn.Module` in model.py (row 16.17): `runtime: "model.py"`, with weights in model.pt beside it or without.

As Triton's Python-based pytorch backend (`src/model.py`): inputs go to `forward` in the config's order, results are the outputs in the config's order. The
code is the repository's own and runs as a Python model's does.
"""

import collections.abc
import importlib.util
import inspect
import logging
import os
import pathlib
import shutil
from types import ModuleType
from typing import Any

import torch

from naiad.backends.pytorch import archive, module_files
from naiad.backends.pytorch.devices import Device
from naiad.backends.pytorch.settings import Settings
from naiad.config.model_config import ModelConfig
from naiad.errors import InferenceError, unavailable

log = logging.getLogger("naiad.backends")


class ModuleProgram:
    """Implements `Program`."""

    # Code may do anything with what it is given.
    writes_inputs = True
    graph_fault = ""

    def __init__(self, module: Any, config: ModelConfig) -> None:
        self.output_index = {spec.name: index for index, spec in enumerate(config.outputs)}
        self._names = [spec.name for spec in config.inputs]
        self._module = module

    def run(self, feeds: collections.abc.Mapping[str, Any]) -> list[Any]:
        """See `Program`."""
        results = self._module(*[feeds[name] for name in self._names])
        if isinstance(results, tuple) or (isinstance(results, list) and not self._is_text(results)):
            return list(results)
        return [results]

    def _is_text(self, results: list[Any]) -> bool:
        """Whether a list is one output of text rather than the outputs one by one."""
        is_text = all(isinstance(each, str) for each in results)
        return is_text and (bool(results) or len(self.output_index) == 1)

    def buffers(self) -> list[Any]:
        """See `Program`."""
        return list(self._module.buffers())


def load(path: pathlib.Path, config: ModelConfig, device: Device, settings: Settings) -> Any:
    """The module of a model.py, or a TorchScript archive, on its device and ready to run.

    Raises:
        InferenceError: UNAVAILABLE: there is no such file; INTERNAL: its code raised, has no `torch.nn.Module`, or its weights do not fit.
    """
    if not path.is_file():
        raise unavailable(
            f"No model found in {path.parent}/['model.py', 'model.pt']: put the code of the model there"
        )
    try:
        if path.suffix != ".py":
            archive.check(path, archive.kind_of(path), model=config.name, expects_program=False)
            script = torch.jit.load(str(path), map_location=device.name)
            script.eval()
            return script
        module = _module_class(_imported(config.name, path), config.name)()
        weights = path.with_suffix(".pt")
        if weights.is_file():
            module_files.check_weights(weights, config.name)
            module.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        if device.name is not None:
            module.to(device.name)
        module.eval()
    except InferenceError:
        raise
    except Exception as error:
        raise module_files.load_error(config.name, error) from error
    return _compiled(module, config.name, device, settings)


def _imported(name: str, path: pathlib.Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"naiad_torch_{abs(hash(path)):x}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module_class(code: ModuleType, model: str) -> "type[torch.nn.Module]":
    """The class of the model: the first one by name that the file itself defines."""
    classes = {
        name: value
        for name, value in sorted(vars(code).items())
        if inspect.isclass(value)
        and issubclass(value, torch.nn.Module)
        and value.__module__ == code.__name__
    }
    if not classes:
        raise module_files.without_class(model)
    chosen = next(iter(classes))
    if len(classes) > 1:
        log.warning(
            "model.py of model '%s' defines several subclasses of torch.nn.Module (%s): %s is the model, the first by name",
            model,
            ", ".join(classes),
            chosen,
        )
    return classes[chosen]


def _compiled(module: Any, model: str, device: Device, settings: Settings) -> Any:
    """The module through `torch.compile`, where a compiler is there; that compiles with the first requests of each shape."""
    parameters = dict(settings.compile_parameters or {})
    if parameters.get("disable"):
        return module
    on_cpu = device.name is None or device.name == "cpu"
    if on_cpu and not any(
        shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name
    ):
        log.warning(
            "model '%s' runs without torch.compile: there is no C++ compiler (g++, clang++, or the one that CXX names)",
            model,
        )
        return module
    torch._inductor.config.compile_threads = 1  # noqa: SLF001 - a pool of processes would outlive a worker that is killed
    return torch.compile(module, **parameters)
