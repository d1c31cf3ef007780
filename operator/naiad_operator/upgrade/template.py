"""Compares pod templates, and reads from a live object the part that the operator applied. Pure."""

import collections.abc
import typing

import msgspec

from naiad_operator.api import quantity

Object = dict[str, typing.Any]
Node = collections.abc.Mapping[str, typing.Any]

_KEY_FIELDS = ("name", "mountPath", "containerPort", "topologyKey")
"""The fields by which items of a list are identified, in this order."""


class Difference(typing.NamedTuple):
    """A field that differs; None where one side does not have it."""

    path: str
    before: typing.Any
    after: typing.Any


def differences(before: Object, after: Object) -> list[Difference]:
    """The fields in which two templates differ, as paths such as "spec.containers[server].args".

    Quantities are equal when their amounts are: the API server stores 1000m as 1.
    """
    return list(_differences("", before, after))


def applied_part(live: typing.Any, fields: Node) -> typing.Any:
    """The part of a live value that a field manager owns: what it applied last, in the API server's notation.

    Args:
        live: the value in the live object.
        fields: the manager's field set for it (`fieldsV1`; `reconcile.ownership` describes the format).
    """
    if not fields:
        return live  # a leaf, or owned as a whole
    if isinstance(live, collections.abc.Mapping):
        return {
            name: applied_part(value, fields[f"f:{name}"])
            for name, value in live.items()
            if f"f:{name}" in fields
        }
    if isinstance(live, list):
        keyed = [
            (msgspec.json.decode(key[2:]), below)
            for key, below in fields.items()
            if key.startswith("k:")
        ]
        return [
            applied_part(item, below)
            for item in live
            for keys, below in keyed
            if all(item.get(name) == value for name, value in keys.items())
        ]
    return live


def _differences(
    path: str, before: typing.Any, after: typing.Any
) -> collections.abc.Iterator[Difference]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            below = f"{path}.{name}" if path else name
            yield from _differences(below, before.get(name), after.get(name))
        return
    old, new = _by_key(before), _by_key(after)
    if old is not None and new is not None:
        for key in dict.fromkeys((*old, *new)):
            yield from _differences(f"{path}[{key}]", old.get(key), new.get(key))
        return
    if not _is_same(before, after):
        yield Difference(path, before, after)


def _by_key(items: typing.Any) -> dict[str, Object] | None:
    """The items of a list by their key field; None for anything else."""
    if not isinstance(items, list) or not items:
        return None
    for field in _KEY_FIELDS:
        if all(isinstance(item, dict) and field in item for item in items):
            named = {str(item[field]): item for item in items}
            return named if len(named) == len(items) else None
    return None


def _is_same(before: typing.Any, after: typing.Any) -> bool:
    amounts = isinstance(before, str | int) and isinstance(after, str | int)
    return amounts and quantity.canonical(before) == quantity.canonical(after)
