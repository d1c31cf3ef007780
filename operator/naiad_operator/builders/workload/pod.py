"""Builds the pod template: one hardened server with probes and a grace period. `podTemplate` is applied last."""

import collections.abc
import typing

from naiad_operator.api import quantity
from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.component import Component
from naiad_operator.api.types.pod import LivenessProbe, Probes, ReadinessProbe, Toleration
from naiad_operator.builders import names, server
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.builders.policy import refusals
from naiad_operator.builders.workload import (
    accelerator,
    cache,
    component,
    component_files,
    container,
    fetching,
    filled,
    merge,
    requests,
    storage,
)
from naiad_operator.errors import InvalidSpec, Problem

Object = dict[str, typing.Any]

_HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"


def template(service: InferenceService, facts: ClusterFacts) -> Object:
    """The Deployment's `spec.template`."""
    predictor = service.spec.predictor
    made: Object = {
        "metadata": {
            "labels": names.labels(service),
            "annotations": names.annotations(
                service, {"kubectl.kubernetes.io/default-container": server.CONTAINER}
            ),
        },
        "spec": _pod_spec(service, facts),
    }
    profile = service.profile
    if profile is not None and profile.spec.pod_template is not None:
        made = _patched(made, profile.spec.pod_template, f"{profile.title}: spec")
    if predictor.pod_template is not None:
        before, made = made, _patched(made, predictor.pod_template, "spec.predictor")
        policy = refusals.policy_of(service, facts.defaults.policy)
        refusals.of_pod(service, policy, predictor.pod_template, before, made)
    filled.check(service, made)
    # The Deployment and the Services must find their pods, whatever the patches contain.
    metadata = made.setdefault("metadata", {})
    metadata["labels"] = {**metadata.get("labels", {}), **names.own_labels(service)}
    made["spec"] = requests.added(made.get("spec") or {}, facts.requests)
    account = made["spec"].get("serviceAccountName")
    if account is not None:
        # The API server copies serviceAccountName to this deprecated field and back: unless the operator owns both, a removed account would stay.
        made["spec"] = {**made["spec"], "serviceAccount": account}
    return made


def _patched(made: Object, patch: Object, parent: str) -> Object:
    """The template with the patch applied that is the field podTemplate of `parent`.

    Raises:
        InvalidSpec: the patch does not fit a pod template.
    """
    here = f"{parent}.podTemplate"
    for unknown in sorted(patch.keys() - made.keys()):
        message = (
            f"there is no such field: a pod template has metadata and spec, so write spec.{unknown}"
        )
        raise InvalidSpec([Problem(f"{here}.{unknown}", message)])
    try:
        return merge.strategic(made, patch)
    except merge.PatchError as patch_error:
        raise InvalidSpec([Problem(f"{here}.{patch_error.path}", patch_error.message)]) from None


def _pod_spec(service: InferenceService, facts: ClusterFacts) -> Object:
    predictor = service.spec.predictor
    device_request = accelerator.device_request(service)
    spec: Object = {
        "automountServiceAccountToken": bool(predictor.automount_service_account_token),
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": server.stop(service.spec).grace,
        "securityContext": _security_context(service),
        **_containers(service, facts),
    }
    if fetching.is_wanted(service):
        spec["initContainers"] = fetching.containers(service, facts)
    if predictor.image_pull_secrets:
        names_ = dict.fromkeys(secret.name for secret in predictor.image_pull_secrets)
        spec["imagePullSecrets"] = [{"name": name} for name in names_]
    if predictor.service_account_name is not None:
        spec["serviceAccountName"] = predictor.service_account_name
    if predictor.priority_class_name is not None:
        spec["priorityClassName"] = predictor.priority_class_name
    if predictor.runtime_class_name is not None:
        spec["runtimeClassName"] = predictor.runtime_class_name
    node_labels = {**device_request.node_labels, **(predictor.node_selector or {})}
    if node_labels:
        spec["nodeSelector"] = node_labels
    tolerations = _tolerations(service, device_request)
    if tolerations:
        spec["tolerations"] = tolerations
    if device_request.claim_template:
        claim = {
            "name": accelerator.CLAIM,
            "resourceClaimTemplateName": device_request.claim_template,
        }
        spec["resourceClaims"] = [claim]
    return {**spec, **_placement(service, device_request)}


def _containers(service: InferenceService, facts: ClusterFacts) -> Object:
    """The server with its volumes, or the container of a component with what brings its files."""
    own = _OF_COMPONENT.get(service.component_field)
    if own is not None:
        wanted = own(service)
        assert wanted is not None
        made = component.made(service, facts.image, wanted)
        return {"containers": [made], **component_files.of_pod(service, facts)}
    mounted = _mounted(service)
    volumes, mounts = _volumes(service)
    return {
        "containers": [_container(service, facts, mounted, mounts)],
        "volumes": [*volumes, *mounted.volumes],
    }


_OF_COMPONENT: dict[str, collections.abc.Callable[[InferenceService], Component | None]] = {
    "transformer": lambda service: service.spec.transformer,
    "explainer": lambda service: service.spec.explainer,
}


def _security_context(service: InferenceService) -> Object:
    if service.profile is not None and service.profile.spec.pod_security_context is not None:
        return dict(service.profile.spec.pod_security_context)
    return {
        "runAsNonRoot": True,
        "runAsUser": server.USER,
        "runAsGroup": server.USER,
        "fsGroup": server.USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _mounted(service: InferenceService) -> storage.Mounted:
    """The repositories as the server gets them: with their credentials, or fetched by init containers and without credentials."""
    mounted = storage.mounted(service.spec.predictor.model)
    if not fetching.is_wanted(service):
        return mounted
    return storage.Mounted(
        repositories=fetching.folders(service, mounted.repositories),
        env=(),
        volumes=tuple(fetching.volumes(service)),
        mounts=tuple(fetching.volume_mounts(service, writing=False)),
    )


def _container(
    service: InferenceService,
    facts: ClusterFacts,
    mounted: storage.Mounted,
    mounts: list[Object],
) -> Object:
    predictor = service.spec.predictor
    made: Object = {
        "name": server.CONTAINER,
        "image": facts.image,
        "command": list(server.COMMAND),
        "args": server.arguments(
            service.spec, mounted.repositories, facts.server_version, cache.options(service)
        ),
        **container.environment(service, mounted.env),
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in (
                ("http", predictor.ports.http),
                ("grpc", predictor.ports.grpc),
                ("metrics", predictor.ports.metrics),
            )
        ],
        # A server accepts requests when all models of its start were loaded or have failed: one that fails restarts no pod.
        **_probes(predictor.probes),
        "securityContext": container.hardened(),
        # The last log lines of a failed server become part of the pod's status, and from there of the service's.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*mounts, *mounted.mounts],
    }
    resources = _resources(service)
    if resources:
        made["resources"] = resources
    return made


def _probes(wanted: Probes) -> Object:
    startup, readiness, liveness = wanted.startup, wanted.readiness, wanted.liveness
    return {
        "startupProbe": {
            **_request(server.LIVE_PATH),
            "periodSeconds": startup.period(),
            "timeoutSeconds": startup.timeout_seconds,
            "failureThreshold": startup.checks(),
        },
        "readinessProbe": {**_request(server.READY_PATH), **_times(readiness)},
        "livenessProbe": {**_request(server.LIVE_PATH), **_times(liveness)},
    }


def _request(path: str) -> Object:
    return {"httpGet": {"path": path, "port": "http", "scheme": "HTTP"}}


def _times(wanted: ReadinessProbe | LivenessProbe) -> Object:
    return {
        "periodSeconds": wanted.period_seconds,
        "timeoutSeconds": wanted.timeout_seconds,
        "failureThreshold": wanted.failure_threshold,
    }


def _resources(service: InferenceService) -> Object:
    """Requests and limits; devices are in the limits, from which the API server copies them to the requests."""
    device_request = accelerator.device_request(service)
    resources: Object = dict(container.amounts(service))
    if device_request.resource:
        limits = {**resources.get("limits", {}), device_request.resource: str(device_request.count)}
        resources["limits"] = limits
    if device_request.claim_template:
        resources["claims"] = [{"name": accelerator.CLAIM}]
    return resources


def _volumes(service: InferenceService) -> tuple[list[Object], list[Object]]:
    """The writable volumes of every server, since its root is read-only, and the token Secret."""
    predictor = service.spec.predictor
    memory = {"medium": "Memory", "sizeLimit": quantity.canonical(predictor.shared_memory)}
    volumes: list[Object] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": memory},
        {"name": cache.VOLUME, **cache.source(predictor.model.cache)},
    ]
    mounts: list[Object] = [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - as above
        cache.mount(service),
    ]
    auth = service.spec.auth
    if auth is not None:
        items = [{"key": auth.token_key, "path": server.TOKEN_FILE}]
        secret = {"secretName": auth.token_secret, "items": items}
        volumes.append({"name": "auth", "secret": secret})
        # The whole folder, because a file that is mounted by subPath is never updated.
        mounts.append({"name": "auth", "mountPath": server.TOKEN_FOLDER, "readOnly": True})
    return volumes, mounts


def _tolerations(
    service: InferenceService, device_request: accelerator.DeviceRequest
) -> list[Object]:
    own = service.spec.predictor.tolerations
    if own is not None:
        return [_toleration(one) for one in own]
    nvidia = device_request.claim_template or device_request.resource.startswith("nvidia.com/")
    taint = {"key": accelerator.GPU, "operator": "Exists", "effect": "NoSchedule"}
    defaults = service.profile.spec.tolerations if service.profile is not None else None
    return [*([taint] if nvidia else []), *(_toleration(one) for one in defaults or ())]


def _toleration(one: Toleration) -> Object:
    fields = {
        "key": one.key,
        "operator": one.operator,
        "value": one.value,
        "effect": one.effect,
        "tolerationSeconds": one.toleration_seconds,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _placement(service: InferenceService, device_request: accelerator.DeviceRequest) -> Object:
    """The affinity and the topology spread constraints."""
    predictor = service.spec.predictor
    pods = {"matchLabels": names.selector(service)}
    affinity = accelerator.placed(dict(predictor.affinity or {}), device_request)
    placed: Object = {}
    if predictor.placement == "onePerNode":
        ours = {"labelSelector": pods, "topologyKey": _HOSTNAME}
        affinity["podAntiAffinity"] = _with_term(affinity.get("podAntiAffinity") or {}, ours)
    elif predictor.topology_spread_constraints is not None:
        given = [dict(constraint) for constraint in predictor.topology_spread_constraints]
        placed["topologySpreadConstraints"] = given
    else:
        placed["topologySpreadConstraints"] = [_over_nodes(pods)]
        affinity.setdefault("podAntiAffinity", _over_zones(pods))
    if affinity:
        placed["affinity"] = affinity
    return placed


def _over_nodes(pods: Object) -> Object:
    """The constraint that spreads the pods of one revision over nodes."""
    return {
        "maxSkew": 1,
        "topologyKey": _HOSTNAME,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": pods,
        "matchLabelKeys": ["pod-template-hash"],
    }


def _over_zones(pods: Object) -> Object:
    """The wish for other zones than those of this revision's pods.

    Not a second constraint: the scheduler ignores all of them for a node without the label of one. Of this revision, as `_over_nodes`: a pod of the revision before
    would weigh as much against a node as the spread over nodes for it, and two new pods could meet on one node.
    """
    term = {"labelSelector": pods, "topologyKey": _ZONE, "matchLabelKeys": ["pod-template-hash"]}
    return {_PREFERRED: [{"weight": 50, "podAffinityTerm": term}]}


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _with_term(given: typing.Any, ours: Object) -> Object:
    """The user's anti-affinity with one more required term.

    Raises:
        InvalidSpec: the user's value has another type.
    """
    where = "spec.predictor.affinity.podAntiAffinity"
    if not isinstance(given, dict):
        raise InvalidSpec([Problem(where, f"is {given!r}: write a mapping")])
    required = given.get(_REQUIRED) or []
    if not isinstance(required, list):
        raise InvalidSpec([Problem(f"{where}.{_REQUIRED}", f"is {required!r}: write a list")])
    return {**given, _REQUIRED: [*required, ours]}
