"""Models of torch.export in .pt2 archives (row 16.16): programs that torch runs, and packages that AOTInductor has compiled.

`torch.export.load` falls back to unpickling what it cannot read otherwise, which would run code of the file: that is switched off here, and an archive
that needs it is refused. A compiled package holds a native library and runs it, as a TensorRT plan or a custom operator does.
"""

import collections.abc
import logging
import os
import pathlib
import threading
import zipfile
from typing import Any

import torch
from torch._inductor.package import load_package
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    TensorArgument,
)
from typing_extensions import override

from naiad.backends import reasons
from naiad.backends.pytorch import archive, io_check
from naiad.backends.pytorch.archive import Kind
from naiad.backends.pytorch.devices import Device
from naiad.backends.pytorch.io_check import Described, Known, Other
from naiad.backends.pytorch.program import OPERATORS
from naiad.config.model_config import ModelConfig
from naiad.errors import InferenceError, internal, unavailable

# Also where torch's own code asks for the opposite.
os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"

_PICKLED = ("data/constants/opaque_obj", "data/constants/custom_obj")
"""Objects of Python and of C++ classes, which `torch.export.load` unpickles by itself."""

_NAMES = {
    torch.bool: "TYPE_BOOL", torch.uint8: "TYPE_UINT8", torch.int8: "TYPE_INT8", torch.int16: "TYPE_INT16", torch.int32: "TYPE_INT32",
    torch.int64: "TYPE_INT64", torch.float16: "TYPE_FP16", torch.float32: "TYPE_FP32", torch.float64: "TYPE_FP64", torch.bfloat16: "TYPE_BF16",
}  # fmt: skip

_one_at_a_time = threading.Lock()
"""torch reads one program at a time in a process: of two it refuses the second one ("_CURRENT_DESERIALIZER is already set")."""

Run = collections.abc.Callable[[list[Any]], collections.abc.Sequence[Any]]
"""From the flat inputs of a program to its flat results."""


class FlatProgram:
    """Implements `Program` over a flat list of tensors.

    Attributes:
        is_shared: several instances may run it at once.
    """

    def __init__(
        self,
        run: Run,
        *,
        inputs: collections.abc.Mapping[str, int],
        outputs: collections.abc.Mapping[str, int],
        writes_inputs: bool,
        constants: collections.abc.Mapping[int, Any] | None = None,
        buffers: collections.abc.Callable[[], list[Any]] = list,
        is_shared: bool = True,
    ) -> None:
        self.output_index = outputs
        self.writes_inputs = writes_inputs
        self.graph_fault = ""
        self.buffers = buffers
        self.is_shared = is_shared
        self._inputs = inputs
        # What is not a tensor stands in its place, as it was when the program was exported.
        self._flat: list[Any] = [None] * (len(inputs) + len(constants or {}))
        for place, value in (constants or {}).items():
            self._flat[place] = value
        self._run = run

    def run(self, feeds: collections.abc.Mapping[str, Any]) -> collections.abc.Sequence[Any]:
        """See `Program`."""
        flat = self._flat.copy()
        for name, place in self._inputs.items():
            flat[place] = feeds[name]
        return self._run(flat)


def load(
    path: pathlib.Path,
    config: ModelConfig,
    device: Device,
    *,
    runners: int,
    in_graphs: bool = False,
) -> FlatProgram:
    """Load an archive onto a device.

    Args:
        path: of the archive.
        config: of the model.
        device: of the instance.
        runners: how many batches a compiled package runs at once.
        in_graphs: CUDA graphs of it are captured. A compiled package is for one instance then, because what it does so that several can run it
            at once cannot be captured.

    Raises:
        InferenceError: UNAVAILABLE: there is no such file; INTERNAL: it is no .pt2 archive, or torch cannot load it, with torch's reason;
            INVALID_ARG: the config's tensors are not those of the model.
    """
    if not path.is_file():
        raise unavailable(
            f'PyTorch inductor model file "{path}" is unreachable or inaccessible.: put the .pt2 file there, or name it in default_model_filename'
        )
    try:
        kind = archive.kind_of(path)
        archive.check(path, kind, model=config.name, expects_program=True)
        _refuse_pickles(path, config.name)
        if kind is Kind.COMPILED:
            return _compiled(path, config, device, runners=runners, alone=in_graphs)
        with _one_at_a_time:
            return _exported(path, config, device)
    except InferenceError:
        raise
    except Exception as error:
        reason = reasons.explained(error, operators=OPERATORS)
        raise internal(f"failed to load model '{config.name}': {reason}") from error


def _exported(path: pathlib.Path, config: ModelConfig, device: Device) -> FlatProgram:
    program = _program(path)
    if device.name is not None and device.name != "cpu":
        from torch.export.passes import move_to_device_pass  # noqa: PLC0415 - only on a GPU

        program = move_to_device_pass(program, device.name)
    pytree = torch.utils._pytree  # noqa: SLF001 - what torch.export itself calls programs by
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    signature = program.graph_signature
    examples = {node.name: node.meta.get("val") for node in program.graph.nodes}
    given = [each.arg for each in signature.input_specs if each.kind is InputKind.USER_INPUT]
    returned = [each.arg for each in signature.output_specs if each.kind is OutputKind.USER_OUTPUT]
    ranges = program.range_constraints
    described = Described(
        in_spec=pytree.treespec_dumps(in_spec),
        out_spec=pytree.treespec_dumps(out_spec),
        inputs=tuple(_known(each, examples, ranges) for each in given),
        outputs=tuple(_known(each, examples, ranges) for each in returned),
    )
    places = io_check.check(config, described)
    module = program.module()
    constants = {
        at: each.value for at, each in enumerate(given) if isinstance(each, ConstantArgument)
    }

    def run(flat: list[Any]) -> list[Any]:
        arguments, keywords = pytree.tree_unflatten(flat, in_spec)
        results: list[Any] = pytree.tree_leaves(module(*arguments, **keywords))
        return results

    writes = bool(signature.user_inputs_to_mutate)
    return FlatProgram(
        run,
        inputs=places.inputs,
        outputs=places.outputs,
        constants=constants,
        writes_inputs=writes,
        buffers=lambda: list(module.buffers()),
    )


def _program(path: pathlib.Path) -> Any:
    """The program in an archive.

    Raises:
        Exception: torch cannot read it; with the reason, which torch itself only writes to its log.
    """
    said = _Reasons()
    log = logging.getLogger("torch.export")
    log.addHandler(said)
    try:
        return torch.export.load(str(path))
    except RuntimeError as error:
        if said.first is None:
            raise
        raise said.first from error
    finally:
        log.removeHandler(said)


class _Reasons(logging.Handler):
    """Keeps the exception behind the first that is written to a log by this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.first: BaseException | None = None
        self._thread = threading.get_ident()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if self.first is not None or error is None or record.thread != self._thread:
            return
        while error.__cause__ is not None:
            error = error.__cause__
        self.first = error


def _compiled(
    path: pathlib.Path, config: ModelConfig, device: Device, *, runners: int, alone: bool
) -> FlatProgram:
    index = torch.device(device.name).index if device.name else -1
    # aoti_load_package of the documentation calls it, and takes num_runners since torch 2.12 only.
    package = load_package(
        str(path),
        run_single_threaded=alone,
        num_runners=1 if alone else runners,
        device_index=-1 if index is None else index,
    )
    in_spec, out_spec = package.loader.get_call_spec()
    places = io_check.check(config, Described(in_spec=in_spec, out_spec=out_spec))
    return FlatProgram(
        package.loader.run,
        inputs=places.inputs,
        outputs=places.outputs,
        writes_inputs=True,  # the package does not say
        is_shared=not alone,
    )


def _known(
    argument: Any,
    examples: collections.abc.Mapping[str, Any],
    ranges: collections.abc.Mapping[Any, Any],
) -> Known | Other | None:
    """What is known of an argument or a result of a program, from the one that it was exported with."""
    if isinstance(argument, ConstantArgument):
        return Other(str(argument.value))
    if not isinstance(argument, TensorArgument):
        return Other(type(argument).__name__.removesuffix("Argument"))
    example = examples.get(argument.name)
    if not isinstance(example, torch.Tensor):
        return None
    shape = tuple(size if isinstance(size, int) else -1 for size in example.shape)
    most = _most(example.shape[0], ranges) if shape and shape[0] == -1 else None
    return Known(_NAMES.get(example.dtype, str(example.dtype)), shape, most)


def _most(size: Any, ranges: collections.abc.Mapping[Any, Any]) -> int | None:
    """As `program_file._most`."""
    try:
        return int(str(ranges[size.node.expr].upper))
    except (LookupError, ValueError, AttributeError):
        return None


def _refuse_pickles(path: pathlib.Path, model: str) -> None:
    with zipfile.ZipFile(path) as opened:
        names = [name.partition("/")[2] for name in opened.namelist()]
    for name in names:
        if name.startswith(_PICKLED):
            raise internal(
                f"failed to load model '{model}': '{path.name}' holds a pickled object ({name}), which may run any code: export the model without "
                "constants that are objects"
            )
