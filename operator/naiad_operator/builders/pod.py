"""The pod template: one server, hardened, watched by probes, with time to stop. `podTemplate` has the last word."""

import typing

from naiad_operator.api import quantity
from naiad_operator.api.pod import LivenessProbe, ReadinessProbe, StartupProbe
from naiad_operator.api.service import InferenceService
from naiad_operator.builders import accelerator, container, fetching, merge, names, server, storage
from naiad_operator.builders.facts import ClusterFacts
from naiad_operator.errors import InvalidSpec, Problem

Object = dict[str, typing.Any]

_USER = 1000
_HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"


def template(service: InferenceService, facts: ClusterFacts) -> Object:
    """The Deployment's `spec.template`."""
    predictor = service.spec.predictor
    made: Object = {
        "metadata": {
            "labels": names.labels(service),
            "annotations": {"kubectl.kubernetes.io/default-container": server.CONTAINER},
        },
        "spec": _pod_spec(service, facts),
    }
    if predictor.pod_template is not None:
        made = _patched(made, predictor.pod_template)
        # Whatever the patch says, the Deployment and the Services must find their pods.
        metadata = made.setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), **names.labels(service)}
    account = made.get("spec", {}).get("serviceAccountName")
    if account is not None:
        # The API server copies it into this old field, and from there back: unless it is ours, too, the account would outlive its removal.
        made["spec"] = {**made["spec"], "serviceAccount": account}
    return made


def _patched(made: Object, patch: Object) -> Object:
    """The template with the user's patch.

    Raises:
        InvalidSpec: the patch has another shape than a pod template.
    """
    here = "spec.predictor.podTemplate"
    for unknown in sorted(patch.keys() - made.keys()):
        said = (
            f"there is no such field: a pod template has metadata and spec, so write spec.{unknown}"
        )
        raise InvalidSpec([Problem(f"{here}.{unknown}", said)])
    try:
        return merge.strategic(made, patch)
    except merge.Misfit as misfit:
        raise InvalidSpec([Problem(f"{here}.{misfit.path}", misfit.message)]) from None


def _pod_spec(service: InferenceService, facts: ClusterFacts) -> Object:
    predictor = service.spec.predictor
    asked = accelerator.asked(service)
    mounted = _mounted(service)
    volumes, mounts = _volumes(service)
    spec: Object = {
        "automountServiceAccountToken": predictor.service_account_name is not None,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": server.stop(service.spec).grace,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(service, facts, mounted, mounts)],
        "volumes": [*volumes, *mounted.volumes],
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
    node_labels = {**asked.node_labels, **(predictor.node_selector or {})}
    if node_labels:
        spec["nodeSelector"] = node_labels
    tolerations = _tolerations(service, asked)
    if tolerations:
        spec["tolerations"] = tolerations
    if asked.claim_template:
        claim = {"name": accelerator.CLAIM, "resourceClaimTemplateName": asked.claim_template}
        spec["resourceClaims"] = [claim]
    return {**spec, **_placement(service)}


def _mounted(service: InferenceService) -> storage.Mounted:
    """The repositories as the server gets them: with their credentials, or fetched before it starts and without any."""
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
        "args": server.arguments(service.spec, mounted.repositories),
        **container.environment(service, mounted.env),
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in (
                ("http", predictor.ports.http),
                ("grpc", predictor.ports.grpc),
                ("metrics", predictor.ports.metrics),
            )
        ],
        "startupProbe": _probe(predictor.probes.startup, server.READY_PATH),
        "readinessProbe": _probe(predictor.probes.readiness, server.READY_PATH),
        "livenessProbe": _probe(predictor.probes.liveness, server.LIVE_PATH),
        "securityContext": container.hardened(),
        # The last words of a server that died become part of the pod's status, and from there of the service's.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*mounts, *mounted.mounts],
    }
    resources = _resources(service)
    if resources:
        made["resources"] = resources
    return made


def _probe(wanted: StartupProbe | ReadinessProbe | LivenessProbe, path: str) -> Object:
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "periodSeconds": wanted.period_seconds,
        "timeoutSeconds": wanted.timeout_seconds,
        "failureThreshold": wanted.failure_threshold,
    }


def _resources(service: InferenceService) -> Object:
    """Requests and limits; devices stand in the limits, from where the API server copies them."""
    asked = accelerator.asked(service)
    resources: Object = dict(container.amounts(service))
    if asked.resource:
        limits = {**resources.get("limits", {}), asked.resource: str(asked.count)}
        resources["limits"] = limits
    if asked.claim_template:
        resources["claims"] = [{"name": accelerator.CLAIM}]
    return resources


def _volumes(service: InferenceService) -> tuple[list[Object], list[Object]]:
    """What every server writes to, since its root is read-only; and the tokens."""
    predictor = service.spec.predictor
    cache = predictor.model.cache
    cache_volume: Object = {"emptyDir": {}}
    if cache is not None and cache.size is not None:
        cache_volume = {"emptyDir": {"sizeLimit": quantity.canonical(cache.size)}}
    elif cache is not None:
        cache_volume = {"persistentVolumeClaim": {"claimName": cache.claim_name}}
    memory = {"medium": "Memory", "sizeLimit": quantity.canonical(predictor.shared_memory)}
    volumes: list[Object] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": memory},
        {"name": "cache", **cache_volume},
    ]
    mounts: list[Object] = [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - as above
        {"name": "cache", "mountPath": server.CACHE_FOLDER},
    ]
    auth = service.spec.auth
    if auth is not None:
        items = [{"key": auth.token_key, "path": server.TOKEN_FILE}]
        secret = {"secretName": auth.token_secret, "items": items}
        volumes.append({"name": "auth", "secret": secret})
        # The whole folder: a file mounted by subPath would never see a new token.
        mounts.append({"name": "auth", "mountPath": server.TOKEN_FOLDER, "readOnly": True})
    return volumes, mounts


def _tolerations(service: InferenceService, asked: accelerator.Asked) -> list[Object]:
    given = service.spec.predictor.tolerations
    if given is None:
        nvidia = asked.claim_template or asked.resource.startswith("nvidia.com/")
        taint = {"key": accelerator.GPU, "operator": "Exists", "effect": "NoSchedule"}
        return [taint] if nvidia else []
    made = []
    for one in given:
        fields = {
            "key": one.key,
            "operator": one.operator,
            "value": one.value,
            "effect": one.effect,
            "tolerationSeconds": one.toleration_seconds,
        }
        made.append({name: value for name, value in fields.items() if value is not None})
    return made


def _placement(service: InferenceService) -> Object:
    """Affinity and topology spread."""
    predictor = service.spec.predictor
    pods = {"matchLabels": names.selector(service)}
    affinity: Object = dict(predictor.affinity or {})
    placed: Object = {}
    if predictor.placement == "onePerNode":
        ours = {"labelSelector": pods, "topologyKey": _HOSTNAME}
        affinity["podAntiAffinity"] = _with_term(affinity.get("podAntiAffinity") or {}, ours)
    elif predictor.topology_spread_constraints is not None:
        given = [dict(constraint) for constraint in predictor.topology_spread_constraints]
        placed["topologySpreadConstraints"] = given
    else:
        placed["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": pods,
            }
            for key in (_HOSTNAME, _ZONE)
        ]
    if affinity:
        placed["affinity"] = affinity
    return placed


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _with_term(given: typing.Any, ours: Object) -> Object:
    """The user's anti-affinity and one more required term.

    Raises:
        InvalidSpec: what the user wrote has another shape.
    """
    where = "spec.predictor.affinity.podAntiAffinity"
    if not isinstance(given, dict):
        raise InvalidSpec([Problem(where, f"is {given!r}: write a mapping")])
    required = given.get(_REQUIRED) or []
    if not isinstance(required, list):
        raise InvalidSpec([Problem(f"{where}.{_REQUIRED}", f"is {required!r}: write a list")])
    return {**given, _REQUIRED: [*required, ours]}
