"""Reads and writes manifests as YAML in the usual style: fields in their order, no anchors, long texts on one line."""

import collections.abc
import math
import re
import typing

import yaml
from typing_extensions import override

from naiad_operator.api.manifests.unreadable import (
    CONTAINERS,
    ESCAPES,
    FRACTIONS,
    LEVELS,
    VALUES,
)


class _Dumper(yaml.SafeDumper):
    """Writes shared values twice instead of with an anchor, which is hard to read."""

    @override
    def ignore_aliases(self, data: typing.Any) -> bool:
        return True

    @override
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indents lists below their field, as kubectl's users do."""
        super().increase_indent(flow, indentless=False)


def write(manifests: collections.abc.Iterable[collections.abc.Mapping[str, typing.Any]]) -> str:
    """One document per manifest."""
    return "---\n".join(
        yaml.dump(dict(one), Dumper=_Dumper, sort_keys=False, width=100_000, allow_unicode=True)
        for one in manifests
    )


class Loader(yaml.SafeLoader):
    """Reads YAML as kubectl does, where the YAML rules and PyYAML differ.

    Dates and times of day are strings, `y` and `n` are booleans, 1e3 is a number and 2.0 an integer, and keys are strings. What
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
        """The value of a document without flaws; after an error the next document can still be read."""
        try:
            return super().construct_document(node)
        finally:
            self.constructed_objects = {}
            self.recursive_objects = {}
            self.state_generators: list[typing.Any] = []
            self.deep_construct = False

    @override
    def construct_object(self, node: yaml.Node, deep: bool = False) -> typing.Any:
        """A value; an error with its line when the value does not fit its tag."""
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"this is not a readable {kind}", node.start_mark
            ) from error

    @override
    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
        """A scalar; joins the two codes with which JSON writes a character beyond U+FFFF."""
        text = super().construct_scalar(node)
        if _SURROGATE.search(text):
            try:
                return text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                message = "this text contains half a character"
                raise yaml.constructor.ConstructorError(
                    None, None, message, node.start_mark
                ) from None
        return text

    @override
    def construct_mapping(
        self, node: yaml.Node, deep: bool = False
    ) -> dict[typing.Any, typing.Any]:
        """A mapping with strings as keys."""
        if not isinstance(node, yaml.MappingNode):
            message = "this is not a mapping, though its tag says so"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
        made = super().construct_mapping(node, deep=deep)
        return {_key(key): value for key, value in made.items()}


_SURROGATE = re.compile("[\ud800-\udfff]")
_FLOAT = "tag:yaml.org,2002:float"
_MOST_VALUES = 1_000_000
"""The maximum number of values in a document with its aliases expanded. A few lines of nested aliases can exceed any memory."""


class _Extent(typing.NamedTuple):
    """What a node holds, itself included, with its aliases expanded.

    Attributes:
        values: values and keys.
        levels: of mappings and sequences.
        containers: mappings and sequences.
        commas: in its JSON, those in texts included.
        fractions: numbers with a fraction or an exponent.
        escapes: quotes and backslashes in its JSON.
    """

    values: int
    levels: int
    containers: int
    commas: int
    fractions: int
    escapes: int


_BEING_MEASURED = _Extent(0, 0, 0, 0, 0, 0)


def flaws(root: yaml.Node) -> collections.abc.Iterator[yaml.constructor.ConstructorError]:
    """The structural errors of a document, each with its line.

    They are: a duplicate key (one of the two values would silently be lost), a value that contains itself, and aliases or levels
    without bound.
    """
    extents: dict[int, _Extent] = {}
    errors: list[tuple[yaml.Node, str]] = []
    _measure(root, extents, errors)
    if not errors and extents[id(root)].values > _MOST_VALUES:
        errors.append((root, "the aliases of this document expand to more than a million values"))
    for item in _objects_of(root):
        extent = extents[id(item)]
        for bound, count in ((CONTAINERS, extent.containers), (VALUES, extent.commas), (FRACTIONS, extent.fractions), (ESCAPES, extent.escapes)):  # fmt: skip
            if not errors and count > bound.most:
                errors.append((item, bound.message))
    for node, message in errors:
        yield yaml.constructor.ConstructorError(None, None, message, node.start_mark)


def _objects_of(root: yaml.Node) -> list[yaml.Node]:
    """The objects of a List, as `kubectl get -o yaml` writes several; any other document is one."""
    if isinstance(root, yaml.MappingNode):
        fields = {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}
        items = fields.get("items")
        if isinstance(items, yaml.SequenceNode) and "kind" in fields:
            objects: list[yaml.Node] = items.value
            return objects
    return [root]


def _measure(
    node: yaml.Node, extents: dict[int, _Extent], errors: list[tuple[yaml.Node, str]]
) -> _Extent:
    """Measures a node and everything in it."""
    known = extents.get(id(node))
    if known is not None:
        if known is _BEING_MEASURED:
            errors.append((node, "this value contains itself, through an alias of its own anchor"))
        return known
    extents[id(node)] = _BEING_MEASURED
    values, levels, containers = 1, 0, 0
    below: list[yaml.Node] = []
    texts: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        below = node.value
    elif isinstance(node, yaml.MappingNode):
        below = [value for _, value in node.value]
        values += len(below)  # the keys
        texts = [key for key, _ in node.value]
        _find_duplicates(node, errors)
    else:
        texts = [node]
    commas, fractions, escapes = max(len(below) - 1, 0), int(node.tag == _FLOAT), 0
    for text in texts:
        if isinstance(text, yaml.ScalarNode):
            commas += text.value.count(",")
            escapes += _escapes(text, is_key=text is not node)
    for one in below:
        inner = _measure(one, extents, errors)
        values, levels = values + inner.values, max(levels, inner.levels)
        containers += inner.containers
        commas, escapes = commas + inner.commas, escapes + inner.escapes
        fractions += inner.fractions
    if levels == LEVELS.most:
        errors.append((node, f"this is {LEVELS.message}"))
    is_container = isinstance(node, yaml.CollectionNode)
    extents[id(node)] = _Extent(
        values, levels + is_container, containers + is_container, commas, fractions, escapes
    )
    return extents[id(node)]


_ESCAPED = re.compile('["\\\\\x00-\x1f]')


def _escapes(node: yaml.ScalarNode, *, is_key: bool) -> int:
    """The quotes and backslashes of a text in JSON."""
    if not is_key and node.tag != "tag:yaml.org,2002:str":
        return 0
    found = _ESCAPED.findall(node.value)
    return 2 + len(found) + found.count('"') + found.count("\\")


def _find_duplicates(node: yaml.MappingNode, errors: list[tuple[yaml.Node, str]]) -> None:
    first: dict[str, yaml.Node] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value != "<<":
            before = first.setdefault(key.value, key)
            if before is not key:
                line = before.start_mark.line + 1
                errors.append(
                    (key, f"the key {key.value!r} appears twice, the first time in line {line}")
                )


def _key(key: typing.Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _number(loader: Loader, node: yaml.ScalarNode) -> float:
    value = float(loader.construct_yaml_float(node))
    if not math.isfinite(value):
        raise ValueError(value)  # JSON has no such number
    return int(value) if value.is_integer() else value


# The base class shares its resolvers among all loaders; these belong only to this one.
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
    """Every non-empty document.

    Raises:
        yaml.YAMLError: the text is not valid YAML; the message names the line.
    """
    loaded = yaml.load_all(text, Loader=Loader)
    return [document for document in loaded if document is not None]
