"""What KServe's predictor says of its models: their format, the protocol of their clients, their store and its credentials. Pure."""

import base64
import binascii
import collections.abc
import functools
import json
import pathlib
import typing

from naiad_operator.api import store_address
from naiad_operator.api.manifests.unvalidated import Fields, entries, part, texts
from naiad_operator.builders import server
from naiad_operator.convert.draft import Draft
from naiad_operator.convert.kserve import secrets, stores
from naiad_operator.convert.kserve.secrets import Manifests
from naiad_operator.convert.pod import repositories

_MOUNT = "/mnt/models"
"""Where KServe puts the models of storageUri."""
_BACKENDS = {
    "onnx": "onnxruntime", "openvino": "openvino", "python": "python", "pytorch": "pytorch", "tensorflow": "tensorflow", "tensorrt": "tensorrt",
}  # fmt: skip
"""By KServe's name of a format, the backend that runs it."""
_TRITON_FORMATS = frozenset(("onnx", "pytorch", "tensorflow", "tensorrt", "triton"))
"""Formats that KServe also gives to Triton; the arguments of the others are those of other servers."""
_PROTOCOLS = frozenset(("", "v1", "v2", "grpc-v2"))
"""What a server speaks, each without a setting."""
_STORAGE_SECRET = "storage-config"  # noqa: S105 - the Secret's name


def convert(addresses: list[str], namespace: str, others: Manifests, draft: Draft) -> None:
    """Moves the models of a predictor into the draft.

    Args:
        addresses: the values of --model-repository.
        namespace: the namespace of the service.
        others: the manifests of the same files, among them Secrets.
        draft: the service.
    """
    container = draft.container
    _format(draft)
    if "containers[" in draft.container_path:
        _storage_variable(container)
    model: Fields = draft.predictor.setdefault("model", {})
    uri = container.pop("storageUri", None)
    if isinstance(uri, str):
        report = functools.partial(draft.of_container, "storageUri")
        model |= _store(uri, report, namespace, others, draft)
        if "storage" in container:
            _storage_beside_address(draft)
        for address in addresses:
            if address.rstrip("/") != _MOUNT:
                message = f"left out: --model-repository={address}: model.storageUri is the repository; write the folder in it, if it is another one than {_MOUNT}"
                draft.of_container("args", message)
    elif "storage" in container:
        _storage(namespace, others, draft)
    elif entries(draft.pod, "storageUris"):
        _several(draft.pod, draft.of_pod, namespace, others, draft)
    elif entries(container, "storageUris"):
        _several(container, draft.of_container, namespace, others, draft)
    elif addresses:
        repositories.convert(addresses, draft)


def drop_other_arguments(draft: Draft) -> None:
    """Reports the arguments of a predictor whose server is another one than Triton."""
    given = str(part(draft.container.get("modelFormat")).get("name") or "triton")
    if given in _TRITON_FORMATS:
        return
    for field in ("command", "args"):
        words = texts(draft.container, field)
        if words:
            message = f"left out: {' '.join(words)}: they are those of KServe's server for {given!r}: naiad serve --help-all lists the options of this one"
            draft.of_container(field, message)
        draft.container.pop(field, None)


def _format(draft: Draft) -> None:
    """Says what the format and the protocol ask of the user: the server finds the backend by the files."""
    given = str(part(draft.container.pop("modelFormat", None)).get("name") or "triton")
    protocol = str(draft.container.pop("protocolVersion", None) or "")
    if protocol not in _PROTOCOLS:
        message = f"left out: {protocol}: the server speaks v1 and v2 on its HTTP port, and v2 on its gRPC port"
        draft.of_container("protocolVersion", message)
    if given == "triton":
        return
    backend = _BACKENDS.get(given, "")
    runs = backend in server.BACKENDS and backend not in server.EXTRAS
    message = f"left out: {given!r}: {_how(backend)}"
    message += f". storageUri must be a model repository, a folder with one folder per model, e.g. NAME/1/{'model.onnx' if given == 'onnx' else 'FILE'}"
    draft.of_container("modelFormat", message, blocks=not runs)


def _how(backend: str) -> str:
    """How the server runs the models of a backend; "" for an unknown one."""
    if backend in server.EXTRAS:
        return (
            f"the server's image lacks the framework: build one with the extra {server.EXTRAS[backend]!r} (EXTRAS of Dockerfile.server) and name it in "
            "image, or export the model to ONNX"
        )
    if backend in server.BACKENDS:
        return "the server finds the format by the files"
    return (
        "the server has no backend for it: export the model to ONNX, write a Python model, or install a package with such a backend in an image of your own "
        "(docs/backends.md)"
    )


def _storage_variable(container: Fields) -> None:
    """A container of one's own gets its models by a variable."""
    for variable in entries(container, "env"):
        if variable.get("name") == "STORAGE_URI" and isinstance(variable.get("value"), str):
            container["env"].remove(variable)
            container["storageUri"] = variable["value"]
            return


def _store(
    uri: str,
    report: collections.abc.Callable[[str], None],
    namespace: str,
    others: Manifests,
    draft: Draft,
) -> Fields:
    """The fields of a repository; {} for an address that a service cannot read, which is reported."""
    account = draft.pod.get("serviceAccountName")
    return stores.fields(
        uri,
        stores.Account(account if isinstance(account, str) else None, namespace, others),
        report,
        functools.partial(draft.of_pod, "serviceAccountName"),
        field="model.",
    )


def _storage(namespace: str, others: Manifests, draft: Draft) -> None:
    """The field storage: an entry of the Secret storage-config, a path, and parameters that count before the entry's."""
    given = part(draft.container.pop("storage"))
    path = str(given.get("path") or "").strip("/")
    key = str(given.get("key") or "")
    entry = {**_entry(key, namespace, others), **part(given, "parameters")}
    scheme, bucket = str(entry.get("type")), entry.get("bucket")
    secret = _secret(key)
    keys = _keys(key)
    schema = given.get("schemaPath")
    if schema:
        keys += f"; left out: schemaPath: {schema}"
    if scheme not in store_address.SCHEMES or not bucket:
        message = f"not converted: write model.storageUri, e.g. s3://BUCKET/{path}, and model.storage.endpoint, which {secret} says (bucket, endpoint_url). {keys[0].upper()}{keys[1:]}"
        draft.of_container("storage", message)
        return
    store = {
        field: str(entry[name]).rstrip("/")
        for name, field in (("endpoint_url", "endpoint"), ("region", "region"))
        if entry.get(name)
    }
    fields: Fields = {"storageUri": f"{scheme}://{bucket}" + (f"/{path}" if path else "")}
    draft.predictor["model"] |= fields | ({"storage": store} if store else {})
    draft.of_container("storage", keys)


def _secret(key: str) -> str:
    return f"the entry {key} of Secret {_STORAGE_SECRET}" if key else f"Secret {_STORAGE_SECRET}"


def _keys(key: str) -> str:
    return f"{_secret(key)} holds keys as JSON, which a service does not read: make a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and write it in model.storage.secretName"


def _storage_beside_address(draft: Draft) -> None:
    """The field storage beside storageUri, which says where the models are; the keys and the endpoint are those of the entry."""
    key = str(part(draft.container.pop("storage")).get("key") or "")
    keys = _keys(key)
    message = f"left out: storageUri is the address. {keys[0].upper()}{keys[1:]}, and its endpoint_url in model.storage.endpoint"
    draft.of_container("storage", message)


def _entry(key: str, namespace: str, others: Manifests) -> Fields:
    """The entry of the Secret storage-config, when it is among the manifests."""
    secret = secrets.named("Secret", _STORAGE_SECRET, namespace, others)
    text = part(secret, "stringData").get(key)
    try:
        if text is None:
            text = base64.b64decode(str(part(secret, "data").get(key) or ""), validate=True)
        value: typing.Any = json.loads(text)
    except (ValueError, TypeError, binascii.Error):
        return {}
    return value if isinstance(value, dict) else {}


def _several(
    holder: Fields,
    say: collections.abc.Callable[[str, str], None],
    namespace: str,
    others: Manifests,
    draft: Draft,
) -> None:
    """The field storageUris: several folders below /mnt/models.

    Args:
        holder: the part of the predictor that has the field.
        say: reports a field of that part.
        namespace: the namespace of the service.
        others: the manifests of the same files.
        draft: the service.
    """
    given = entries(holder, "storageUris")
    del holder["storageUris"]
    made = []
    for index, one in enumerate(given):
        report = functools.partial(say, f"storageUris[{index}]")
        fields = _store(str(one.get("uri")), report, namespace, others, draft)
        folder = pathlib.PurePosixPath(str(one.get("mountPath") or _MOUNT))
        if folder != pathlib.PurePosixPath(_MOUNT):
            message = f"left out: mountPath: {folder}: each address must be a model repository, a folder with one folder per model"
            say(f"storageUris[{index}]", message)
        if fields:
            made.append(fields)
    model = draft.predictor["model"]
    if len(made) == 1:
        model |= made[0]
    elif made:
        model["repositories"] = made
