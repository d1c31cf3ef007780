"""Computes JSON merge patches (RFC 7386) between two statuses. Pure."""

import collections.abc
import typing

Object = collections.abc.Mapping[str, typing.Any]


def patch(before: Object, after: Object) -> dict[str, typing.Any]:
    """The patch from `before` to `after`; empty when they are equal. Lists are replaced as a whole, as the format requires."""
    different: dict[str, typing.Any] = {}
    for key, value in after.items():
        if value is None:
            continue
        old = before.get(key)
        if isinstance(value, collections.abc.Mapping) and isinstance(old, collections.abc.Mapping):
            if below := patch(old, value):
                different[key] = below
        elif old != value:
            different[key] = value
    gone = [key for key in before if after.get(key) is None]
    return {**different, **dict.fromkeys(gone)}
