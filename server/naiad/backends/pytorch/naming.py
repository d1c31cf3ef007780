"""Which tensor of a config is which argument and which result of a TorchScript model (row 16.13). Pure.

The rules and the error texts are those of Triton's pytorch backend (`src/pt/model_instance_state.cc`). Beyond it, positions that do not exist, or
that two tensors claim, are refused at the load; Triton finds out with the first request, or passes a tensor that no request has.
"""

import collections.abc

import msgspec

from naiad.backends.ragged import batch_input_specs
from naiad.config import sequence_tensors
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.errors import InferenceError, internal, invalid

TENSOR, LIST, DICT = "Tensor", "List", "Dict"
"""The kinds of arguments that a model may take."""

DATATYPES = frozenset(
    (
        datatypes.BOOL, datatypes.UINT8, datatypes.INT8, datatypes.INT16, datatypes.INT32, datatypes.INT64, datatypes.FP16, datatypes.FP32,
        datatypes.FP64, datatypes.BF16, datatypes.BYTES,
    )
)  # fmt: skip
"""What tensors can be: those of Triton's backend, and BF16."""

_NAMES_NONE = "model configuration must contain at least one {}, none were specified."


class Argument(msgspec.Struct, frozen=True):
    """An argument of a model's `forward`, without `self`.

    Attributes:
        kind: `TENSOR`, `LIST` or `DICT`; anything else is the text of a type that no tensor can be.
    """

    name: str
    kind: str


class InputPlan(msgspec.Struct, frozen=True):
    """How the inputs of a request become arguments.

    Attributes:
        names: the config's inputs in the order of the arguments.
        as_dict: all of them are one argument, a dict from name to tensor.
    """

    names: tuple[str, ...]
    as_dict: bool


def plans(
    config: ModelConfig, arguments: collections.abc.Sequence[Argument]
) -> tuple[InputPlan, dict[str, int]]:
    """How a config's inputs become arguments, and the position of each of its outputs, with those that the scheduler adds.

    Raises:
        InferenceError: as `plan_inputs` and `plan_outputs`.
    """
    batched = config.max_batch_size > 0
    added = (*sequence_tensors.model_inputs(config)[len(config.inputs) :], *batch_input_specs(config))  # fmt: skip
    inputs = plan_inputs(config.name, arguments, config.inputs, added=added, batched=batched)
    outputs = sequence_tensors.model_outputs(config)
    return inputs, plan_outputs(config.name, outputs, batched=batched)


def plan_inputs(
    model: str,
    arguments: collections.abc.Sequence[Argument],
    inputs: collections.abc.Sequence[TensorSpec],
    *,
    added: collections.abc.Sequence[TensorSpec] = (),
    batched: bool,
) -> InputPlan:
    """Match the config's inputs with the arguments of the model.

    Args:
        model: the model's name, for messages.
        arguments: of `forward`; none if the model does not say.
        inputs: of the config, in its order.
        added: control tensors, states and batch inputs, which the scheduler adds; each is named `<name>__<index>`.
        batched: the model's max_batch_size is above 0.

    Raises:
        InferenceError: INVALID_ARG or INTERNAL, as Triton has it: they do not match.
    """
    if not inputs:
        raise internal(_NAMES_NONE.format("input"))
    everything = (*inputs, *added)
    for spec in everything:
        _check_datatype(spec, "input", model, batched=batched)
    as_dict = len(arguments) == 1 and arguments[0].kind == DICT
    if as_dict:
        return InputPlan(tuple(spec.name for spec in everything), as_dict=True)
    _check_arguments(model, arguments, len(everything))
    names = [argument.name for argument in arguments]
    positions = _positions(inputs, names) or {spec.name: i for i, spec in enumerate(inputs)}
    for spec in added:
        index = index_of(spec.name)
        if index is None:
            raise internal(
                f"input '{spec.name}' does not follow <name>__<index> naming convention."
            )
        positions[spec.name] = index
    return InputPlan(_in_order(model, positions, "input", len(everything)), as_dict=False)


def plan_outputs(
    model: str, outputs: collections.abc.Sequence[TensorSpec], *, batched: bool
) -> dict[str, int]:
    """The position of each of the config's outputs, by name, in what the model gives.

    Raises:
        InferenceError: INTERNAL: the config has no outputs, or one of a datatype that torch has not.
    """
    if not outputs:
        raise internal(_NAMES_NONE.format("output"))
    for spec in outputs:
        _check_datatype(spec, "output", model, batched=batched)
    indexes = [index_of(spec.name) for spec in outputs]
    if any(index is None for index in indexes):
        return {spec.name: i for i, spec in enumerate(outputs)}
    return {spec.name: index or 0 for spec, index in zip(outputs, indexes, strict=True)}


def index_of(name: str) -> int | None:
    """The index in a name such as `INPUT__0`; None where there is none. Nothing behind the underscores is 0, as in Triton."""
    _, underscores, index = name.partition("__")
    if not underscores or not all("0" <= digit <= "9" for digit in index):
        return None
    return int(index or "0")


def unnamed(
    inputs: collections.abc.Sequence[TensorSpec], arguments: collections.abc.Sequence[Argument]
) -> str:
    """The first input that is neither an argument nor has an index, so that the config's order decides; "" for none."""
    names = [argument.name for argument in arguments]
    if _positions(inputs, names) is not None:
        return ""
    return next(spec.name for spec in inputs if index_of(spec.name) is None)


def _positions(
    inputs: collections.abc.Sequence[TensorSpec], names: list[str]
) -> dict[str, int] | None:
    """The position of each input: by the names of the arguments, else by the indexes; None if some input has neither."""
    if all(spec.name in names for spec in inputs):
        return {spec.name: names.index(spec.name) for spec in inputs}
    positions: dict[str, int] = {}
    for spec in inputs:
        index = index_of(spec.name)
        if index is None:
            return None
        positions[spec.name] = index
    return positions


def _in_order(model: str, positions: dict[str, int], what: str, count: int) -> tuple[str, ...]:
    taken: dict[int, str] = {}
    for name, position in positions.items():
        if position >= count:
            raise invalid(
                f"unable to load model '{model}': {what} '{name}' has index {position}, but the model has {count} {what}s: indexes begin with 0"
            )
        if position in taken:
            raise invalid(
                f"unable to load model '{model}': {what}s '{taken[position]}' and '{name}' are both argument {position}: give each an index of "
                "its own"
            )
        taken[position] = name
    return tuple(taken[position] for position in range(count))


def _check_arguments(
    model: str, arguments: collections.abc.Sequence[Argument], expected: int
) -> None:
    if not arguments:
        return
    if any(argument.kind == DICT for argument in arguments[1:]):
        raise internal(
            "Multiple inputs of kind DictType were detected. Only a single input of type Dict(str, Tensor) is supported."
        )
    for argument in arguments:
        if argument.kind not in (TENSOR, LIST):
            raise internal(
                f"An input of type '{argument.kind}' was detected in the model. Only a single input of type Dict(str, Tensor) or input(s) of "
                f"type Tensor are supported. (argument '{argument.name}' of forward() in model '{model}': take it as a Tensor)"
            )
    if len(arguments) != expected:
        raise invalid(
            f"unable to load model '{model}', configuration expects {expected} inputs, model provides {len(arguments)} "
            f"({', '.join(argument.name for argument in arguments)})"
        )


def _check_datatype(spec: TensorSpec, what: str, model: str, *, batched: bool) -> None:
    if spec.datatype not in DATATYPES:
        raise unsupported_datatype(spec.datatype, spec.name, what, model)
    dims = spec.dims if spec.reshape is None else spec.reshape
    if spec.datatype is datatypes.BYTES and len(dims) + batched > 1:
        raise internal(
            f"Triton only supports 1 dimensional List of String as {what} for '{spec.name}' for model '{model}'"
        )


def without_forward(model: str) -> InferenceError:
    """The error of a model whose class has no `forward`, which is the method that is served."""
    return internal(
        f"failed to load model '{model}': it has no method forward(): define one that calls the method which is to be served, and save the model again"
    )


def unsupported_datatype(datatype: DataType, name: str, what: str, model: str) -> InferenceError:
    """The error of a tensor whose datatype torch has not."""
    return internal(
        f"unsupported datatype {datatype.config_name} for {what} '{name}' for model '{model}'"
    )
