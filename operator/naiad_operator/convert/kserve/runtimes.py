"""The ServingRuntime that a predictor of KServe names: its container and its pod, which the predictor's own fields complete. Pure."""

import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries, own_copy, part, texts
from naiad_operator.convert import workload
from naiad_operator.convert.kserve import secrets
from naiad_operator.convert.kserve.secrets import Manifests

_KINDS = ("ServingRuntime", "ClusterServingRuntime")
_OF_POD = (
    "affinity", "imagePullSecrets", "nodeSelector", "resourceClaims", "schedulerName", "tolerations", "volumes",
)  # fmt: skip
"""Fields of a runtime that KServe gives to the pod."""
_BY_NAME = ("env", "imagePullSecrets", "resourceClaims", "volumeMounts", "volumes")
_OF_IMAGE = ("image", "imagePullPolicy", "name", "ports")


def merge(predictor: Fields, container: Fields, namespace: str, others: Manifests) -> str:
    """Adds what a runtime of Triton gives to a predictor, as KServe does.

    Args:
        predictor: the predictor; its own fields take precedence.
        container: its container, which names the runtime.
        namespace: the namespace of the service.
        others: the manifests of the same files.

    Returns:
        What has been done; "" when the runtime is not among the manifests, or runs another server.
    """
    name = str(container.get("runtime"))
    candidates = [secrets.named(kind, name, namespace, others) for kind in _KINDS]
    runtime = next(filter(None, candidates), {})
    spec = own_copy(part(runtime, "spec"))
    base = next(filter(workload.runs_triton, entries(spec, "containers")), None)
    if base is None:
        return ""
    words = [*texts(base, "args"), *texts(container, "args")]
    for field, value in base.items():
        if field not in _OF_IMAGE:
            container[field] = _merged(field, value, container.get(field))
    if words:
        container["args"] = words
    for field in _OF_POD:
        if field in spec:
            predictor[field] = _merged(field, spec[field], predictor.get(field))
    del container["runtime"]
    return f"{runtime['kind']} {name} is part of the service: its arguments come before those of the predictor, whose other fields take precedence; left out: its image, {base.get('image')}"


def _merged(field: str, base: typing.Any, own: typing.Any) -> typing.Any:
    """A field of a predictor over that of its runtime: mappings and lists of named entries are merged, other values replaced."""
    if own is None:
        return base
    if field in _BY_NAME and isinstance(base, list) and isinstance(own, list):
        key = "mountPath" if field == "volumeMounts" else "name"
        names = [one.get(key) for one in own if isinstance(one, dict)]
        return [*(one for one in base if part(one).get(key) not in names), *own]
    if isinstance(base, dict) and isinstance(own, dict):
        return {**base, **{key: _merged(key, base.get(key), value) for key, value in own.items()}}
    return own
