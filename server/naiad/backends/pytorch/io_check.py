"""A config held against the inputs and results of a program of torch.export (row 16.16), whether torch has loaded it or its file alone was read. Pure."""

import collections.abc

import msgspec

from naiad.backends.pytorch import call_spec
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.errors import InferenceError, invalid, unsupported


class Known(msgspec.Struct, frozen=True):
    """A tensor of a program.

    Attributes:
        datatype: as the config writes it, or torch's own name of one that no config can have.
        shape: -1 for a free dimension.
        most: the largest first dimension that the program takes, if it is free; None for any.
    """

    datatype: str
    shape: tuple[int, ...]
    most: int | None = None


class Other(msgspec.Struct, frozen=True):
    """What a program takes or gives that is not a tensor.

    Attributes:
        text: of its value, or of its kind.
    """

    text: str


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is called with, and what it gives.

    Attributes:
        in_spec, out_spec: how its flat lists are nested, in torch's JSON form.
        inputs, outputs: the flat lists; None for what is not known. An input that is not a tensor has the value of the example that the program
            was exported with.
    """

    in_spec: str
    out_spec: str
    inputs: tuple[Known | Other | None, ...] = ()
    outputs: tuple[Known | Other | None, ...] = ()


class Places(msgspec.Struct, frozen=True):
    """The places of the config's tensors in the flat lists, by name."""

    inputs: dict[str, int]
    outputs: dict[str, int]


def refuse_sequences(config: ModelConfig) -> None:
    """Refuse a sequence batcher.

    Raises:
        InferenceError: UNSUPPORTED: the config has one.
    """
    if config.message.HasField("sequence_batching"):
        raise unsupported(
            f"model '{config.name}': platform torch_aoti has no sequence batching: use TorchScript (platform pytorch_libtorch)"
        )


def check(config: ModelConfig, program: Described) -> Places:
    """Match the config's tensors with those of the program.

    Raises:
        InferenceError: INVALID_ARG: other names, another number of inputs, another datatype, other dims, fewer rows than the config batches, or what
            is not a tensor; INTERNAL: as `call_spec.input_names`.
    """
    model = config.name
    ways = call_spec.input_names(program.in_spec, model)
    inputs = call_spec.positions([each.name for each in config.inputs], ways, kind=call_spec.INPUT, model=model)  # fmt: skip
    others = {i for i, each in enumerate(program.inputs) if isinstance(each, Other)}
    tensors = len(ways) - len(others)
    lacking = [
        f"INPUT__{i} or {way}"
        for i, way in enumerate(ways)
        if i not in others and i not in inputs.values()
    ]
    if lacking:
        raise invalid(
            f"unable to load model '{model}', configuration expects {len(inputs)} inputs, model provides {tensors}: "
            f"add {', '.join(lacking)}"
        )
    results = call_spec.output_names(program.out_spec, model)
    outputs = call_spec.positions([each.name for each in config.outputs], results, kind=call_spec.OUTPUT, model=model)  # fmt: skip
    for side, specs, places, listed in (
        ("input", config.inputs, inputs, program.inputs),
        ("output", config.outputs, outputs, program.outputs),
    ):
        for spec in specs:
            known = listed[places[spec.name]] if places[spec.name] < len(listed) else None
            if isinstance(known, Other):
                raise _not_a_tensor(side, spec, known, model)
            if known is not None:
                _check_tensor(side, spec, known, config)
    return Places(inputs, outputs)


def _not_a_tensor(side: str, spec: TensorSpec, other: Other, model: str) -> InferenceError:
    """The error of a config that lists as a tensor what is not one."""
    why = (
        f"it always has the value that the model was exported with, {other.text}: take it out of the config"
        if side == "input"
        else f"it is {other.text}: take it out of the config, or have the model return a tensor"
    )
    return invalid(f"unable to load model '{model}': {side} '{spec.name}' is not a tensor: {why}")


def _check_tensor(side: str, spec: TensorSpec, known: Known, config: ModelConfig) -> None:
    model, batched, shape = config.name, config.max_batch_size > 0, known.shape
    if spec.datatype.config_name != known.datatype:
        raise invalid(
            f"unable to load model '{model}', configuration expects datatype {spec.datatype.config_name} for {side} '{spec.name}', "
            f"model provides {known.datatype}"
        )
    dims: collections.abc.Sequence[int] = spec.dims if spec.reshape is None else spec.reshape
    if batched and shape and shape[0] not in (-1, config.max_batch_size):
        raise invalid(
            f"unable to load model '{model}': it was exported for {shape[0]} rows of {side} '{spec.name}', and its max_batch_size is "
            f"{config.max_batch_size}: export it with dynamic_shapes whose first dimension is a torch.export.Dim, or write max_batch_size: 0"
        )
    if (
        batched
        and side == "input"
        and known.most is not None
        and known.most < config.max_batch_size
    ):
        raise invalid(
            f"unable to load model '{model}': it was exported for at most {known.most} rows of {side} '{spec.name}', and its max_batch_size is "
            f"{config.max_batch_size}: write max_batch_size: {known.most}, or export it with a torch.export.Dim of a larger max"
        )
    rest = shape[1:] if batched else shape
    if len(rest) != len(dims) or any(
        size not in (-1, dim) and dim != -1 for size, dim in zip(rest, dims, strict=True)
    ):
        raise invalid(
            f"unable to load model '{model}', configuration expects dims {list(dims)} for {side} '{spec.name}', model provides {list(rest)}"
        )
