"""Models of torch.export in .pt2 archives (row 16.16): programs that torch runs, and packages that AOTInductor has compiled.

`torch.export.load` falls back to unpickling what it cannot read otherwise, which would run code of the file: that is switched off here, and an archive
that needs it is refused. A compiled package holds a native library and runs it, as a TensorRT plan or a custom operator does.
"""

import collections.abc
import os
import pathlib
import zipfile
from typing import Any

import torch

from naiad.backends.pytorch import archive, call_spec
from naiad.backends.pytorch.archive import Kind
from naiad.backends.pytorch.devices import Device
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.errors import InferenceError, internal, invalid, unavailable

# Also where torch's own code asks for the opposite.
os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"

_PICKLED = ("data/constants/opaque_obj", "data/constants/custom_obj")
"""Objects of Python and of C++ classes, which `torch.export.load` unpickles by itself."""

_DTYPES = {
    "TYPE_BOOL": torch.bool, "TYPE_UINT8": torch.uint8, "TYPE_INT8": torch.int8, "TYPE_INT16": torch.int16, "TYPE_INT32": torch.int32,
    "TYPE_INT64": torch.int64, "TYPE_FP16": torch.float16, "TYPE_FP32": torch.float32, "TYPE_FP64": torch.float64, "TYPE_BF16": torch.bfloat16,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

Run = collections.abc.Callable[[list[Any]], collections.abc.Sequence[Any]]
"""From the flat inputs of a program to its flat results."""


class FlatProgram:
    """Implements `Program` over a flat list of tensors."""

    def __init__(
        self,
        run: Run,
        *,
        inputs: collections.abc.Mapping[str, int],
        outputs: collections.abc.Mapping[str, int],
        writes_inputs: bool,
    ) -> None:
        self.output_index = outputs
        self.writes_inputs = writes_inputs
        self._names = [name for name, _ in sorted(inputs.items(), key=lambda item: item[1])]
        self._run = run

    def run(self, feeds: collections.abc.Mapping[str, Any]) -> collections.abc.Sequence[Any]:
        """See `Program`."""
        return self._run([feeds[name] for name in self._names])


def load(path: pathlib.Path, config: ModelConfig, device: Device, *, runners: int) -> FlatProgram:
    """Load an archive onto a device; a compiled package runs so many batches at once.

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
            return _compiled(path, config, device, runners=runners)
        return _exported(path, config, device)
    except InferenceError:
        raise
    except Exception as error:
        raise internal(f"failed to load model '{config.name}': {error}") from error


def _exported(path: pathlib.Path, config: ModelConfig, device: Device) -> FlatProgram:
    program = torch.export.load(str(path))
    if device.name is not None and device.name != "cpu":
        from torch.export.passes import move_to_device_pass  # noqa: PLC0415 - only on a GPU

        program = move_to_device_pass(program, device.name)
    pytree = torch.utils._pytree  # noqa: SLF001 - what torch.export itself calls programs by
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    inputs = _positions(config.inputs, pytree.treespec_dumps(in_spec), call_spec.INPUT, config)
    outputs = _positions(config.outputs, pytree.treespec_dumps(out_spec), call_spec.OUTPUT, config)
    _check_tensors(program, inputs, config)
    module = program.module()

    def run(flat: list[Any]) -> list[Any]:
        arguments, keywords = pytree.tree_unflatten(flat, in_spec)
        results: list[Any] = pytree.tree_leaves(module(*arguments, **keywords))
        return results

    writes = bool(program.graph_signature.user_inputs_to_mutate)
    return FlatProgram(run, inputs=inputs, outputs=outputs, writes_inputs=writes)


def _compiled(
    path: pathlib.Path, config: ModelConfig, device: Device, *, runners: int
) -> FlatProgram:
    index = torch.device(device.name).index if device.name else -1
    package = torch._inductor.aoti_load_package(  # noqa: SLF001 - as the documentation has it
        str(path), num_runners=runners, device_index=-1 if index is None else index
    )
    in_spec, out_spec = package.loader.get_call_spec()
    return FlatProgram(
        package.loader.run,
        inputs=_positions(config.inputs, in_spec, call_spec.INPUT, config),
        outputs=_positions(config.outputs, out_spec, call_spec.OUTPUT, config),
        writes_inputs=True,  # the package does not say
    )


def _positions(
    specs: collections.abc.Sequence[TensorSpec], spec: str, kind: str, config: ModelConfig
) -> dict[str, int]:
    ways = (
        call_spec.input_names(spec, config.name)
        if kind == call_spec.INPUT
        else call_spec.output_names(spec, config.name)
    )
    found = call_spec.positions([each.name for each in specs], ways, kind=kind, model=config.name)
    if kind == call_spec.INPUT and len(found) != len(ways):
        lacking = [f"INPUT__{i} or {way}" for i, way in enumerate(ways) if i not in found.values()]
        raise invalid(
            f"unable to load model '{config.name}', configuration expects {len(found)} inputs, model provides {len(ways)}: "
            f"add {', '.join(lacking)}"
        )
    return found


def _check_tensors(
    program: Any, inputs: collections.abc.Mapping[str, int], config: ModelConfig
) -> None:
    """Hold the config's inputs against those that the program was exported with.

    Raises:
        InferenceError: INVALID_ARG: another datatype, other dims, or a fixed number of rows where the config batches.
    """
    names = program.graph_signature.user_inputs
    examples = {node.name: node.meta.get("val") for node in program.graph.nodes}
    for spec in config.inputs:
        example = examples.get(names[inputs[spec.name]])
        if not isinstance(example, torch.Tensor):
            continue
        if _DTYPES.get(spec.datatype.config_name) is not example.dtype:
            raise invalid(
                f"unable to load model '{config.name}', configuration expects datatype {spec.datatype.config_name} for input '{spec.name}', "
                f"model provides {_NAMES.get(example.dtype, example.dtype)}"
            )
        shape = [size if isinstance(size, int) else -1 for size in example.shape]
        batched = config.max_batch_size > 0
        dims = list(spec.dims if spec.reshape is None else spec.reshape)
        if batched and shape and shape[0] not in (-1, config.max_batch_size):
            raise invalid(
                f"unable to load model '{config.name}': it was exported for {shape[0]} rows of input '{spec.name}', and its max_batch_size is "
                f"{config.max_batch_size}: export it with dynamic_shapes whose first dimension is a torch.export.Dim, or write max_batch_size: 0"
            )
        rest = shape[1:] if batched else shape
        if len(rest) != len(dims) or any(
            size not in (-1, dim) and dim != -1 for size, dim in zip(rest, dims, strict=True)
        ):
            raise invalid(
                f"unable to load model '{config.name}', configuration expects dims {dims} for input '{spec.name}', model provides {rest}"
            )


def _refuse_pickles(path: pathlib.Path, model: str) -> None:
    with zipfile.ZipFile(path) as opened:
        names = [name.partition("/")[2] for name in opened.namelist()]
    for name in names:
        if name.startswith(_PICKLED):
            raise internal(
                f"failed to load model '{model}': '{path.name}' holds a pickled object ({name}), which may run any code: export the model without "
                "constants that are objects"
            )
