"""A strategic merge patch over a pod template: what `podTemplate` means.

Mappings merge, null takes a field away, lists whose entries have a name merge by it, every other list is replaced.
"""

import typing

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


def strategic(base: dict[str, typing.Any], patch: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """The base with the patch over it, as a copy."""
    merged = dict(base)
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        elif isinstance(value, dict):
            below = merged.get(field)
            merged[field] = strategic(below if isinstance(below, dict) else {}, value)
        elif field in _MERGE_KEYS and isinstance(value, list):
            merged[field] = _merge_list(merged.get(field) or [], value, _MERGE_KEYS[field])
        else:
            merged[field] = value
    return merged


def _merge_list(base: list[typing.Any], patch: list[typing.Any], key: str) -> list[typing.Any]:
    merged = list(base)
    places = {entry.get(key): place for place, entry in enumerate(merged)}
    for entry in patch:
        name = entry.get(key) if isinstance(entry, dict) else None
        if name is not None and name in places:
            merged[places[name]] = strategic(merged[places[name]], entry)
        else:
            merged.append(entry)
    return merged
