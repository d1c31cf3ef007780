"""The spec of a NaiadProfile: a platform's defaults for services, and how they are merged with a service's spec.

Only fields without a default value in the InferenceService are here: a stored service contains every default value, and nothing tells
one that the user wrote from one that the API server filled in.
"""

import collections.abc
import typing

from naiad_operator.api.bounds import (
    Annotations,
    AnyObject,
    Labels,
    ObjectName,
    Text,
)
from naiad_operator.api.model import Cache, Storage
from naiad_operator.api.pod import (
    Arguments,
    Image,
    NodeSelector,
    PullSecrets,
    RawObjects,
    Resources,
    ServerVersion,
    Tolerations,
    Variables,
)
from naiad_operator.api.scaling import PrometheusAuth
from naiad_operator.api.structs import Part

Object = dict[str, typing.Any]
Value = collections.abc.Mapping[str, typing.Any]


class StoreDefaults(Part, frozen=True):
    """How object stores are reached, for repositories without storage of their own.

    Attributes:
        s3: repositories with s3://.
        gs: repositories with gs://.
        azure: repositories with as://.
    """

    s3: Storage | None = None
    gs: Storage | None = None
    azure: Storage | None = None


class PrometheusDefaults(Part, frozen=True):
    """The Prometheus that KEDA queries for services whose autoscaling names none.

    Attributes:
        address: where it answers; by default the one that the operator was installed with.
        auth: how KEDA authenticates there; a ClusterTriggerAuthentication serves every namespace.
    """

    address: Text | None = None
    auth: PrometheusAuth | None = None


class ProfileSpec(Part, frozen=True):
    """Defaults for services.

    Attributes:
        default: whether services that name no profile use this one; of several, the oldest is used.
        image: the server's image.
        server_version: the version of the server in that image, for an image whose tag does not say it.
        image_pull_secrets: Secrets for pulling the image; those of the service are added, by name.
        args: further options of the server; those of the service come after them and take precedence.
        env: environment variables of the server; those of the service take precedence, by name.
        env_from: environment variables from ConfigMaps and Secrets, as in a pod; those of the service come after them and take precedence.
        resources: CPU, memory and ephemeral storage. A resource that the service names, in requests or in limits, is the service's in both.
        storage: how object stores are reached.
        cache: a volume for what a server keeps on disk.
        prometheus: the Prometheus that KEDA queries. A service with an address of its own gets no credentials from here.
        service_account_name: the ServiceAccount of the pods, in each service's namespace.
        automount_service_account_token: whether the pods, and so the code of models, get the ServiceAccount's Kubernetes token.
        node_selector: labels that a node must have; those of the service take precedence, by key.
        tolerations: taints that pods tolerate, in addition to nvidia.com/gpu of pods with an NVIDIA accelerator; tolerations of the service
            replace both.
        affinity: as in a pod.
        priority_class_name: the PriorityClass of the pods.
        runtime_class_name: the RuntimeClass of the pods.
        pod_security_context: as in a pod; it replaces the operator's own, e.g. without user ids on OpenShift, which assigns them.
        pod_template: any other field of the pods: a patch as predictor.podTemplate, which is applied after it.
        labels: labels of every object and pod of the services; those of the service take precedence, by key.
        annotations: annotations of every object and pod of the services; those of the service take precedence, by key.
    """

    default: bool = False
    image: Image = ""
    server_version: ServerVersion | None = None
    image_pull_secrets: PullSecrets | None = None
    args: Arguments | None = None
    env: Variables | None = None
    env_from: RawObjects | None = None
    resources: Resources | None = None
    storage: StoreDefaults | None = None
    cache: Cache | None = None
    prometheus: PrometheusDefaults | None = None
    service_account_name: ObjectName | None = None
    automount_service_account_token: bool | None = None
    node_selector: NodeSelector | None = None
    tolerations: Tolerations | None = None
    affinity: AnyObject | None = None
    priority_class_name: ObjectName | None = None
    runtime_class_name: ObjectName | None = None
    pod_security_context: AnyObject | None = None
    pod_template: AnyObject | None = None
    labels: Labels | None = None
    annotations: Annotations | None = None


_STORES = {"s3": "s3", "gs": "gs", "as": "azure"}
_REPLACED = (
    "serverVersion", "image", "affinity", "serviceAccountName", "automountServiceAccountToken", "priorityClassName", "runtimeClassName",
)  # fmt: skip
_JOINED = ("args", "envFrom")
_BY_NAME = ("imagePullSecrets", "env")


def merged(profile: Value, spec: Value) -> Object:
    """The spec of a service with a profile's fields.

    `tolerations`, `podSecurityContext` and `podTemplate` of the profile are not fields of the spec: `builders.pod` applies them.

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
    store = _STORES.get(scheme, "")
    return {**({"storage": stores[store]} if store in stores else {}), **repository}
