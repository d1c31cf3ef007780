"""`record`: a dataclass that is frozen to the type checker and plain at run time.

The hot path makes several of these a request. A really frozen dataclass assigns each field through
`object.__setattr__`, which costs about 0.2 µs a field; the type checker forbids assignment just as well,
for nothing. Used only for what a request makes; everything else uses `dataclass(frozen=True)`.
"""

import dataclasses
import typing

T = typing.TypeVar("T")


@typing.dataclass_transform(frozen_default=True, kw_only_default=False)
def record(cls: type[T]) -> type[T]:
    """Make `cls` a slotted dataclass whose fields nobody may assign (checked by mypy, not at run time)."""
    return dataclasses.dataclass(slots=True, eq=False)(cls)
