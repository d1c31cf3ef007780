"""The model repositories of a Triton container: addresses of stores with their credentials, and folders that are mounts of claims."""

import collections.abc
import pathlib
import re
import typing

from naiad_operator.api import store_address
from naiad_operator.api.manifests.unvalidated import Fields, entries, part, texts
from naiad_operator.builders import server
from naiad_operator.convert.draft import VARIABLE, Draft
from naiad_operator.convert.pod import models_in_pods

_KEYS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    "as": ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY"),
}
_REGIONS = ("AWS_DEFAULT_REGION", "AWS_REGION")
_GOOGLE = "GOOGLE_APPLICATION_CREDENTIALS"
_SEVERAL_SOURCES = 2
_SEVERAL = "TRITON_CLOUD_CREDENTIAL_PATH"
_DEFAULT_GOOGLE_KEY = "key.json"
_BUCKET_DRIVER = "gcsfuse.csi.storage.gke.io"
_ONLY_FOLDER = re.compile(r"\bonly-dir[=:]([^,\s]+)")
_SHELL_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\}|\((\w+)\))")
_COPIED = frozenset(("downwardAPI", "gitRepo", "projected", "secret"))
"""Volumes that no PersistentVolume can be."""


def convert(addresses: collections.abc.Sequence[str], draft: Draft) -> None:
    """Writes the model's repositories into the draft, and takes what they need out of the pod."""
    used: list[Fields] = []
    sources = [source for one in addresses if (source := _source(draft.filled(one), draft, used))]
    draft.container["volumeMounts"] = [
        one for one in entries(draft.container, "volumeMounts") if one not in used
    ]
    if not addresses:
        claims = [
            str(claim)
            for one in entries(draft.pod, "volumes")
            if (claim := part(one, "persistentVolumeClaim").get("claimName"))
            and str(one.get("name")) in draft.mounted
        ]
        hint = f", e.g. pvc://{claims[0]}, where the server mounts this claim" if claims else ""
        draft.of_container("args", f"has no --model-repository: write model.storageUri{hint}")
    sources = _alone(sources, draft)
    credentials: dict[str, Fields] = {}
    for source in sources:
        scheme = source.get("storageUri", "").partition("://")[0]
        if scheme not in credentials:
            credentials[scheme] = _credentials(scheme, draft)
        storage = {**credentials[scheme], **source.get("storage", {})}
        if storage:
            source["storage"] = storage
    model = draft.predictor.setdefault("model", {})
    if len(sources) == 1:
        model.update(sources[0])
    elif sources:
        model["repositories"] = sources


def _alone(sources: list[Fields], draft: Draft) -> list[Fields]:
    """The repositories without those that only a service of their own can have, if there are others."""
    if len(sources) < _SEVERAL_SOURCES:
        return sources
    kept = [one for one in sources if "storageUri" in one]
    if len(kept) < len(sources):
        message = "a model repository in an image, in an emptyDir or on the node is the only one of a service: copy its models to the others, or make a service of their own"
        draft.of_container("args", f"not converted: {message}", blocks=True)
    return kept or sources[:1]


def _source(address: str, draft: Draft, used: list[Fields]) -> Fields | None:
    """A repository of the service; None when it has no counterpart, which is reported.

    Args:
        address: the repository.
        draft: the service.
        used: the mounts that the operator's replace; those of this repository are added.
    """
    if VARIABLE.search(address):
        draft.of_container(
            "args",
            f"--model-repository={address}: the variable is not set here: write its value in model.storageUri",
        )
        return None
    if "://" in address and not address.startswith("file://"):
        store = store_address.converted(address)
        problem = store_address.problem(store.uri if store is not None else address)
        if store is not None and not problem:
            dropped = store_address.dropped(address)
            if dropped:
                draft.of_container("args", f"--model-repository: {dropped}")
            return store.fields
        draft.of_container("args", f"--model-repository: {problem}")
        return None
    return _folder(pathlib.PurePosixPath(address.removeprefix("file://")), draft, used)


def _folder(folder: pathlib.PurePosixPath, draft: Draft, used: list[Fields]) -> Fields | None:
    mounts = [
        one
        for one in entries(draft.container, "volumeMounts")
        if folder.is_relative_to(str(one.get("mountPath")) or "/")
    ]
    mount = max(mounts, key=lambda one: len(str(one.get("mountPath"))), default=None)
    if mount is None:
        return models_in_pods.in_image(folder, draft)
    below = folder.relative_to(str(mount["mountPath"]))
    volume = next(
        (one for one in entries(draft.pod, "volumes") if one.get("name") == mount.get("name")), {}
    )
    claim = part(volume, "persistentVolumeClaim").get("claimName")
    if isinstance(claim, str) and not mount.get("subPathExpr"):
        # A mount of more than the repository stays, for what else is read from it.
        if str(below) == ".":
            used.append(mount)
            note = f"the repository {folder} becomes a read-only mount below {server.REPOSITORIES_FOLDER}: change absolute paths in config.pbtxt, model.py and env that name {folder}"
            draft.of_container("volumeMounts", note)
        path = pathlib.PurePosixPath(str(mount.get("subPath") or "")) / below
        inside = "" if str(path) == "." else f"/{path}"
        return {"storageUri": f"pvc://{claim}{inside}"}
    used.append(mount)
    bucket = _mounted_bucket(volume, pathlib.PurePosixPath(str(mount.get("subPath") or "")) / below)
    if bucket:
        message = f"the repository {folder} (volume {mount.get('name')}) is a bucket: that became model.storageUri, which the server reads itself; the annotation gke-gcsfuse/volumes is of no more use"
        draft.of_pod("volumes", message)
        return {"storageUri": bucket}
    return _of_other_volume(volume, folder, mount, below, draft)


def _mounted_bucket(volume: Fields, folder: pathlib.PurePosixPath) -> str:
    """The address of a folder in a bucket that GKE's driver mounts; "" for any other volume."""
    csi = part(volume, "csi")
    attributes = part(csi, "volumeAttributes")
    bucket = str(attributes.get("bucketName") or "_")
    if csi.get("driver") != _BUCKET_DRIVER or bucket == "_":  # all buckets of the project
        return ""
    below = _ONLY_FOLDER.search(str(attributes.get("mountOptions")))
    path = pathlib.PurePosixPath((below[1] if below else "").strip("/")) / folder
    return f"gs://{bucket}" + ("" if str(path) == "." else f"/{path}")


_ADVICE = {
    "csi": "is mounted by the pod: make a PersistentVolume with this csi and a claim for it, and write pvc://CLAIM/path, or the bucket itself",
    "configMap": "is a ConfigMap: copy the models into a claim or a bucket, and write model.storageUri",
    "ephemeral": "is a claim per pod: make one claim, ReadWriteMany for pods on several nodes, and write pvc://CLAIM/path",
}


def _of_other_volume(
    volume: Fields,
    folder: pathlib.PurePosixPath,
    mount: Fields,
    below: pathlib.PurePosixPath,
    draft: Draft,
) -> Fields | None:
    kind = next((key for key in volume if key != "name"), "")
    where = f"the repository {folder} (volume {mount.get('name')})"
    inside = pathlib.PurePosixPath(str(mount.get("subPath") or "").strip("/")) / below
    if kind in {"hostPath", "image"}:
        of_volume = models_in_pods.on_node if kind == "hostPath" else models_in_pods.in_other_image
        return of_volume(part(volume, kind), mount, inside, where, draft)
    if kind not in {"emptyDir", "ephemeral"}:
        draft.of_pod("volumes", f"{where} {_advice(kind)}")
        return None
    for index, container in enumerate(entries(draft.pod, "initContainers")):
        mounted = {str(one.get("name")) for one in entries(container, "volumeMounts")}
        if str(mount.get("name")) not in mounted:
            continue
        found = _addresses(container)
        if len(found) == 1:
            draft.of_pod(
                f"initContainers[{index}]",
                f"copied {found[0].uri} into {where}: that became model.storageUri, which the server reads itself; see that it is the folder that contains "
                "one folder per model. delivery: init fetches it once per pod",
            )
            part(container).clear()
            return found[0].fields
    found_in = models_in_pods.filled(volume, mount, inside, where, draft)
    if found_in is not None:
        return found_in
    advice = _ADVICE.get(
        kind,
        "is an emptyDir that something in the pod fills: write the store that it comes from in model.storageUri",
    )
    draft.of_pod("volumes", f"{where} {advice}")
    return None


def _advice(kind: str) -> str:
    """What to do with a repository in a volume that a service cannot have."""
    if kind in _COPIED:
        return f"is of the type {kind}: copy the models into a claim or a bucket, and write model.storageUri"
    if not kind:
        return "is not among the volumes of the pod: write model.storageUri"
    return _ADVICE.get(
        kind,
        f"is mounted by the pod: make a PersistentVolume with this {kind} and a claim for it, and write pvc://CLAIM/path",
    )


def _addresses(container: Fields) -> list[store_address.Store]:
    """The different addresses of stores in the words of a container."""
    text = " ".join([*texts(container, "command"), *texts(container, "args")])
    values = {str(one.get("name")): one.get("value") for one in entries(container, "env")}

    def value(match: re.Match[str]) -> str:
        name = next(filter(None, match.groups()))
        return str(values[name]) if values.get(name) is not None else match[0]

    text = _SHELL_VARIABLE.sub(value, text)
    found = re.findall(r"\b(?:s3|gs|as|az|gcs)://[^\s'\";|&)]+", text)
    stores = [store_address.converted(one.rstrip("/*").removesuffix("/.")) for one in found]
    usable = [
        one
        for one in stores
        if one is not None and "$" not in one.uri and not store_address.problem(one.uri)
    ]
    return list(dict.fromkeys(usable))


def _credentials(scheme: str, draft: Draft) -> Fields:
    """The storage of a kind of store, from variables that are a Secret's; others stay variables."""
    storage: Fields = {}
    if scheme in {"", "pvc"}:
        return storage
    variables = {str(one.get("name")): one for one in entries(draft.container, "env")}
    secrets = {
        name: part(one, "valueFrom", "secretKeyRef")
        for name, one in variables.items()
        if name in _KEYS.get(scheme, ())
    }
    named = {str(one.get("name")) for one in secrets.values()}
    needed = _KEYS.get(scheme, ())[:2]
    if (
        set(needed) <= secrets.keys()
        and len(named) == 1
        and all(one.get("key") == name for name, one in secrets.items())
    ):
        storage["secretName"] = named.pop()
        _drop(draft, secrets)
    if scheme == "s3":
        region = next((name for name in _REGIONS if "value" in variables.get(name, {})), "")
        if region:
            storage["region"] = variables[region]["value"]
            for other in _REGIONS:
                if (
                    other != region
                    and other in variables
                    and variables[other].get("value") != storage["region"]
                ):
                    message = f"left out: {other}: model.storage.region has the value of {region}"
                    draft.of_container("env", message)
            _drop(draft, _REGIONS)
    for variable, field in ((_SEVERAL, "credentialFileKey"), (_GOOGLE, "serviceAccountKeyField")):
        path = variables.get(variable, {}).get("value")
        if isinstance(path, str) and (variable == _SEVERAL or scheme == "gs"):
            storage |= _of_file(variable, path, field, draft)
    return storage


def _of_file(variable: str, path: str, field: str, draft: Draft) -> Fields:
    """The Secret of a file with credentials, when it is mounted from one."""
    for mount in entries(draft.container, "volumeMounts"):
        folder = pathlib.PurePosixPath(str(mount.get("mountPath")))
        file = pathlib.PurePosixPath(path)
        volume = next(
            (one for one in entries(draft.pod, "volumes") if one.get("name") == mount.get("name")),
            {},
        )
        secret = part(volume, "secret")
        name = secret.get("secretName")
        key = str(file.relative_to(folder)) if file.is_relative_to(folder) else ""
        if mount.get("subPath") and file == folder:
            key = str(mount["subPath"])
        for item in entries(secret, "items"):
            key = str(item.get("key")) if item.get("path") == key else key
        if isinstance(name, str) and key not in {"", "."} and "/" not in key:
            draft.container["volumeMounts"].remove(mount)
            _drop(draft, (variable,))
            is_default = field == "serviceAccountKeyField" and key == _DEFAULT_GOOGLE_KEY
            return {"secretName": name} | ({} if is_default else {field: key})
    return {}


def _drop(draft: Draft, names: typing.Iterable[str]) -> None:
    """Takes variables out of the container."""
    dropped = set(names)
    variables = entries(draft.container, "env")
    draft.container["env"] = [one for one in variables if str(one.get("name")) not in dropped]
