"""Which models to unload so that a load fits into the limits of memory (`--model-memory-limit`). Pure."""

import collections
import collections.abc

import msgspec

from naiad.engine.memory.sizes import Place

Sizes = collections.abc.Mapping[Place, int]
"""Bytes by memory; a memory that is left out has none."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A model that may be unloaded.

    Attributes:
        name: the model.
        sizes: what all of its versions take.
        in_use: whether it has requests now.
        last_use_ms: when it last executed a batch, or was loaded (Unix time).
    """

    name: str
    sizes: Sizes
    in_use: bool
    last_use_ms: int


def total(sizes: collections.abc.Iterable[Sizes]) -> collections.Counter[Place]:
    """The sum of sizes."""
    result = collections.Counter[Place]()
    for each in sizes:
        result.update(each)
    return result


def missing(needed: Sizes, *, used: Sizes, limits: Sizes) -> dict[Place, int]:
    """The bytes by which a load would exceed the limits, by memory; empty if it fits. A memory without a limit is never short."""
    over = {
        place: used.get(place, 0) + needed.get(place, 0) - limit for place, limit in limits.items()
    }
    return {place: size for place, size in over.items() if size > 0}


def to_unload(
    needed: Sizes,
    *,
    used: Sizes,
    limits: Sizes,
    candidates: collections.abc.Iterable[Candidate],
) -> list[str] | None:
    """The models to unload before a load, the least recently used ones first, those with requests last.

    Args:
        needed: by the load.
        used: by all that is loaded or being loaded, candidates included.
        limits: of the memories that have one.
        candidates: the models that may be unloaded.

    Returns:
        Their names; empty if it fits already. A model that has nothing of a memory that is short stays. None if it does not fit although all of
        them are unloaded.
    """
    short = missing(needed, used=used, limits=limits)
    names: list[str] = []
    for candidate in sorted(candidates, key=_order):
        if not short:
            break
        if not any(candidate.sizes.get(place, 0) for place in short):
            continue
        names.append(candidate.name)
        short = {
            place: left
            for place, size in short.items()
            if (left := size - candidate.sizes.get(place, 0)) > 0
        }
    return None if short else names


def _order(candidate: Candidate) -> tuple[bool, int, str]:
    return candidate.in_use, candidate.last_use_ms, candidate.name
