"""Manifests as YAML text, the way people write and read them: fields in their order, no anchors, long texts on one line."""

import collections.abc
import typing

import yaml
from typing_extensions import override


class _Dumper(yaml.SafeDumper):
    """Writes what is shared twice, instead of as an anchor that nobody can read."""

    @override
    def ignore_aliases(self, data: typing.Any) -> bool:
        return True

    @override
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists below their field, as kubectl's users do."""
        super().increase_indent(flow, indentless=False)


def write(manifests: collections.abc.Iterable[collections.abc.Mapping[str, typing.Any]]) -> str:
    """One document a manifest."""
    return "---\n".join(
        yaml.dump(dict(one), Dumper=_Dumper, sort_keys=False, width=100_000, allow_unicode=True)
        for one in manifests
    )


def read(text: str) -> list[typing.Any]:
    """Every document that is not empty.

    Raises:
        yaml.YAMLError: when it is no YAML; the message names the line.
    """
    return [document for document in yaml.safe_load_all(text) if document is not None]
