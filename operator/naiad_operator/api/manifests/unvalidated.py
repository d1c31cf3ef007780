"""Reads manifests whose shape is not known to be right: what has another type counts as absent."""

import collections.abc
import typing

Fields = dict[str, typing.Any]


def part(fields: typing.Any, *names: str) -> Fields:
    """A mapping inside other ones; an empty one when there is none."""
    for name in names:
        fields = fields.get(name) if isinstance(fields, dict) else None
    return fields if isinstance(fields, dict) else {}


def entries(fields: typing.Any, name: str) -> list[Fields]:
    """The mappings of a list in another mapping; empty when there is none."""
    values = fields.get(name) if isinstance(fields, dict) else None
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []


def texts(fields: typing.Any, name: str) -> list[str]:
    """The entries of a list in another mapping as texts; empty when there is none."""
    values = fields.get(name) if isinstance(fields, dict) else None
    return [str(one) for one in values] if isinstance(values, list) else []


def own_copy(value: collections.abc.Mapping[str, typing.Any]) -> Fields:
    """A copy of a manifest that may be changed. What an alias of YAML shares is in it once for each alias: `copy.deepcopy` keeps it shared.

    Args:
        value: from a document whose aliases are bounded (`yaml_text`).
    """
    return {name: _own(one) for name, one in value.items()}


def _own(value: typing.Any) -> typing.Any:
    if isinstance(value, dict):
        return {name: _own(one) for name, one in value.items()}
    return [_own(one) for one in value] if isinstance(value, list) else value
