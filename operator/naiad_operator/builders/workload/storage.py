"""Builds the server's model repositories with their volumes, mounts and credentials. Secrets are referenced here, never read."""

import dataclasses
import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.model import Model, Repository, Storage
from naiad_operator.builders import server

Objects = tuple[dict[str, typing.Any], ...]

_NO_STORAGE = Storage()
_GOOGLE_KEY = "key.json"


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
    """The repositories, in their order."""
    return model.repositories or (
        Repository(storage_uri=model.storage_uri or "", storage=model.storage),
    )


def mounted(model: Model) -> Mounted:
    """Everything that a service's model repositories add to a pod."""
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


def claim_names(service: InferenceService) -> list[str]:
    """The PersistentVolumeClaims that a service's pods mount, those of its podTemplate included."""
    predictor = service.spec.predictor
    claimed = _claims(sources(predictor.model))
    cache = predictor.model.cache
    if cache is not None and cache.claim_name is not None:
        claimed.append(cache.claim_name)
    spec = (predictor.pod_template or {}).get("spec")
    volumes = spec.get("volumes") if isinstance(spec, dict) else None
    for volume in volumes if isinstance(volumes, list) else ():
        source = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
        name = source.get("claimName") if isinstance(source, dict) else None
        if isinstance(name, str):
            claimed.append(name)
    return list(dict.fromkeys(claimed))


def _claims(given: tuple[Repository, ...]) -> list[str]:
    """The names of the PersistentVolumeClaims, each once, in order of first use."""
    return list(dict.fromkeys(_claim(s.storage_uri)[0] for s in given if _scheme(s) == "pvc"))


def _scheme(source: Repository) -> str:
    return source.storage_uri.partition("://")[0]


def _claim(uri: str) -> tuple[str, str]:
    claim, _, path = uri.removeprefix("pvc://").partition("/")
    return claim, path.strip("/")


def _written(source: Repository, claims: list[str]) -> str:
    if _scheme(source) == "pvc":
        claim, path = _claim(source.storage_uri)
        folder = f"{server.REPOSITORIES_FOLDER}/{claims.index(claim)}"
        return f"{folder}/{path}" if path else folder
    endpoint = (source.storage or _NO_STORAGE).endpoint
    if endpoint is None:
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
        if storage.secret_name is None:
            continue
        file_key = storage.credential_file_key
        if file_key is None and scheme == "gs":
            file_key = storage.service_account_key_field or _GOOGLE_KEY
        if file_key is None:
            for key, optional in _SECRET_KEYS[scheme]:
                reference = {"name": storage.secret_name, "key": key, "optional": optional}
                env[key] = {"name": key, "valueFrom": {"secretKeyRef": reference}}
            continue
        name = "credentials" if storage.credential_file_key else "credentials-gs"
        variable = (
            "TRITON_CLOUD_CREDENTIAL_PATH"
            if storage.credential_file_key
            else "GOOGLE_APPLICATION_CREDENTIALS"
        )
        folder = f"{server.CREDENTIALS_FOLDER}/{name}"
        env[variable] = {"name": variable, "value": f"{folder}/{file_key}"}
        if name not in volumes:
            items = [{"key": file_key, "path": file_key}]
            secret = {"secretName": storage.secret_name, "items": items}
            volumes[name] = {"name": name, "secret": secret}
            mounts.append({"name": name, "mountPath": folder, "readOnly": True})
    return Access(tuple(env.values()), tuple(volumes.values()), tuple(mounts))


_SECRET_KEYS = {
    "s3": (
        ("AWS_ACCESS_KEY_ID", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("AWS_SESSION_TOKEN", True),
    ),
    "as": (("AZURE_STORAGE_ACCOUNT", False), ("AZURE_STORAGE_KEY", False)),
}
"""By scheme, the keys of the Secret, which are also the variables' names, and whether a Secret may lack them."""
