"""Manifests as YAML text, the way people write and read them: fields in their order, no anchors, long texts on one line."""

import collections.abc
import re
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


class _Loader(yaml.SafeLoader):
    """Reads as kubectl does where YAML's own rules and a library's differ.

    Dates and times of day are texts, `y` and `n` are no texts, 1e3 is a number and 2.0 a whole one, keys are texts, and a key
    that stands twice is an error: of two values one would silently win.
    """

    bool_values: typing.ClassVar[dict[str, bool]] = {
        **yaml.SafeLoader.bool_values,
        "y": True,
        "n": False,
    }

    @override
    def construct_mapping(
        self, node: yaml.Node, deep: bool = False
    ) -> dict[typing.Any, typing.Any]:
        """A mapping with texts as keys."""
        assert isinstance(node, yaml.MappingNode)
        written = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key, _ in node.value:
            if (
                isinstance(key, yaml.ScalarNode)
                and key.value != "<<"
                and written.count(key.value) > 1
            ):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
        made = super().construct_mapping(node, deep=deep)
        return {_key(key): value for key, value in made.items()}


def _key(key: typing.Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _number(loader: _Loader, node: yaml.ScalarNode) -> float:
    value = float(loader.construct_yaml_float(node))
    return int(value) if value.is_integer() else value


# The base's own resolvers are shared by every loader: these are this one's alone.
_Loader.yaml_implicit_resolvers = {}
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", "y|Y|n|N|(?i:yes|no|true|false|on|off)", "yYnNtTfFoO"),
    (_INT, r"[-+]?(0b[0-1_]+|0[0-7_]*|[1-9][0-9_]*|0x[0-9a-fA-F_]+)", "-+0123456789"),
    (_FLOAT, r"[-+]?([0-9][0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?|\.[0-9_]+([eE][-+]?[0-9]+)?)", "-+0123456789."),
    (_FLOAT, r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("tag:yaml.org,2002:null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:merge", "<<", "<"),
):  # fmt: skip
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor(_FLOAT, _number)


def read(text: str) -> list[typing.Any]:
    """Every document that is not empty.

    Raises:
        yaml.YAMLError: when it is no YAML; the message names the line.
    """
    loaded = yaml.load_all(text, Loader=_Loader)
    return [document for document in loaded if document is not None]
