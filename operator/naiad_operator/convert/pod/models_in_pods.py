"""Model repositories that lie in the pod: in the container's own image, in another one, in a volume that other containers fill, on the node."""

import pathlib
import re
import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries, part
from naiad_operator.builders import server
from naiad_operator.convert.draft import Draft
from naiad_operator.convert.pod import volumes

_NVIDIA = re.compile(r"(^|/)nvidia/tritonserver([:@]|$)")
"""Triton's own image, which has no models."""
_CONTAINER = re.compile(r"\.containers\[([0-9]+)\]$")
_DEFAULT_MOUNT = "/mnt/models"
_HARDENED: Fields = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""What the level "restricted" of Pod Security wants of a container."""


def in_image(folder: pathlib.PurePosixPath, draft: Draft) -> Fields | None:
    """A folder where no volume is mounted: the image of the container is mounted, and nothing of it runs."""
    image = draft.container.get("image")
    if not isinstance(image, str) or not image or _NVIDIA.search(image):
        where = f"--model-repository={folder}: no volume is mounted there"
        why = f", and {image} has no models" if image else ""
        message = f"{where}{why}: write model.storageUri, or the image that has the models in model.image.reference"
        draft.of_container("args", message)
        return None
    policy = draft.container.get("imagePullPolicy")
    message = (
        f"{image} has the models, in {folder}: it became model.image, which mounts it, read-only, and runs nothing of it (Kubernetes 1.35 and newer); for "
        "one image with both, build one on the server's with these models, write it in predictor.image and leave reference out"
    )
    draft.of_container("image", message)
    found = {"path": str(folder), "reference": image}
    return {"image": found | ({"pullPolicy": policy} if policy else {})}


def in_other_image(
    source: Fields, _: Fields, inside: pathlib.PurePosixPath, where: str, draft: Draft
) -> Fields | None:
    """A volume that is an image."""
    reference = source.get("reference")
    if not isinstance(reference, str) or not reference:
        draft.of_pod("volumes", f"{where} names no image: write it in model.image.reference")
        return None
    policy = source.get("pullPolicy")
    path = "/" if str(inside) == "." else f"/{inside}"
    found = {"path": path, "reference": reference}
    return {"image": found | ({"pullPolicy": policy} if policy else {})}


def on_node(source: Fields, mount: Fields, inside: pathlib.PurePosixPath, where: str, draft: Draft) -> Fields:  # fmt: skip
    """A folder of the node, which only some platforms allow."""
    path = str(source.get("path"))
    message = (
        f"{where} is a folder of the node, {path}, which only a platform that allows podTemplate: Allow gives to services: --pod-template=Allow says that "
        "yours does. Else make a local PersistentVolume of it and a claim, and write pvc://CLAIM/path"
    )
    draft.of_pod("volumes", message, blocks=draft.pod_template != "Allow")
    return {"volume": {**_mounted(mount, inside), "hostPath": path}}


def filled(
    volume: Fields, mount: Fields, inside: pathlib.PurePosixPath, where: str, draft: Draft
) -> Fields | None:
    """An emptyDir that other containers of the pod fill, which go into podTemplate with what they mount; None if there is none."""
    if "emptyDir" not in volume:
        return None
    name = str(volume.get("name"))
    fillers = [
        (kind, index, one)
        for kind in ("initContainers", "containers")
        for index, one in enumerate(entries(draft.pod, kind))
        if any(
            given.get("name") == name and not given.get("readOnly")
            for given in entries(one, "volumeMounts")
        )
    ]
    if not fillers:
        return None
    for kind, index, container in fillers:
        _move(kind, index, container, where, draft)
    empty = part(volume, "emptyDir")
    found = {"name": volumes.own_name(name), **_mounted(mount, inside)}
    if "sizeLimit" in empty:
        found["size"] = str(empty["sizeLimit"])
    if empty.get("medium"):
        patch = {"name": found["name"], "emptyDir": {"medium": empty["medium"]}}
        draft.template.setdefault("volumes", []).append(patch)
    if found["name"] == "models":
        del found["name"]
    return {"volume": found}


def _move(kind: str, index: int, container: Fields, where: str, draft: Draft) -> None:
    """Moves a container and the volumes that it mounts into podTemplate."""
    moved: Fields = {**container}
    moved["securityContext"] = {**_HARDENED, **part(container, "securityContext")}
    mounts = entries(container, "volumeMounts")
    if mounts:
        moved["volumeMounts"] = [
            {**one, "name": volumes.own_name(str(one.get("name")))} for one in mounts
        ]
    draft.template.setdefault(kind, []).append(moved)
    for one in mounts:
        draft.kept.add(str(one.get("name")))
    message = (
        f"{container.get('name')} fills {where}: it became predictor.podTemplate.spec.{kind}, and the folder model.volume; it runs as user {server.USER}, "
        "without privileges, where its securityContext says nothing else. Where podTemplate is Restricted, Secrets that only it names are refused"
    )
    draft.of_pod(f"{kind}[{index + _is_behind_server(kind, index, draft)}]", message)
    container.clear()


def _is_behind_server(kind: str, index: int, draft: Draft) -> bool:
    """Whether a container stood behind the server's, which has been taken out of the list."""
    match = _CONTAINER.search(draft.container_path)
    return kind == "containers" and match is not None and index >= int(match[1])


def _mounted(mount: Fields, inside: pathlib.PurePosixPath) -> Fields:
    """The fields path and mountPath of a volume; the server finds it where it was."""
    path = str(mount.get("mountPath")).rstrip("/")
    made: dict[str, typing.Any] = {} if str(inside) == "." else {"path": str(inside)}
    return made | ({} if path in {"", _DEFAULT_MOUNT} else {"mountPath": path})
