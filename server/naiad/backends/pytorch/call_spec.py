"""The names of a .pt2 model's inputs and results, from how they are nested (row 16.16). Pure: nothing of torch is imported.

A program of torch.export is called with a flat list of tensors and gives one. Its two specs, in torch's JSON form, say how the list is nested in what
`forward` takes and returns. A tensor is named by its place in the list (`INPUT__0`, `OUTPUT__0`), or by its way through the nesting (`ARGS[0]`,
`KWARGS[mask]`, `RESULT[scores][1]`), as in Triton's pytorch backend.
"""

import collections.abc
import json
from typing import Any

from naiad.errors import internal, invalid

INPUT, OUTPUT = "INPUT", "OUTPUT"

_SEQUENCES = frozenset(("builtins.tuple", "builtins.list"))
_DICTS = frozenset(("builtins.dict", "collections.OrderedDict"))


def input_names(spec: str, model: str) -> list[str]:
    """The way to each input: the spec is of a pair, the positional arguments as a tuple and the keyword arguments as a dict.

    Raises:
        InferenceError: INTERNAL: the spec has something else than tuples, lists, dicts and tensors.
    """
    arguments, keywords = _children(_root(spec, model))
    return [*_ways(arguments, "ARGS", model), *_ways(keywords, "KWARGS", model)]


def output_names(spec: str, model: str) -> list[str]:
    """The way to each result.

    Raises:
        InferenceError: INTERNAL: as `input_names`.
    """
    return _ways(_root(spec, model), "RESULT", model)


def positions(
    names: collections.abc.Sequence[str], ways: list[str], *, kind: str, model: str
) -> dict[str, int]:
    """The place of each of the config's tensors, of a kind `INPUT` or `OUTPUT`, in the flat list.

    Raises:
        InferenceError: INVALID_ARG: the model has no such tensor, or two names are the same one; lists those that it has.
    """
    known = {way: index for index, way in enumerate(ways)}
    known |= {f"{kind}__{index}": index for index in range(len(ways))}
    found: dict[str, int] = {}
    for name in names:
        index = known.get(name)
        if index is None:
            raise invalid(
                f"unable to load model '{model}': it has no {kind.lower()} '{name}'; it has "
                + ", ".join(f"{kind}__{index} or {way}" for index, way in enumerate(ways))
            )
        if index in found.values():
            raise invalid(
                f"unable to load model '{model}': {kind.lower()} '{name}' is in the config twice, as {kind}__{index} and as {ways[index]}"
            )
        found[name] = index
    return found


def _root(spec: str, model: str) -> dict[str, Any]:
    try:
        root = json.loads(spec)[1]
        if isinstance(root, dict):
            return root
    except (ValueError, LookupError, TypeError):
        pass
    raise internal(
        f"unable to load model '{model}': its call specification cannot be read: {spec[:200]}"
    )


def _children(node: dict[str, Any]) -> list[dict[str, Any]]:
    children: list[dict[str, Any]] = node.get("children_spec") or []
    return children


def _ways(node: dict[str, Any], way: str, model: str) -> list[str]:
    kind = node.get("type")
    if kind is None:
        return [way]
    children = _children(node)
    if kind in _SEQUENCES:
        keys: list[Any] = list(range(len(children)))
    elif kind in _DICTS:
        context = node.get("context")
        keys = json.loads(context) if isinstance(context, str) else list(context or ())
    else:
        raise internal(
            f"unable to load model '{model}': {way} is of type {kind}: only dicts, tuples, lists and tensors can be named"
        )
    return [
        found
        for key, child in zip(keys, children, strict=True)
        for found in _ways(child, f"{way}[{key}]", model)
    ]
