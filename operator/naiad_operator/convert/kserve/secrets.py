"""The Secrets of a ServiceAccount, with which KServe reads a store, as model.storage. Pure."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries, part

Manifests = collections.abc.Sequence[typing.Any]

_DOMAINS = ("serving.kserve.io", "serving.kubeflow.org")
"""The second one is KServe's before it was renamed."""
_S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_GOOGLE_KEY = "gcloud-application-credentials.json"
_OFF = ("0", "false")


def storage(scheme: str, account: str, namespace: str, others: Manifests) -> Fields:
    """The storage that the Secrets of a ServiceAccount say; {} when they are not among the manifests, or have other keys.

    Args:
        scheme: that of the store, e.g. s3.
        account: the name of the ServiceAccount.
        namespace: the namespace of the service.
        others: the manifests of the same files.
    """
    found = named("ServiceAccount", account, namespace, others)
    for reference in entries(found, "secrets"):
        secret = named("Secret", str(reference.get("name")), namespace, others)
        keys = {*part(secret, "data"), *part(secret, "stringData")}
        if scheme == "s3" and keys.issuperset(_S3_KEYS):
            annotations = {
                **part(found, "metadata", "annotations"),
                **part(secret, "metadata", "annotations"),
            }
            return {"secretName": reference["name"], **_of_annotations(annotations)}
        if scheme == "hf" and "HF_TOKEN" in keys:
            return {"secretName": reference["name"]}
        if scheme == "gs" and _GOOGLE_KEY in keys:
            return {"secretName": reference["name"], "serviceAccountKeyField": _GOOGLE_KEY}
    if scheme == "oci":
        pulls = [str(one.get("name")) for one in entries(found, "imagePullSecrets")]
        return {"secretName": pulls[0]} if pulls else {}
    return {}


def named(kind: str, name: str, namespace: str, others: Manifests) -> Fields:
    """A manifest by its kind and name, in a namespace or in none; {} when there is none."""
    for one in others:
        metadata = part(one, "metadata")
        if (one.get("kind"), metadata.get("name")) == (kind, name) and str(
            metadata.get("namespace") or ""
        ) in {"", namespace}:
            return typing.cast("Fields", one)
    return {}


def _of_annotations(annotations: Fields) -> Fields:
    """The endpoint and the region of an S3 store; AWS's own endpoint is the default."""

    def value(name: str) -> str:
        given = (annotations.get(f"{domain}/s3-{name}") for domain in _DOMAINS)
        return str(next(filter(None, given), ""))

    made: Fields = {}
    host = value("endpoint").partition("://")[2] or value("endpoint")
    if host and host != "s3.amazonaws.com":
        scheme = "http" if value("usehttps").lower() in _OFF else "https"
        made["endpoint"] = f"{scheme}://{host}"
    if value("region"):
        made["region"] = value("region")
    return made
