"""The volumes of a Triton pod: shared memory, folders that the operator has itself, and others, which become podTemplate."""

import re

from naiad_operator.api.manifests.unvalidated import Fields, entries, part
from naiad_operator.builders import server
from naiad_operator.convert.draft import Draft

_OWN_VOLUMES = re.compile(r"tmp|shm|cache|auth|fetched|model-image|credentials.*|repository-.*")
_OWN_MOUNTS = ("/tmp", server.CACHE_FOLDER)  # noqa: S108 - the pod's own, an emptyDir
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - as above


def own_name(name: str) -> str:
    """The name of a volume beside those of the operator."""
    return f"{name}-own" if _OWN_VOLUMES.fullmatch(name) else name


def convert(draft: Draft) -> None:
    """Shared memory becomes a field, the other volumes that the container mounts are patched into the pod."""
    volumes = {str(one.get("name")): one for one in entries(draft.pod, "volumes")}
    patched: dict[str, Fields] = {}
    for mount in entries(draft.container, "volumeMounts"):
        name, path = str(mount.get("name")), str(mount.get("mountPath")).rstrip("/")
        volume = volumes.get(name, {})
        empty = volume.get("emptyDir")
        if path == _SHARED_MEMORY and isinstance(empty, dict):
            _shared_memory(draft, empty, name)
            continue
        if isinstance(empty, dict) and path in _OWN_MOUNTS:
            _own_mount(draft, empty, name, path)
            continue
        if "hostPath" in volume:
            draft.of_pod(
                "volumes",
                f"{name} is a folder of a node ({part(volume, 'hostPath').get('path')}): it became predictor.podTemplate, which Pod Security restricted refuses; better a claim",
            )
        own = own_name(name)
        draft.mounts.append({**mount, "name": own})
        patched[own] = {**(volume or {"emptyDir": {}}), "name": own}
    ours = part(draft.predictor.get("model"), "volume")
    for name in sorted(draft.kept & volumes.keys()):
        own = own_name(name)
        if own != ours.get("name", "models" if ours else ""):
            patched.setdefault(own, {**volumes[name], "name": own})
    others = [name for name in volumes if name not in draft.mounted | draft.kept]
    if others:
        message = f"left out: {', '.join(others)}: the server does not mount them: write those of other containers in predictor.podTemplate.spec.volumes"
        draft.of_pod("volumes", message)
    draft.container.pop("volumeMounts", None)
    draft.pod.pop("volumes", None)
    if patched:
        draft.template["volumes"] = [*draft.template.get("volumes", ()), *patched.values()]


def _shared_memory(draft: Draft, empty: Fields, name: str) -> None:
    if "sizeLimit" in empty:
        draft.predictor["sharedMemory"] = str(empty["sizeLimit"])
        return
    message = f"{name} has no sizeLimit, and /dev/shm of a service has 1Gi: write what the models need in predictor.sharedMemory"
    draft.of_pod("volumes", message)


def _own_mount(draft: Draft, empty: Fields, name: str, path: str) -> None:
    """A folder for which the operator has a volume of its own, a plain emptyDir."""
    limits = {key: value for key, value in empty.items() if value not in ("", None)}
    if limits:
        named = ", ".join(f"{key}: {value}" for key, value in limits.items())
        message = f"left out: {named} of {name}: {path} is an emptyDir without a limit, on the node's disk"
        draft.of_pod("volumes", message)
