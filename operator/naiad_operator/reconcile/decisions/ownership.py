"""Determines which fields of a manifest the operator owns, from the field set (`fieldsV1`) of its field manager.

This is how drift is detected without comparing values. When another client changes a field that the operator applied, the API
server removes the field from the operator's set. So a child is unchanged when the digest of the last applied manifest equals that
of the current one, and every field of the manifest is in the set. A comparison of values would have to know every normalisation
of the API server ("1000m" is "1") and the merge key of every list; the field set contains both.

The format: keys are "f:<field>", "k:<JSON of a list item's key fields>", "v:<JSON of a set's member>", "i:<index>", and "." for
the element itself. An empty node owns everything below it.
"""

import collections.abc
import typing

import msgspec

_UNOWNED_METADATA = frozenset({"name", "namespace", "uid", "resourceVersion"})

Node = collections.abc.Mapping[str, typing.Any]


def unowned_fields(manifest: collections.abc.Mapping[str, typing.Any], fields: Node) -> list[str]:
    """The fields of a manifest that the operator does not own (any more), as paths such as "spec.replicas".

    Args:
        manifest: the manifest as it was applied.
        fields: the operator's field set on the live object.
    """
    paths: list[str] = []
    for key, value in manifest.items():
        if key in ("apiVersion", "kind"):
            continue
        if key == "metadata":
            node = fields.get("f:metadata") or {}
            for name, entry in value.items():
                if name not in _UNOWNED_METADATA:
                    _field(entry, node, name=name, path=f"metadata.{name}", paths=paths)
            continue
        _field(value, fields, name=key, path=key, paths=paths)
    return paths


def owns(fields: Node, *path: str) -> bool:
    """Whether a field is in the set, e.g. `owns(fields, "spec", "replicas")`."""
    node: Node = fields
    for name in path:
        if f"f:{name}" not in node:
            return False
        node = node[f"f:{name}"]
    return True


def _field(value: object, node: Node, *, name: str, path: str, paths: list[str]) -> None:
    if value is None:
        return  # the API server drops nulls
    below = node.get(f"f:{name}")
    if below is None:
        paths.append(path)
        return
    _within(value, below, path=path, paths=paths)


def _within(value: object, node: Node, *, path: str, paths: list[str]) -> None:
    if not node:
        return  # a leaf, or owned as a whole
    if isinstance(value, collections.abc.Mapping):
        for name, entry in value.items():
            _field(entry, node, name=name, path=f"{path}.{name}", paths=paths)
    elif isinstance(value, collections.abc.Sequence) and not isinstance(value, str):
        keyed = [
            (msgspec.json.decode(key[2:]), below)
            for key, below in node.items()
            if key.startswith("k:")
        ]
        members = {key[2:] for key in node if key.startswith("v:")}
        for index, item in enumerate(value):
            below = _item(item, keyed, members, node.get(f"i:{index}"))
            if below is None:
                paths.append(f"{path}[{_name(item, index)}]")
            else:
                _within(item, below, path=f"{path}[{_name(item, index)}]", paths=paths)


def _item(
    item: object,
    keyed: list[tuple[dict[str, typing.Any], Node]],
    members: set[str],
    indexed: Node | None,
) -> Node | None:
    """The node of a list item; None when the operator does not own the item."""
    if isinstance(item, collections.abc.Mapping):
        for keys, below in keyed:
            # A key field that the manifest leaves out has the schema's default there (a port's protocol).
            if all(item.get(name, wanted) == wanted for name, wanted in keys.items()):
                return below
        return indexed
    if msgspec.json.encode(item).decode() in members:
        return {}
    return indexed


def _name(item: object, index: int) -> str:
    if isinstance(item, collections.abc.Mapping):
        for key in ("name", "type", "uid"):
            if key in item:
                return str(item[key])
        return str(index)
    return str(item)
