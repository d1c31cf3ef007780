"""Which fields of a manifest the API server counts as ours, by the field set (`fieldsV1`) that it keeps for each applier.

This is how drift is seen without comparing values. Whoever changes a field that we applied takes it over: the API server takes
it out of our set. So a child is as we left it when the digest of its last applied manifest is that of the present one, and
every field of the manifest is still in our set. Comparing values instead would have to know every normalisation that the API
server does ("1000m" is "1"), and every list's merge key; here both are in the set itself.

The format: keys are "f:<field>", "k:<JSON of a list item's key fields>", "v:<JSON of a set's member>", "i:<index>", and "." for
the thing itself. An empty node owns what is below it as a whole.
"""

import collections.abc
import typing

import msgspec

_UNOWNED_METADATA = frozenset({"name", "namespace", "uid", "resourceVersion"})

Node = collections.abc.Mapping[str, typing.Any]


def lost(manifest: collections.abc.Mapping[str, typing.Any], fields: Node) -> list[str]:
    """The fields of a manifest that are not ours (any more), as a person would write them: "spec.replicas".

    Args:
        manifest: as it was applied.
        fields: our field set on the live object.
    """
    found: list[str] = []
    for key, value in manifest.items():
        if key in ("apiVersion", "kind"):
            continue
        if key == "metadata":
            node = fields.get("f:metadata") or {}
            for name, entry in value.items():
                if name not in _UNOWNED_METADATA:
                    _field(entry, node, name=name, path=f"metadata.{name}", found=found)
            continue
        _field(value, fields, name=key, path=key, found=found)
    return found


def owns(fields: Node, *path: str) -> bool:
    """Whether a field is in the set: `owns(fields, "spec", "replicas")`."""
    node: Node = fields
    for name in path:
        if f"f:{name}" not in node:
            return False
        node = node[f"f:{name}"]
    return True


def _field(value: object, node: Node, *, name: str, path: str, found: list[str]) -> None:
    if value is None:
        return  # a null is no value: the API server keeps nothing of it
    below = node.get(f"f:{name}")
    if below is None:
        found.append(path)
        return
    _within(value, below, path=path, found=found)


def _within(value: object, node: Node, *, path: str, found: list[str]) -> None:
    if not node:
        return  # a leaf, or owned as a whole
    if isinstance(value, collections.abc.Mapping):
        for name, entry in value.items():
            _field(entry, node, name=name, path=f"{path}.{name}", found=found)
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
                found.append(f"{path}[{_name(item, index)}]")
            else:
                _within(item, below, path=f"{path}[{_name(item, index)}]", found=found)


def _item(
    item: object,
    keyed: list[tuple[dict[str, typing.Any], Node]],
    members: set[str],
    indexed: Node | None,
) -> Node | None:
    """The node of a list's item; None when it is not ours."""
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
