"""A config against its pipeline: what contradicts, in Triton's words, and what the config gets where it leaves something open. Pure.

Inputs are matched by their names, outputs by their order: the names of outputs are the config's (`config_tools.cc` of Triton's dali_backend).
"""

import collections.abc
from typing import Any

import msgspec

from naiad.backends.dali.serialized import DATA_TYPES, Pipeline, PipelineTensor
from naiad.config.document import FieldPath


class ConfigTensor(msgspec.Struct, frozen=True, kw_only=True):
    """An input or an output as the config has it; `data_type` "" and `dims` None for those that it leaves out."""

    name: str
    data_type: str = ""
    dims: tuple[int, ...] | None = None


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """What does not fit: the field, what is wrong, and what to write."""

    field: FieldPath
    text: str
    suggestion: str


def contradictions(
    pipeline: Pipeline,
    inputs: collections.abc.Sequence[ConfigTensor],
    outputs: collections.abc.Sequence[ConfigTensor],
    *,
    batched: bool,
    split: collections.abc.Collection[str] = (),
) -> list[Contradiction]:
    """Everything in a config that its pipeline contradicts.

    Args:
        pipeline: the pipeline.
        inputs: of the config, those that the scheduler adds included.
        outputs: as the inputs.
        batched: max_batch_size is not 0; otherwise the first dimension of every tensor counts the samples.
        split: the outputs whose samples lose their first dimension.
    """
    found: list[Contradiction] = []
    known = {each.name: each for each in pipeline.inputs}
    for index, spec in enumerate(inputs):
        path: FieldPath = ("input", index)
        if spec.name not in known:
            found.append(
                Contradiction(
                    field=(*path, "name"),
                    text=f"Configuration file contains config for {spec.name} but such input is not present in the pipeline.",
                    suggestion=f"its inputs are {', '.join(known)}: the names of its external_source operators",
                )
            )
            continue
        found += _of_tensor(path, spec, known[spec.name], batched=batched)
    given = {spec.name for spec in inputs}
    found += [
        Contradiction(
            field=("input",),
            text=f'Missing config for "{name}" input.',
            suggestion=f"add it: the pipeline has the inputs {', '.join(known)}",
        )
        for name in known
        if name not in given
    ]
    if len(outputs) != len(pipeline.outputs):
        found.append(
            Contradiction(
                field=("output",),
                text="The number of outputs specified in the DALI pipeline and the configuration file do not match. "
                f"Model config outputs: {len(outputs)} Pipeline outputs: {len(pipeline.outputs)}",
                suggestion="list them in the order in which the pipeline returns them, with names of your choice",
            )
        )
        return found
    for index, (spec, tensor) in enumerate(zip(outputs, pipeline.outputs, strict=True)):
        if spec.name in split and tensor.ndim > 0:
            tensor = msgspec.structs.replace(tensor, ndim=tensor.ndim - 1)  # noqa: PLW2901
        found += _of_tensor(("output", index), spec, tensor, batched=batched)
    return found


def _of_tensor(
    path: FieldPath, spec: ConfigTensor, tensor: PipelineTensor, *, batched: bool
) -> collections.abc.Iterator[Contradiction]:
    if spec.data_type and spec.data_type not in DATA_TYPES:
        yield Contradiction(
            field=(*path, "data_type"),
            text=f"DALI has no {spec.data_type}, which the config gives '{spec.name}'",
            suggestion="write TYPE_UINT8 and dims: [ -1 ] for the bytes of a file"
            if spec.data_type == "TYPE_STRING"
            else "write another datatype",
        )
    elif spec.data_type and tensor.data_type and spec.data_type != tensor.data_type:
        yield Contradiction(
            field=(*path, "data_type"),
            text=f'Mismatch of data_type config for "{spec.name}". Data type defined in config: {spec.data_type} '
            f"Data type defined in pipeline: {tensor.data_type}",
            suggestion=f"write {tensor.data_type}",
        )
    ndim = tensor.ndim + (0 if batched else 1)
    if spec.dims is not None and tensor.ndim >= 0 and len(spec.dims) != ndim:
        # A config cannot have no dims: a scalar has one, of size 1.
        if ndim == 0 and spec.dims == (1,):
            return
        dims = (
            "[ " + ", ".join(["-1"] * ndim) + " ]" if ndim else "[ 1 ] and reshape { shape: [ ] }"
        )
        yield Contradiction(
            field=(*path, "dims"),
            text=f'Mismatch in number of dimensions for "{spec.name}" Number of dimensions defined in config: {len(spec.dims)} '
            f"Number of dimensions defined in pipeline: {ndim}",
            suggestion=f"write dims: {dims}"
            + ("" if batched else ", of which the first counts the samples"),
        )


def complete(message: Any, pipeline: Pipeline, *, batched: bool, data_types: Any) -> None:
    """Fill in what a config leaves open: inputs by name, outputs by order, the batch size, and that batches are made at all.

    Args:
        message: the config, changed in place.
        pipeline: its pipeline.
        batched: the config does not say that max_batch_size is 0.
        data_types: the enum of datatypes of the config's message.
    """
    if batched and message.max_batch_size <= 0:
        message.max_batch_size = max(1, pipeline.batch_size)
    listed = {spec.name: spec for spec in message.input}
    added = {each.name for each in message.sequence_batching.control_input}
    added.update(state.input_name for state in message.sequence_batching.state)
    for tensor in pipeline.inputs:
        spec = listed.get(tensor.name)
        if spec is None and tensor.name not in added:
            spec = message.input.add(name=tensor.name, allow_ragged_batch=batched)
        if spec is not None:
            _fill(spec, tensor, batched=batched, data_types=data_types)
    split = _split(message)
    for index, tensor in enumerate(pipeline.outputs):
        new = index >= len(message.output)
        spec = message.output.add(name=tensor.name) if new else message.output[index]
        spec.name = spec.name or tensor.name
        if spec.name in split and tensor.ndim > 0:
            tensor = msgspec.structs.replace(tensor, ndim=tensor.ndim - 1)  # noqa: PLW2901
        _fill(spec, tensor, batched=batched, data_types=data_types)
    batch_by_default(message)


def batch_by_default(message: Any) -> None:
    """Have requests batched where the config does not say how they are scheduled, as Triton's dali_backend does."""
    if message.max_batch_size > 1 and message.WhichOneof("scheduling_choice") is None:
        message.dynamic_batching.SetInParent()


def _split(message: Any) -> list[str]:
    parameter = message.parameters.get("split_along_outer_axis")
    return [] if parameter is None else parameter.string_value.split(":")


def _fill(spec: Any, tensor: PipelineTensor, *, batched: bool, data_types: Any) -> None:
    if not spec.data_type and tensor.data_type:
        spec.data_type = data_types.Value(tensor.data_type)
    if spec.dims or tensor.ndim < 0:
        return
    dims = [-1] * (tensor.ndim + (0 if batched else 1))
    spec.dims.extend(dims or [1])
    if not dims:
        spec.reshape.SetInParent()
