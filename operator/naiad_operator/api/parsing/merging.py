"""Merges a profile's fields into the spec of a service. Both are JSON with their defaults filled in."""

import collections.abc
import typing

Object = dict[str, typing.Any]
Value = collections.abc.Mapping[str, typing.Any]

STORES = {"s3": "s3", "gs": "gs", "as": "azure", "hf": "hf", "oci": "oci"}
"""By the scheme of an address: the field of a profile's storage for its store."""

_REPLACED = (
    "serverVersion", "image", "affinity", "serviceAccountName", "automountServiceAccountToken", "priorityClassName", "runtimeClassName",
)  # fmt: skip
_JOINED = ("args", "envFrom")
_BY_NAME = ("imagePullSecrets", "env")


def merged(profile: Value, spec: Value) -> Object:
    """The spec of a service with a profile's fields.

    `tolerations`, `podSecurityContext` and `podTemplate` of the profile are not fields of the spec: `builders.workload.pod` applies them.

    Args:
        profile: the spec of a valid NaiadProfile, as JSON.
        spec: the valid spec of a service, as JSON with its defaults filled in.
    """
    made = {**spec, "predictor": _predictor(profile, spec["predictor"])}
    for field in ("labels", "annotations"):
        if field in profile:
            made[field] = {**profile[field], **spec.get(field, {})}
    if "canary" in spec:
        # What a canary sets replaces the predictor's; the profile counts for that, too.
        both = _predictor(profile, spec["canary"])
        made["canary"] = {field: both[field] for field in spec["canary"]}
    return made


def _predictor(profile: Value, predictor: Value) -> Object:
    made = dict(predictor)
    of_image = {"serverVersion"} if made.get("image") else set()  # the version is the image's
    for field in _REPLACED:
        if field in profile.keys() - of_image and made.get(field, "") == "":
            made[field] = profile[field]
    _add_lists(profile, made)
    for field, join in (("nodeSelector", _by_key), ("resources", _resources)):
        if field in profile:
            made[field] = join(profile[field], made.get(field, {}))
    for field, merge in (("model", _model), ("autoscaling", _autoscaling)):
        if field in made:
            made[field] = merge(profile, made[field])
    return made


def _add_lists(profile: Value, made: Object) -> None:
    """Joins the lists of a profile and a predictor, which is changed."""
    for field in _JOINED:
        if field in profile:
            made[field] = [*profile[field], *made.get(field, ())]
    for field in _BY_NAME:
        if field in profile:
            by_name = {entry["name"]: entry for entry in (*profile[field], *made.get(field, ()))}
            made[field] = list(by_name.values())


def _by_key(defaults: Value, own: Value) -> Object:
    return {**defaults, **own}


def _autoscaling(profile: Value, autoscaling: Value) -> Value:
    """An autoscaling with the profile's Prometheus, if KEDA queries one and the service names none."""
    if autoscaling["class"] != "keda" or "prometheusAddress" in autoscaling:
        return autoscaling
    prometheus = profile.get("prometheus", {})
    fields = {"address": "prometheusAddress", "auth": "prometheusAuth"}
    defaults = {field: prometheus[name] for name, field in fields.items() if name in prometheus}
    return {**defaults, **autoscaling}


def _resources(profile: Value, own: Value) -> Object:
    """Requests and limits. Those of one resource come from one side: a default request may be above the service's limit."""
    named = {name for amounts in own.values() for name in amounts}
    both = {}
    for field in ("requests", "limits"):
        kept = {
            name: amount for name, amount in profile.get(field, {}).items() if name not in named
        }
        amounts = {**kept, **own.get(field, {})}
        if amounts:
            both[field] = amounts
    return both


def _model(profile: Value, model: Value) -> Object:
    """The model with the profile's cache and the storage of each repository's kind of store."""
    stores = profile.get("storage", {})
    made = _with_storage(stores, model)
    if "repositories" in model:
        made["repositories"] = [_with_storage(stores, one) for one in model["repositories"]]
    if "cache" in profile:
        made.setdefault("cache", profile["cache"])
    return made


def _with_storage(stores: Value, repository: Value) -> Object:
    scheme = repository.get("storageUri", "").partition("://")[0]
    store = STORES.get(scheme, "")
    return {**({"storage": stores[store]} if store in stores else {}), **repository}
