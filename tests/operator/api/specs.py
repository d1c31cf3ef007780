"""Short ways to write the resource of a test that differs from the usual one in a field or two."""

import typing

from tests.support import manifests

Manifest = dict[str, typing.Any]
MODEL = {"storageUri": "s3://models/production"}


def spec(**fields: typing.Any) -> Manifest:
    manifest = manifests.resource()
    manifest["spec"].update(fields)
    return manifest


def profile(**fields: typing.Any) -> Manifest:
    return {
        "apiVersion": "serving.naiad.dev/v1alpha1",
        "kind": "NaiadProfile",
        "metadata": {"name": "platform"},
        "spec": fields,
    }


def model(**fields: typing.Any) -> Manifest:
    return spec(predictor={"model": fields})


def named(name: str) -> Manifest:
    manifest = manifests.resource()
    manifest["metadata"]["name"] = name
    return manifest


def hpa(**fields: typing.Any) -> Manifest:
    return manifests.resource(autoscaling={"class": "hpa", "queueTimeMs": 5, **fields})


def accelerator(**fields: typing.Any) -> Manifest:
    return manifests.resource(accelerator=fields)


def repositories(*given: Manifest) -> Manifest:
    return model(repositories=list(given))


def gateway(*, hosts: Manifest | None = None, **fields: typing.Any) -> Manifest:
    return spec(gateway={"parentRefs": [{"name": "g"}], **(hosts or {})}, **fields)
