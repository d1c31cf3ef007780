"""Which sizes batches are filled up to, and whether a session for another size is made: decisions only, with nothing of onnxruntime.

cuDNN plans a convolution again whenever the shape of its input changes, which takes up to a hundred times as long as the run (NVIDIA H200). The
dynamic batcher makes batches of any size. So a model with convolutions has, on CUDA, a few sizes and a session for each: a batch goes to the session
of the next larger size, filled up with copies of its last row, or to several sessions where that is faster, and no session ever sees a second shape. Rows of such a model are independent of each
other, since the dynamic batcher mixes the rows of different clients anyway; a model without it is left alone.
"""

import bisect
import collections.abc
import itertools
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

LOAD_LIMIT_NS = 60_000_000_000
"""How long a load may spend on sessions before it goes on with those that it has."""

EXTRA_SHARE = 0.1
"""The part of a device's memory that the sessions of an instance may take beyond the first one: models that are loaded later need the rest."""

FREE_SHARE = 0.3
"""The part of a device's memory that stays free of them."""

MAX_RUNS = 3
"""Sessions that a batch is split over at most."""

SPLIT_BELOW = 0.9
"""A batch is split if that takes less than this part of one filled run: less would be within what measured times vary."""

MAX_FAILURES = 3
"""Filled batches in a row that fail and succeed without the added rows, after which batches are not filled any more."""

CONVOLUTIONS = frozenset(
    ("Conv", "ConvTranspose", "DeformConv", "FusedConv", "NhwcConv", "NhwcFusedConv", "GroupConv")
)
"""The operators for which cuDNN plans."""

_Mode = typing.Literal["auto", "on", "off"]


class Fill(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings ask for.

    Attributes:
        mode: "auto": where it pays, on CUDA with convolutions.
        sizes: ascending; empty for those that are chosen here.
    """

    mode: _Mode = "auto"
    sizes: tuple[int, ...] = ()


class Memory(typing.NamedTuple):
    """The memory of a device, in bytes."""

    free: int
    total: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What the sessions of one instance have taken so far.

    Attributes:
        spent_ns: the time since the first one was begun.
        last_ns: the time that the last one took.
        last_bytes: the device's memory that the last one took; 0 if that is not known.
        extra_bytes: that all but the first one took.
        memory: of the device, now; None if it is not known.
    """

    spent_ns: int
    last_ns: int
    last_bytes: int
    extra_bytes: int
    memory: Memory | None


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
    """Whether `parse` takes the text."""
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


def in_order(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes in the order in which sessions are made, since there may be memory for the first ones only.

    The largest takes every batch. The smallest spares a lone request the other rows. Then from above, where added rows cost most.
    """
    if len(sizes) <= 1:
        return sizes
    return (sizes[-1], sizes[0], *reversed(sizes[1:-1]))


def reason_to_stop(progress: Progress) -> str:
    """Why no further session is made; "" to go on, if the next one takes what the last one took."""
    if progress.spent_ns + progress.last_ns > LOAD_LIMIT_NS:
        return f"another one would exceed the {LOAD_LIMIT_NS // 1_000_000_000} s that they may take"
    memory = progress.memory
    if memory is None:
        return ""
    another = f"another one of about {_mib(progress.last_bytes)} MiB"
    if progress.extra_bytes + progress.last_bytes > EXTRA_SHARE * memory.total:
        return (
            f"{another} would exceed {EXTRA_SHARE:.0%} of the device's memory for all but the first ({_mib(progress.extra_bytes)} of "
            f"{_mib(memory.total)} MiB are taken)"
        )
    if memory.free - progress.last_bytes < FREE_SHARE * memory.total:
        return f"{another} would leave less than {FREE_SHARE:.0%} of the device's memory free ({_mib(memory.free)} of {_mib(memory.total)} MiB are)"
    return ""


def runs_of(rows: int, costs: collections.abc.Mapping[int, int]) -> tuple[int, ...]:
    """The sizes of the runs of a batch, the largest first: one filled run, or several that are faster together. One of these sizes is never split.

    `costs` has the time of a run by size. Where it is not known, which is 0, no batch is split.
    """
    sizes = tuple(sorted(costs))
    filled = size_for(sizes, rows)
    if filled == rows:
        return (filled,)
    _, _, fastest = min(
        (sum(costs[size] for size in runs), count, runs)
        for count in range(1, MAX_RUNS + 1)
        for runs in itertools.combinations_with_replacement(reversed(sizes), count)
        if sum(runs) >= rows
    )
    is_faster = sum(costs[size] for size in fastest) < SPLIT_BELOW * costs[filled]
    return fastest if is_faster else (filled,)


def size_for(sizes: tuple[int, ...], rows: int) -> int:
    """The size that a batch is filled up to: the next larger one; the largest for a batch beyond it, which is not filled."""
    place = bisect.bisect_left(sizes, rows)
    return sizes[min(place, len(sizes) - 1)]


def _mib(size: int) -> int:
    return size >> 20


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
