"""Which optimization profile runs a batch, and whether its shapes fit: decided from shapes and the values of shape tensors alone (row 16.19). Pure.

The messages are those of Triton's tensorrt backend.
"""

import collections.abc

import msgspec

from naiad.backends import batch as batches
from naiad.backends.tensorrt.engine.description import Range, Shape
from naiad.errors import FailureReason, invalid


class Shapes(msgspec.Struct, frozen=True):
    """What a batch brings: the shape of each input, rows included, and the values of those that are shape tensors."""

    inputs: collections.abc.Mapping[str, Shape]
    values: collections.abc.Mapping[str, Shape] = {}


class UsedProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile that an instance uses.

    Attributes:
        name: as in the instance group; "default" where it names none.
        index: in the engine.
        shapes: what it allows of each input, with the config's dims taken into account.
        values: of each shape tensor.
    """

    name: str
    index: int
    shapes: collections.abc.Mapping[str, Range]
    values: collections.abc.Mapping[str, Range]


def index_of(name: str) -> int:
    """The number of a profile that an instance group names: the one that its name begins with, as Triton reads it.

    Raises:
        InferenceError: INVALID_ARG: it is not a number.
    """
    if not name:
        raise invalid("profile name must not be empty")
    text = name.strip()
    digits = len(text) - len(text[1:].lstrip("0123456789")) if text[:1] in "+-" else 0
    number = text[:digits] if digits else text[: len(text) - len(text.lstrip("0123456789"))]
    try:
        return int(number)
    except ValueError:
        raise invalid(
            f"unable to parse '{name}': stoi (the profile of an instance group is the number of an optimization profile of the plan, such as \"0\")"
        ) from None


def choose(profiles: collections.abc.Sequence[UsedProfile], batch: Shapes) -> UsedProfile:
    """The profile whose best shapes are the nearest to a batch's, of those that allow it; the first of several, and the first of all if none does.

    The distance is the sum of the differences of all dimensions and of all values of shape tensors.
    """
    if len(profiles) == 1:
        return profiles[0]
    nearest, chosen = -1, profiles[0]
    for profile in profiles:
        if not allows(profile, batch):
            continue
        away = _distance(profile, batch)
        if nearest < 0 or away < nearest:
            nearest, chosen = away, profile
    return chosen


def check(profile: UsedProfile, batch: Shapes, *, instance: str) -> None:
    """Refuse a batch that the chosen profile does not allow.

    Raises:
        InferenceError: INTERNAL for a shape, INVALID_ARG for the values of a shape tensor, as in Triton.
    """
    for name, shape in batch.inputs.items():
        if why := _shape_fault(profile, name, shape):
            raise batches.broken(
                f"request specifies invalid shape for input '{name}' for {instance}. Error details: {why}"
            )
    for name, values in batch.values.items():
        if why := _values_outside(values, profile.values[name]):
            error = invalid(f"{why} (input '{name}' for {instance})")
            error.reason = FailureReason.BACKEND
            raise error


def allows(profile: UsedProfile, batch: Shapes) -> bool:
    """Whether a profile allows a batch."""
    return not any(
        _shape_fault(profile, name, shape) for name, shape in batch.inputs.items()
    ) and not any(
        _values_outside(values, profile.values[name]) for name, values in batch.values.items()
    )


def _shape_fault(profile: UsedProfile, name: str, shape: Shape) -> str:
    allowed = profile.shapes.get(name)
    return "" if allowed is None else outside(shape, allowed)


def outside(shape: Shape, allowed: Range) -> str:
    """Why a shape is not in a range; "" if it is. A dimension of any size (-1) fits."""
    if len(shape) != len(allowed.most):
        return f"model expected {len(allowed.most)} dimensions but received {len(shape)} dimensions"
    for index, size in enumerate(shape):
        least, most = allowed.least[index], allowed.most[index]
        if size != -1 and not least <= size <= most:
            return f"model expected the shape of dimension {index} to be between {least} and {most} but received {size}"
    return ""


def narrowed(dims: Shape, allowed: Range, *, rows: int, name: str, model: str) -> Range:
    """The range of an input with the config's dims in it, which may be smaller: memory is allocated for no more.

    Args:
        dims: as the model has them, the batch dimension included, if there is one, as -1.
        allowed: by the profile.
        rows: max_batch_size; 0 for a model without a batch dimension, or an input whose first dimension is not the batch.
        name: of the input.
        model: its name.

    Raises:
        InferenceError: INVALID_ARG: the profile allows no such shape.
    """
    if why := outside(dims, allowed):
        raise invalid(
            f"model configuration specified invalid shape for input '{name}' for model {model}. Error details: {why}"
        )
    most = [limit if size == -1 else size for size, limit in zip(dims, allowed.most, strict=True)]
    if rows and most:
        most[0] = min(most[0], rows)
    return Range(allowed.least, allowed.best, tuple(most))


def _values_outside(values: Shape, allowed: Range) -> str:
    if len(values) != len(allowed.most):
        return f"mismatch between the number of shape values. Expecting {len(allowed.most)}. Got {len(values)}"
    for index, value in enumerate(values):
        least, most = allowed.least[index], allowed.most[index]
        if not least <= value <= most:
            return f"The shape value at index {index} is expected to be in range from {least} to {most}, Got: {value}"
    return ""


def _distance(profile: UsedProfile, batch: Shapes) -> int:
    away = 0
    for ranges, given in ((profile.shapes, batch.inputs), (profile.values, batch.values)):
        for name, sizes in given.items():
            if name in ranges:
                pairs = zip(ranges[name].best, sizes, strict=True)
                away += sum(abs(best - size) for best, size in pairs)
    return away


def used(
    names: collections.abc.Sequence[str],
    count: int,
    *,
    instance: str,
) -> list[tuple[str, int]]:
    """The profiles of an instance: each index once, in the order of their numbers, with its name.

    Args:
        names: of its group; none for the plan's first profile.
        count: how many the plan has.
        instance: its name.

    Raises:
        InferenceError: INVALID_ARG: there is no such profile.
    """
    found: dict[int, str] = {}
    for name in names or ("",):
        index = index_of(name) if names else 0
        if not 0 <= index < count:
            raise invalid(
                f"Can not set the specified optimization profile {name}[{index}] for {instance}. "
                f"Expected optimization profile index range 0-{count - 1}"
            )
        found.setdefault(index, name or "default")
    return [(found[index], index) for index in sorted(found)]
