"""Builds the server's model repositories with their volumes, mounts and credentials. Secrets are referenced here, never read."""

import dataclasses
import typing

from naiad_operator.api import quantity
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.model import Model, ModelImage, ModelVolume, Repository, Storage
from naiad_operator.builders import server

Objects = tuple[dict[str, typing.Any], ...]

_NO_STORAGE = Storage()
_GOOGLE_KEY = "key.json"
_IMAGE_VOLUME = "model-image"


@dataclasses.dataclass(frozen=True, slots=True)
class Mounted:
    """What model repositories add to a pod.

    Attributes:
        repositories: the values of the server's --model-repository.
    """

    repositories: tuple[str, ...]
    env: Objects
    volumes: Objects
    mounts: Objects


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """The environment variables, volumes and mounts with which model repositories are read."""

    env: Objects
    volumes: Objects
    mounts: Objects


def sources(model: Model) -> tuple[Repository, ...]:
    """The repositories that have an address, in their order."""
    if model.image is not None or model.volume is not None:
        return ()
    return model.repositories or (
        Repository(storage_uri=model.storage_uri or "", storage=model.storage),
    )


def mounted(model: Model) -> Mounted:
    """Everything that a service's model repositories add to a pod."""
    if model.image is not None:
        return _in_image(model.image)
    if model.volume is not None:
        return _in_volume(model.volume)
    given = sources(model)
    claims = _claims(given)
    access = credentials(given)
    volumes, mounts = list(access.volumes), list(access.mounts)
    for number, claim in enumerate(claims):
        source = {"claimName": claim, "readOnly": True}
        volumes.append({"name": f"repository-{number}", "persistentVolumeClaim": source})
        folder = f"{server.REPOSITORIES_FOLDER}/{number}"
        mounts.append({"name": f"repository-{number}", "mountPath": folder, "readOnly": True})
    return Mounted(
        tuple(_written(source, claims) for source in given),
        access.env,
        tuple(volumes),
        tuple(mounts),
    )


def _in_image(image: ModelImage) -> Mounted:
    """A folder of the server's own image, which no container can write, or of another image, which is a volume then."""
    path = image.path.rstrip("/")
    if image.reference is None:
        return Mounted((path or "/",), (), (), ())
    source: dict[str, typing.Any] = {"reference": image.reference}
    if image.pull_policy is not None:
        source["pullPolicy"] = image.pull_policy
    mount = {"name": _IMAGE_VOLUME, "mountPath": server.IMAGE_FOLDER, "readOnly": True}
    volume = {"name": _IMAGE_VOLUME, "image": source}
    return Mounted((f"{server.IMAGE_FOLDER}{path}",), (), (volume,), (mount,))


def _in_volume(volume: ModelVolume) -> Mounted:
    """A folder of a volume that other containers of the pod fill, before the server starts or beside it."""
    if volume.claim_name is not None:
        source: dict[str, typing.Any] = {"persistentVolumeClaim": {"claimName": volume.claim_name}}
    elif volume.host_path is not None:
        source = {"hostPath": {"path": volume.host_path, "type": "Directory"}}
    else:
        limit = {"sizeLimit": quantity.canonical(volume.size)} if volume.size is not None else {}
        source = {"emptyDir": limit}
    folder = volume.mount_path.rstrip("/")
    mount = {"name": volume.name, "mountPath": folder, "readOnly": True}
    path = f"{folder}/{volume.path.rstrip('/')}" if volume.path is not None else folder
    return Mounted((path,), (), ({"name": volume.name, **source},), (mount,))


def claim_names(service: InferenceService) -> list[str]:
    """The PersistentVolumeClaims that a service's pods mount, those of its podTemplate included."""
    predictor = service.spec.predictor
    claimed = _claims(sources(predictor.model))
    cache = predictor.model.cache
    if cache is not None and cache.claim_name is not None:
        claimed.append(cache.claim_name)
    volume = predictor.model.volume
    if volume is not None and volume.claim_name is not None:
        claimed.append(volume.claim_name)
    spec = (predictor.pod_template or {}).get("spec")
    volumes = spec.get("volumes") if isinstance(spec, dict) else None
    for one in volumes if isinstance(volumes, list) else ():
        source = one.get("persistentVolumeClaim") if isinstance(one, dict) else None
        name = source.get("claimName") if isinstance(source, dict) else None
        if isinstance(name, str):
            claimed.append(name)
    return list(dict.fromkeys(claimed))


def _claims(given: tuple[Repository, ...]) -> list[str]:
    """The names of the PersistentVolumeClaims, each once, in order of first use."""
    return list(dict.fromkeys(_claim(s.storage_uri)[0] for s in given if _scheme(s) == "pvc"))


def _scheme(source: Repository) -> str:
    return source.storage_uri.partition("://")[0]


def path_in_claim(source: Repository) -> str:
    """The path of a repository in its PersistentVolumeClaim; "" for the top."""
    return _claim(source.storage_uri)[1]


def _claim(uri: str) -> tuple[str, str]:
    claim, _, path = uri.removeprefix("pvc://").partition("/")
    return claim, path.strip("/")


def _written(source: Repository, claims: list[str]) -> str:
    if _scheme(source) == "pvc":
        claim, path = _claim(source.storage_uri)
        folder = f"{server.REPOSITORIES_FOLDER}/{claims.index(claim)}"
        return f"{folder}/{path}" if path else folder
    endpoint = (source.storage or _NO_STORAGE).endpoint
    if endpoint is None or _scheme(source) != "s3":
        return source.storage_uri
    return f"s3://{endpoint}/{source.storage_uri.removeprefix('s3://')}"


def credentials(given: tuple[Repository, ...]) -> Access:
    """The environment variables, volumes and mounts; one account per kind of store, which the validation rules guarantee."""
    env: dict[str, dict[str, typing.Any]] = {}
    volumes: dict[str, dict[str, typing.Any]] = {}
    mounts: list[dict[str, typing.Any]] = []
    for source in given:
        scheme, storage = _scheme(source), source.storage or _NO_STORAGE
        if storage.region is not None:
            env["AWS_DEFAULT_REGION"] = {"name": "AWS_DEFAULT_REGION", "value": storage.region}
        if storage.endpoint is not None and scheme == "hf":
            env["HF_ENDPOINT"] = {"name": "HF_ENDPOINT", "value": storage.endpoint}
        if storage.secret_name is None:
            continue
        file = _credential_file(scheme, storage)
        if file is None:
            for key, optional in _SECRET_KEYS[scheme]:
                reference = {"name": storage.secret_name, "key": key, "optional": optional}
                env[key] = {"name": key, "valueFrom": {"secretKeyRef": reference}}
            continue
        folder = f"{server.CREDENTIALS_FOLDER}/{file.name}"
        env[file.variable] = {"name": file.variable, "value": f"{folder}/{file.path}"}
        if file.name not in volumes:
            items = [{"key": file.key, "path": file.path}]
            secret = {"secretName": storage.secret_name, "items": items}
            volumes[file.name] = {"name": file.name, "secret": secret}
            mounts.append({"name": file.name, "mountPath": folder, "readOnly": True})
    return Access(tuple(env.values()), tuple(volumes.values()), tuple(mounts))


class _File(typing.NamedTuple):
    """A file with credentials, out of a Secret.

    Attributes:
        name: of the volume.
        variable: the variable by which the server finds it.
        key: its key in the Secret.
        path: its name in the folder that is mounted.
    """

    name: str
    variable: str
    key: str
    path: str


def _credential_file(scheme: str, storage: Storage) -> _File | None:
    """The file with the credentials of a store; None where they are variables."""
    key = storage.credential_file_key
    if key is not None:
        return _File("credentials", "TRITON_CLOUD_CREDENTIAL_PATH", key, key)
    if scheme == "gs":
        key = storage.service_account_key_field or _GOOGLE_KEY
        return _File("credentials-gs", "GOOGLE_APPLICATION_CREDENTIALS", key, key)
    if scheme == "oci":
        return _File("credentials-oci", "REGISTRY_AUTH_FILE", ".dockerconfigjson", "config.json")
    return None


_SECRET_KEYS = {
    "s3": (
        ("AWS_ACCESS_KEY_ID", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("AWS_SESSION_TOKEN", True),
    ),
    "as": (("AZURE_STORAGE_ACCOUNT", False), ("AZURE_STORAGE_KEY", False)),
    "hf": (("HF_TOKEN", False),),
}
"""By scheme, the keys of the Secret, which are also the variables' names, and whether a Secret may lack them."""
