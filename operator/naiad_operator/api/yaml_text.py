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


class Loader(yaml.SafeLoader):
    """Reads as kubectl does where YAML's own rules and a library's differ.

    Dates and times of day are texts, `y` and `n` are no texts, 1e3 is a number and 2.0 a whole one, and keys are texts. What
    `flaws` finds is an error.
    """

    bool_values: typing.ClassVar[dict[str, bool]] = {
        **yaml.SafeLoader.bool_values,
        "y": True,
        "n": False,
    }

    @override
    def construct_document(self, node: yaml.Node) -> typing.Any:
        """The value of a document."""
        for flaw in flaws(node):
            raise flaw
        return self.construct_flawless(node)

    def construct_flawless(self, node: yaml.Node) -> typing.Any:
        """The value of a document in which `flaws` has found nothing; the next one can be read also where this one has none."""
        try:
            return super().construct_document(node)
        finally:
            self.constructed_objects = {}
            self.recursive_objects = {}
            self.state_generators: list[typing.Any] = []
            self.deep_construct = False

    @override
    def construct_object(self, node: yaml.Node, deep: bool = False) -> typing.Any:
        """A value; one that its tag does not fit is told with its line."""
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"this is no {kind} that can be read", node.start_mark
            ) from error

    @override
    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        """A scalar; JSON writes a character beyond the first 65,536 as two."""
        text = super().construct_scalar(node)
        if _SURROGATE.search(text):
            try:
                return text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                message = "this text holds half a character"
                raise yaml.constructor.ConstructorError(
                    None, None, message, node.start_mark
                ) from None
        return text

    @override
    def construct_mapping(
        self, node: yaml.Node, deep: bool = False
    ) -> dict[typing.Any, typing.Any]:
        """A mapping with texts as keys."""
        if not isinstance(node, yaml.MappingNode):
            message = "this is no mapping, though its tag says so"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
        made = super().construct_mapping(node, deep=deep)
        return {_key(key): value for key, value in made.items()}


_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_VALUES = 1_000_000
"""A document may unfold to. A few lines of aliases of aliases make more than any memory holds."""


def flaws(root: yaml.Node) -> collections.abc.Iterator[yaml.constructor.ConstructorError]:
    """What makes a document wrong before any of its values is looked at, each with its line.

    A key that stands twice (of two values one would silently win), a value that holds itself, and aliases without bounds.
    """
    sizes: dict[int, int] = {}
    errors: list[tuple[yaml.Node, str]] = []
    _measure(root, sizes, errors)
    if not errors and sizes[id(root)] > _MOST_VALUES:
        errors.append((root, "the aliases of this document unfold to more than a million values"))
    for node, message in errors:
        yield yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _measure(node: yaml.Node, sizes: dict[int, int], errors: list[tuple[yaml.Node, str]]) -> int:
    """How many values a node unfolds to; 0 stands for one that is still being measured."""
    known = sizes.get(id(node))
    if known is not None:
        if known == 0:
            errors.append((node, "this value holds itself, by an alias of its own anchor"))
        return known
    sizes[id(node)] = 0
    total = 1
    if isinstance(node, yaml.SequenceNode):
        total += sum(_measure(item, sizes, errors) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                before = first.setdefault(key.value, key)
                if before is not key:
                    line = before.start_mark.line + 1
                    errors.append(
                        (key, f"the key {key.value!r} stands twice, the first time in line {line}")
                    )
            total += 1 + _measure(value, sizes, errors)
    sizes[id(node)] = total
    return total


def _key(key: typing.Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _number(loader: Loader, node: yaml.ScalarNode) -> float:
    value = float(loader.construct_yaml_float(node))
    return int(value) if value.is_integer() else value


# The base's own resolvers are shared by every loader: these are this one's alone.
Loader.yaml_implicit_resolvers = {}
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
    Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))
Loader.add_constructor(_FLOAT, _number)


def read(text: str) -> list[typing.Any]:
    """Every document that is not empty.

    Raises:
        yaml.YAMLError: when it is no YAML; the message names the line.
    """
    loaded = yaml.load_all(text, Loader=Loader)
    return [document for document in loaded if document is not None]
