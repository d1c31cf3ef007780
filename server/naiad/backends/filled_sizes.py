"""Which sizes the batches of a model are filled up to: decided from its config alone, for every backend that does it.

A filled batch has copies of its last row behind its own rows, which reach no client. Rows of such a model are independent of each other, since only the dynamic
batcher's batches are filled, and it mixes the rows of different clients anyway; a model without it is left alone.
"""

import bisect
import collections.abc
import typing

import msgspec

from naiad.config.model_config import ModelConfig
from naiad.errors import InferenceError, invalid

PARAMETER = "naiad.fill_batches"
"""The model's parameter."""

OPTION = "fill_batches"
"""The `--backend-config` key for all models."""

MAX_SIZES = 8
"""Sizes that are chosen here; a list of the administrator's may be longer."""

_Mode = typing.Literal["auto", "on", "off"]


class Fill(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings ask for.

    Attributes:
        mode: "auto": where it pays, on CUDA with convolutions.
        sizes: ascending; empty for those that are chosen here.
    """

    mode: _Mode = "auto"
    sizes: tuple[int, ...] = ()


def fill_of(config: ModelConfig, options: collections.abc.Mapping[str, str]) -> Fill:
    """Read the model's parameter, else the option.

    Raises:
        InferenceError: INVALID_ARG: the value is not valid, or the model's own cannot have an effect.
    """
    own = config.parameters.get(PARAMETER, "")
    text = own or options.get(OPTION, "")
    try:
        fill = parse(text)
        if own:
            _require_sizes_within(fill, config)
    except ValueError as error:
        source = f"parameter {PARAMETER}" if own else f"--backend-config=onnxruntime,{OPTION}"
        raise invalid(
            f"unable to load model '{config.name}': {source} is '{text}': {error}"
        ) from None
    if own and fill.mode == "on":
        _require_dynamic_batching(config)
    return fill


def parse(text: str) -> Fill:
    """Read a value: auto, on, off or sizes.

    Raises:
        ValueError: it is not one of them; the message says what is expected.
    """
    match text.strip().lower():
        case "" | "auto":
            return Fill()
        case "on" | "true":
            return Fill(mode="on")
        case "off" | "false" | "0":
            return Fill(mode="off")
        case word:
            try:
                sizes = tuple(sorted({int(part) for part in word.split(",")}))
            except ValueError:
                sizes = (0,)
            if sizes[0] < 1:
                raise ValueError("write auto, on, off, or numbers of rows such as 1,4,16")
            return Fill(mode="on", sizes=sizes)


def is_value(text: str) -> bool:
    """Whether `parse` takes it."""
    try:
        parse(text)
    except ValueError:
        return False
    return True


def sizes_of(config: ModelConfig, fill: Fill, *, pays: bool) -> tuple[int, ...]:
    """The sizes that batches of a model are filled up to, ascending and up to max_batch_size; empty for no filling.

    `pays` says that the model has convolutions and runs on CUDA.
    """
    most = config.max_batch_size
    batching = config.dynamic_batching
    if batching is None or most <= 1 or fill.mode == "off" or (fill.mode == "auto" and not pays):
        return ()
    if fill.sizes:
        return (*(size for size in fill.sizes if size < most), most)
    preferred = [size for size in batching.preferred_batch_sizes if size < most]
    if preferred:
        return tuple(sorted({1, *preferred, most}))
    powers = [1 << exponent for exponent in range(most.bit_length()) if 1 << exponent < most]
    # Of many sizes the small ones go: beside max_batch_size, a few rows more cost a GPU little.
    while len(powers) >= MAX_SIZES:
        powers.pop(1)
    return (*powers, most)


def size_for(sizes: tuple[int, ...], rows: int) -> int:
    """The size that a batch is filled up to: the next larger one; the largest for a batch beyond it, which is not filled."""
    place = bisect.bisect_left(sizes, rows)
    return sizes[min(place, len(sizes) - 1)]


def _require_sizes_within(fill: Fill, config: ModelConfig) -> None:
    if fill.sizes and fill.sizes[-1] > max(config.max_batch_size, 1):
        raise ValueError(
            f"{fill.sizes[-1]} rows are more than max_batch_size ({config.max_batch_size}): write sizes up to that"
        )


def _require_dynamic_batching(config: ModelConfig) -> None:
    """Rows of clients are never mixed with others without the dynamic batcher, and may depend on each other.

    Raises:
        InferenceError: INVALID_ARG: it does not form the model's batches.
    """
    if config.max_batch_size > 1 and config.dynamic_batching is not None:
        return
    fault = (
        f"max_batch_size is {config.max_batch_size}"
        if config.max_batch_size <= 1
        else "the config has no dynamic_batching"
    )
    raise _cannot_fill(config, fault)


def _cannot_fill(config: ModelConfig, fault: str) -> InferenceError:
    return invalid(
        f"unable to load model '{config.name}': parameter {PARAMETER} is '{config.parameters[PARAMETER]}', but {fault}, so that no batches of several "
        f"requests are formed: write dynamic_batching {{ }} and a max_batch_size above 1, or remove {PARAMETER}"
    )
