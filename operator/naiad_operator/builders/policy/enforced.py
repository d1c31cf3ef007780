"""The fields of a profile that a service cannot change: neither in its own fields nor by podTemplate."""

import collections.abc
import typing

from naiad_operator.api.manifests.unvalidated import entries, part
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.model import Model, Repository
from naiad_operator.api.types.profile import ProfileSpec
from naiad_operator.api.types.spec import Spec
from naiad_operator.builders import server
from naiad_operator.errors import Problem

Object = dict[str, typing.Any]
Problems = collections.abc.Iterator[Problem]
Conflicts = collections.abc.Iterator[str]
"""The fields of a service that change what its profile enforces."""

_ATTRIBUTES = {
    "image": "image",
    "serverVersion": "server_version",
    "serviceAccountName": "service_account_name",
    "automountServiceAccountToken": "automount_service_account_token",
    "priorityClassName": "priority_class_name",
    "runtimeClassName": "runtime_class_name",
    "affinity": "affinity",
    "tolerations": "tolerations",
    "envFrom": "env_from",
}
"""Fields that are enforced as a whole: a service may only repeat them."""


def of_spec(service: InferenceService) -> Problems:
    """The fields of a service that change what its profile enforces."""
    profile = service.profile
    policy = profile.spec.policy if profile is not None else None
    if profile is None or policy is None or not policy.enforced:
        return
    own, held = service.own_spec, profile.spec
    for field in policy.enforced:
        attribute = _ATTRIBUTES.get(field)
        if attribute is not None:
            given = getattr(own.predictor, attribute)
            is_kept = given in (None, "", ()) or given == getattr(held, attribute)
            paths: collections.abc.Iterable[str] = () if is_kept else (f"spec.predictor.{field}",)
        else:
            paths = _LOOKS[field](own, held) if field in _LOOKS else ()
        for path in (*paths, *_of_command(service, field)):
            yield Problem(path, f"{_ENFORCED.format(profile.title, field)}: leave it out")


def _of_command(service: InferenceService, field: str) -> Conflicts:
    """The command of a component, which runs another program of the same image, and with other arguments."""
    wanted = getattr(service.own_spec, service.component_field, None) if service.component else None
    if field in ("image", "args") and wanted is not None and wanted.command is not None:
        yield "spec.predictor.command"


_ENFORCED = "the {} enforces {}, which a service cannot change"


def of_pod(service: InferenceService, before: Object, after: Object) -> Problems:
    """What a podTemplate changes that the profile enforces.

    Args:
        service: the service.
        before: the pod template without its podTemplate.
        after: the pod template with it.
    """
    profile = service.profile
    policy = profile.spec.policy if profile is not None else None
    if profile is None or policy is None or not policy.enforced:
        return
    broken = _broken(before, after)
    if not broken:
        return
    for field in policy.enforced:
        for path in _POD_FIELDS[field]:
            if path in broken:
                message = f"changes {path} of the pods: {_ENFORCED.format(profile.title, field)}"
                yield Problem("spec.predictor.podTemplate", message)


def _broken(before: Object, after: Object) -> set[str]:
    """The fields of a pod that a podTemplate changes as it may not where they are enforced. What it has left is the same object."""
    parents = (
        (_server(before), _server(after)),
        (part(before, "spec"), part(after, "spec")),
        (part(before, "metadata"), part(after, "metadata")),
    )
    broken = set()
    for (old, new), fields in zip(parents, _BY_PARENT, strict=True):
        if old is not new:
            for name, (path, is_kept) in fields.items():
                was, now = old.get(name), new.get(name)
                if was is not now and not is_kept(was, now):
                    broken.add(path)
    return broken


def _of_env(own: Spec, held: ProfileSpec) -> Conflicts:
    mine = {one.name: one for one in own.predictor.env or ()}
    yield from _of_map(mine, {one.name: one for one in held.env or ()}, "spec.predictor.env")


def _of_pull_secrets(own: Spec, held: ProfileSpec) -> Conflicts:
    known = {one.name for one in held.image_pull_secrets or ()}
    if any(one.name not in known for one in own.predictor.image_pull_secrets or ()):
        yield "spec.predictor.imagePullSecrets"


def _of_node_selector(own: Spec, held: ProfileSpec) -> Conflicts:
    yield from _of_map(own.predictor.node_selector, held.node_selector, "spec.predictor.nodeSelector")  # fmt: skip


def _of_labels(own: Spec, held: ProfileSpec) -> Conflicts:
    yield from _of_map(own.labels, held.labels, "spec.labels")
    if own.monitoring is not None:
        yield from _of_map(own.monitoring.labels, held.labels, "spec.monitoring.labels")


def _of_annotations(own: Spec, held: ProfileSpec) -> Conflicts:
    for where, values in _annotations(own).items():
        yield from _of_map(values, held.annotations, where)


def _of_cache(own: Spec, held: ProfileSpec) -> Conflicts:
    cache = own.predictor.model.cache
    if cache is not None and cache != held.cache:
        yield "spec.predictor.model.cache"


def _annotations(own: Spec) -> dict[str, collections.abc.Mapping[str, str] | None]:
    ingress = own.ingress
    return {
        "spec.annotations": own.annotations,
        "spec.service.annotations": own.service.annotations,
        "spec.ingress.annotations": ingress.annotations if ingress is not None else None,
        "spec.ingress.grpcAnnotations": ingress.grpc_annotations if ingress is not None else None,
    }


def _of_map(
    own: collections.abc.Mapping[str, typing.Any] | None,
    held: collections.abc.Mapping[str, typing.Any] | None,
    where: str,
) -> Conflicts:
    """Keys of the profile with another value; every key where the profile has none."""
    for key, value in (own or {}).items():
        if not held or (key in held and held[key] != value):
            yield f"{where}[{key}]"


def _of_args(own: Spec, held: ProfileSpec) -> Conflicts:
    """Options that the profile has: the last one would take precedence. An option may be shortened, so one that begins another counts."""
    options = [_option(one) for one in held.args or () if one.startswith("--")]
    for index, one in enumerate(own.predictor.args or ()):
        name = _option(one)
        if not held.args or (
            one.startswith("--")
            and any(known.startswith(name) or name.startswith(known) for known in options)
        ):
            yield f"spec.predictor.args[{index}]"


def _option(argument: str) -> str:
    return argument.partition("=")[0]


def _of_resources(spec: Spec, held: ProfileSpec) -> Conflicts:
    own, theirs = spec.predictor.resources, held.resources
    if own is None:
        return
    fixed = {
        name
        for amounts in ((theirs.requests, theirs.limits) if theirs is not None else ())
        for name in amounts or ()
    }
    for field in ("requests", "limits"):
        for name, amount in (getattr(own, field) or {}).items():
            known = getattr(theirs, field) if theirs is not None else None
            if not fixed or (name in fixed and (known or {}).get(name) != amount):
                yield f"spec.predictor.resources.{field}[{name}]"


def _of_storage(own: Spec, held: ProfileSpec) -> Conflicts:
    """Credentials and endpoints for a kind of store that the profile has; all kinds where it has none."""
    model, stores = own.predictor.model, held.storage
    given: list[tuple[str, Model | Repository]] = [("spec.predictor.model", model)]
    for index, repository in enumerate(model.repositories or ()):
        given.append((f"spec.predictor.model.repositories[{index}]", repository))
    for where, one in given:
        scheme = (one.storage_uri or "").partition("://")[0]
        store = getattr(stores, "azure" if scheme == "as" else scheme, None)
        if one.storage is not None and one.storage != store and (stores is None or store is not None):  # fmt: skip
            yield f"{where}.storage"


def _of_prometheus(own: Spec, _: ProfileSpec) -> Conflicts:
    scaling = own.predictor.autoscaling
    for field in ("prometheusAddress", "prometheusAuth"):
        attribute = "prometheus_address" if field == "prometheusAddress" else "prometheus_auth"
        if scaling is not None and getattr(scaling, attribute) is not None:
            yield f"spec.predictor.autoscaling.{field}"


_LOOKS: dict[str, collections.abc.Callable[[Spec, ProfileSpec], Conflicts]] = {
    "args": _of_args,
    "env": _of_env,
    "imagePullSecrets": _of_pull_secrets,
    "nodeSelector": _of_node_selector,
    "resources": _of_resources,
    "labels": _of_labels,
    "annotations": _of_annotations,
    "storage": _of_storage,
    "cache": _of_cache,
    "prometheus": _of_prometheus,
}
"""The other fields; podSecurityContext is in no field of a service but podTemplate."""


def _same(before: typing.Any, after: typing.Any) -> bool:
    return bool(before == after)


def _kept(before: typing.Any, after: typing.Any) -> bool:
    """Whether everything is still there; more may have been added."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and _kept(value, after[key]) for key, value in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return all(one in after for one in before)
    return before is None or before == after


_PATHS: dict[str, collections.abc.Callable[[typing.Any, typing.Any], bool]] = {
    "image": _same, "command": _same, "args": _same, "env": _kept, "envFrom": _same, "resources": _kept,
    "metadata.labels": _kept, "metadata.annotations": _kept, "spec.nodeSelector": _kept, "spec.volumes": _kept,
    **{
        f"spec.{field}": _same
        for field in (
            "affinity", "automountServiceAccountToken", "imagePullSecrets", "nodeName", "priority", "priorityClassName", "runtimeClassName",
            "schedulerName", "securityContext", "serviceAccount", "serviceAccountName", "tolerations",
        )
    },
}  # fmt: skip
"""Fields of a pod, and of the server's container without "spec.", with what a podTemplate may not do to them."""

_BY_PARENT = tuple(
    {
        path.rpartition(".")[2]: (path, is_kept)
        for path, is_kept in _PATHS.items()
        if path.rpartition(".")[0] == parent
    }
    for parent in ("", "spec", "metadata")
)

_PLACES = ("spec.nodeName", "spec.schedulerName")
_POD_FIELDS: dict[str, tuple[str, ...]] = {
    "image": ("image", "command"),
    "serverVersion": ("image",),
    "imagePullSecrets": ("spec.imagePullSecrets",),
    "args": ("args", "command"),
    "env": ("env",),
    "envFrom": ("envFrom",),
    "resources": ("resources",),
    "storage": ("env", "args", "spec.volumes"),
    "cache": ("spec.volumes",),
    "prometheus": (),
    "serviceAccountName": ("spec.serviceAccountName", "spec.serviceAccount"),
    "automountServiceAccountToken": ("spec.automountServiceAccountToken",),
    "nodeSelector": ("spec.nodeSelector", *_PLACES),
    "tolerations": ("spec.tolerations", *_PLACES),
    "affinity": ("spec.affinity", *_PLACES),
    "priorityClassName": ("spec.priorityClassName", "spec.priority"),
    "runtimeClassName": ("spec.runtimeClassName",),
    "podSecurityContext": ("spec.securityContext",),
    "labels": ("metadata.labels",),
    "annotations": ("metadata.annotations",),
}
"""Where a pod has the fields of a profile."""


def _server(template: Object) -> Object:
    """The server's container; an empty one when it was taken away."""
    containers = entries(part(template, "spec"), "containers")
    return next((one for one in containers if one.get("name") == server.CONTAINER), {})
