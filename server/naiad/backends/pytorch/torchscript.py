"""TorchScript models (rows 16.13 to 16.15): loading an archive, and running its `forward`.

The instances of a model on one device share its parameters. Each has buffers and attributes of its own, because a model may keep state in them.
"""

import collections.abc
import contextlib
import importlib.util
import logging
import pathlib
import warnings
from typing import Any

import torch

from naiad.backends import reasons
from naiad.backends.pytorch import archive, naming
from naiad.backends.pytorch.devices import Device
from naiad.backends.pytorch.naming import Argument
from naiad.backends.pytorch.program import OPERATORS
from naiad.backends.pytorch.script_code import kind_of_type
from naiad.backends.pytorch.settings import Settings
from naiad.backends.pytorch.tensors import flattened
from naiad.config.model_config import ModelConfig
from naiad.errors import InferenceError, internal, unavailable

log = logging.getLogger("naiad.backends")

# The format is what the model's owner chose; each load would say so.
warnings.filterwarnings("ignore", message="`torch.jit", category=FutureWarning)


class ScriptProgram:
    """Implements `Program`.

    Args:
        module: on the device, a `torch.jit.ScriptModule`.

    Raises:
        InferenceError: the config's tensors are not those of the model.
    """

    def __init__(self, module: Any, config: ModelConfig, settings: Settings) -> None:
        arguments = _arguments(module, config.name)
        self._plan, self.output_index = naming.plans(config, arguments)
        if not self._plan.as_dict and (odd := naming.unnamed(config.inputs, arguments)):
            log.warning(
                "input '%s' or previous input(s) are neither an input argument to the model '%s' nor do they follow the <name>__<index> naming "
                "convention. Falling back to enforcing strict ordering from model configuration.",
                odd,
                config.name,
            )
        graph = _inlined(module)
        self.writes_inputs = _writes_inputs(graph)
        self.graph_fault = _sets_attributes(graph)
        self._module = module
        self._settings = settings

    def run(self, feeds: collections.abc.Mapping[str, Any]) -> list[Any]:
        """See `Program`."""
        plan = self._plan
        _set_executor(self._settings)
        if plan.as_dict:
            return flattened(self._module({name: feeds[name] for name in plan.names}))
        return flattened(self._module(*[feeds[name] for name in plan.names]))

    def buffers(self) -> list[Any]:
        """See `Program`."""
        return list(self._module.buffers())


def load(path: pathlib.Path, config: ModelConfig, device: Device, *, shared: Any = None) -> Any:
    """Load an archive onto a device; it takes the parameters of `shared`, a module of the same archive on the same device, if there is one.

    Returns:
        A `torch.jit.ScriptModule` in evaluation mode.

    Raises:
        InferenceError: UNAVAILABLE: there is no such file; INTERNAL: it is not a TorchScript archive, or torch cannot load it, with torch's reason.
    """
    if not path.is_file():
        raise unavailable(
            f"unable to find '{path}' for model instance '{config.name}': put the TorchScript file there, or name it in default_model_filename"
        )
    try:
        kind = archive.kind_of(path)
        archive.check(path, kind, model=config.name, expects_program=False)
        _import_what_modules_need()
        module = torch.jit.load(str(path), map_location=device.name)
    except InferenceError:
        raise
    except Exception as error:
        reason = reasons.explained(error, operators=OPERATORS)
        raise internal(f"failed to load model '{config.name}': {reason}") from error
    module.eval()
    if shared is not None:
        for own, other in zip(module.parameters(), shared.parameters(), strict=True):
            own.data = other.data
    return module


def _import_what_modules_need() -> None:
    """Import what registers operators that an archive may use, where it is installed: those of Torch-TensorRT."""
    if importlib.util.find_spec("torch_tensorrt") is not None:
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module("torch_tensorrt")


def _arguments(module: Any, model: str) -> tuple[Argument, ...]:
    schema = getattr(getattr(module, "forward", None), "schema", None)
    if schema is None:
        raise naming.without_forward(model)
    arguments = [each for each in schema.arguments if each.type.kind() != "ClassType"]
    return tuple(Argument(each.name, kind_of_type(str(each.type))) for each in arguments)


def _inlined(module: Any) -> Any:
    """The graph of `forward` with those of all that it calls; None if torch cannot say."""
    try:
        graph = module.graph.copy()
        torch._C._jit_pass_inline(graph)  # noqa: SLF001 - torch has no public name for it
    except (RuntimeError, AttributeError):
        return None
    return graph


def _writes_inputs(graph: Any) -> bool:
    """Whether the graph may write to its inputs; yes if torch cannot say."""
    try:
        aliases = graph.alias_db()
        return any(aliases.has_writers(each) for each in list(graph.inputs())[1:])
    except (RuntimeError, AttributeError):
        return True


def _sets_attributes(graph: Any) -> str:
    """Why a model whose every run sets an attribute has no CUDA graph; "" for others. What is set within a condition, as in training alone, is not looked at."""
    nodes = [] if graph is None else graph.nodes()
    names = [node.s("name") for node in nodes if node.kind() == "prim::SetAttr"]
    return f"a run of the model sets its attribute '{names[0]}'" if names else ""


def _set_executor(settings: Settings) -> None:
    """Set TorchScript's executor for this thread, and, where the model asks for it, for this process."""
    internals = torch._C  # noqa: SLF001 - as the documentation of these settings has it
    if settings.jit_executor is not None:
        internals._jit_set_profiling_executor(settings.jit_executor)  # noqa: SLF001
    if settings.jit_profiling is not None:
        internals._jit_set_profiling_mode(settings.jit_profiling)  # noqa: SLF001
    if settings.tensor_fuser is not None:
        internals._jit_set_texpr_fuser_enabled(settings.tensor_fuser)  # noqa: SLF001
    internals._set_graph_executor_optimize(settings.optimized_execution)  # noqa: SLF001
