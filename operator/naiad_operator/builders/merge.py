"""A strategic merge patch over a pod template: what `podTemplate` means.

Mappings merge, null takes a field away, lists whose entries have a name merge by it (an entry with `$patch: delete` goes), every
other list is replaced. A patch of another shape than a pod template is refused here, where the field can be named: the API
server would only say that it cannot read the whole.
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
"""The lists that merge, and by which field of their entries; as the API's own types say."""


_ONE_OF = frozenset(("volumes", "env"))
"""Lists whose entries have one source: another one takes the place of the first, since both together mean nothing."""

_DIRECTIVE = "$patch"


class Misfit(ValueError):  # noqa: N818 - reads as what happened
    """A patch that does not fit what it is for.

    Attributes:
        path: the field, below the patch.
        message: what is wrong and what to write instead.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


def strategic(base: Object, patch: Object, path: str = "") -> Object:
    """The base with the patch over it, as a copy.

    Raises:
        Misfit: the patch is of another shape than what it patches.
    """
    merged = dict(base)
    for field, value in patch.items():
        where = f"{path}.{field}" if path else field
        if field.startswith("$"):
            raise Misfit(
                where,
                f"write null to take a field away, or {_DIRECTIVE}: delete in an entry of a list that merges; there are no other directives",
            )
        if value is None:
            merged.pop(field, None)
        elif isinstance(value, dict):
            below = merged.get(field, {})
            if isinstance(below, list):
                raise Misfit(where, "is a mapping: write a list")
            merged[field] = strategic(below if isinstance(below, dict) else {}, value, where)
        elif isinstance(merged.get(field), dict):
            raise Misfit(where, f"is {value!r}: write a mapping")
        elif field in _MERGE_KEYS and isinstance(merged.get(field, []), list):
            _merge_list(merged, field, value, where)
        elif isinstance(merged.get(field), list) and not isinstance(value, list):
            raise Misfit(where, f"is {value!r}: write a list")
        else:
            merged[field] = value
    return merged


def _merge_list(into: Object, field: str, patch: typing.Any, path: str) -> None:
    """Merges a list of a mapping; one that is empty then goes, as the API server keeps none."""
    if not isinstance(patch, list):
        raise Misfit(path, f"is {patch!r}: write a list")
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
            raise Misfit(where, f"is {entry!r}: write a mapping")
        name = entry.get(key)
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise Misfit(f"{where}.{key}", "is missing: entries of this list are told apart by it")
        place = next((i for i, known in enumerate(merged) if known.get(key) == name), None)
        if entry.get(_DIRECTIVE) == "delete":
            if place is not None:
                del merged[place]
        elif place is not None:
            known = merged[place]
            if path.rpartition(".")[2] in _ONE_OF and entry.keys() - known.keys():
                known = {key: name}
            merged[place] = strategic(known, entry, where)
        else:
            merged.append(strategic({}, entry, where))
    return merged
