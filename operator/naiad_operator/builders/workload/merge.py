"""Applies a strategic merge patch to a pod template, for the field `podTemplate`.

Mappings merge; null removes a field; lists whose entries have a key merge by it (an entry with `$patch: delete` is removed); every
other list is replaced. A patch that does not fit a pod template is rejected here, where the field can be named: the API server
would only report that it cannot decode the object.
"""

import typing

Object = dict[str, typing.Any]

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "claims": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
}
"""The lists that merge, and the key field of their entries, as in the Kubernetes API types."""


_MAPPINGS = frozenset(
    (
        "affinity", "annotations", "labels", "limits", "metadata", "nodeSelector", "requests", "resources", "securityContext", "spec",
    )
)  # fmt: skip
"""Fields that are mappings wherever they stand in a pod template: also where the template that is patched has none."""

_SINGLE_SOURCE_LISTS = frozenset(("volumes", "env"))
"""Lists whose entries have one source: a patched source replaces the first one, because both together are invalid."""

_DIRECTIVE = "$patch"


class PatchError(ValueError):
    """A patch that does not fit the object that it patches.

    Attributes:
        path: the field, relative to the patch.
        message: what is wrong and what to write instead.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


def strategic(base: Object, patch: Object, path: str = "") -> Object:
    """A copy of the base with the patch applied.

    Raises:
        PatchError: the patch has a value of another type than the field that it patches.
    """
    merged = dict(base)
    for field, value in patch.items():
        where = f"{path}.{field}" if path else field
        if field.startswith("$"):
            raise PatchError(
                where,
                f"write null to take a field away, or {_DIRECTIVE}: delete in an entry of a list that merges; there are no other directives",
            )
        if value is None:
            merged.pop(field, None)
        elif isinstance(value, dict):
            below = merged.get(field, {})
            if isinstance(below, list) or field in _MERGE_KEYS:
                raise PatchError(where, "is a mapping: write a list")
            merged[field] = strategic(below if isinstance(below, dict) else {}, value, where)
        elif field in _MAPPINGS or isinstance(merged.get(field), dict):
            raise PatchError(where, f"is {value!r}: write a mapping")
        elif field in _MERGE_KEYS and isinstance(merged.get(field, []), list):
            _merge_list(merged, field, value, where)
        elif isinstance(merged.get(field), list) and not isinstance(value, list):
            raise PatchError(where, f"is {value!r}: write a list")
        else:
            merged[field] = value
    return merged


def _merge_list(into: Object, field: str, patch: typing.Any, path: str) -> None:
    """Merges a list of a mapping; a list that is then empty is removed, as the API server does."""
    if not isinstance(patch, list):
        raise PatchError(path, f"is {patch!r}: write a list")
    entries = _merged(into.get(field, []), patch, key=_MERGE_KEYS[field], path=path)
    into[field] = entries
    if not entries:
        del into[field]


def _merged(
    base: list[typing.Any], patch: list[typing.Any], *, key: str, path: str
) -> list[typing.Any]:
    merged = list(base)
    for index, entry in enumerate(patch):
        where = f"{path}[{index}]"
        if not isinstance(entry, dict):
            raise PatchError(where, f"is {entry!r}: write a mapping")
        name = entry.get(key)
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise PatchError(
                f"{where}.{key}", "is missing: entries of this list are identified by it"
            )
        position = next((i for i, known in enumerate(merged) if known.get(key) == name), None)
        if entry.get(_DIRECTIVE) == "delete":
            if position is not None:
                del merged[position]
        elif position is not None:
            known = merged[position]
            if path.rpartition(".")[2] in _SINGLE_SOURCE_LISTS and entry.keys() - known.keys():
                known = {key: name}
            merged[position] = strategic(known, entry, where)
        else:
            merged.append(strategic({}, entry, where))
    return merged
