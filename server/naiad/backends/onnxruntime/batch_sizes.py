"""Whether a session for another size that batches are filled up to is made, and which sessions run a batch: decisions only, with nothing of onnxruntime.

cuDNN plans a convolution again whenever the shape of its input changes, which takes up to a hundred times as long as the run (NVIDIA H200). The
dynamic batcher makes batches of any size. So a model with convolutions has, on CUDA, a few sizes (`filled_sizes`) and a session for each: a batch goes to the session
of the next larger size, filled up with copies of its last row, or to several sessions where that is faster, and no session ever sees a second shape.
"""

import collections.abc
import itertools
import typing

import msgspec

from naiad.backends.filled_sizes import size_for

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


def _mib(size: int) -> int:
    return size >> 20
