"""The pod template: one server, hardened, watched by probes, with time to stop. `podTemplate` has the last word."""

import typing

from naiad_operator.api import quantity
from naiad_operator.api.pod import LivenessProbe, ReadinessProbe, StartupProbe
from naiad_operator.api.service import InferenceService
from naiad_operator.builders import accelerator, merge, names, server, storage
from naiad_operator.builders.facts import ClusterFacts

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
        made = merge.strategic(made, predictor.pod_template)
        # Whatever the patch says, the Deployment and the Services must find their pods.
        made.setdefault("metadata", {}).setdefault("labels", {}).update(names.labels(service))
    return made


def _pod_spec(service: InferenceService, facts: ClusterFacts) -> Object:
    predictor = service.spec.predictor
    asked = accelerator.asked(service)
    mounted = storage.mounted(predictor.model)
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
    if predictor.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": s.name} for s in predictor.image_pull_secrets]
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


def _container(
    service: InferenceService,
    facts: ClusterFacts,
    mounted: storage.Mounted,
    mounts: list[Object],
) -> Object:
    predictor = service.spec.predictor
    container: Object = {
        "name": server.CONTAINER,
        "image": facts.image,
        "command": list(server.COMMAND),
        "args": server.arguments(service.spec, mounted.repositories),
        "env": _environment(service, mounted),
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
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        # The last words of a server that died become part of the pod's status, and from there of the service's.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*mounts, *mounted.mounts],
    }
    if predictor.env_from:
        container["envFrom"] = [dict(source) for source in predictor.env_from]
    resources = _resources(service)
    if resources:
        container["resources"] = resources
    return container


def _environment(service: InferenceService, mounted: storage.Mounted) -> list[Object]:
    """Ours, then the user's, which win."""
    variables: dict[str, Object] = {
        "HOME": {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
        "XDG_CACHE_HOME": {"name": "XDG_CACHE_HOME", "value": server.CACHE_FOLDER},
    }
    variables.update((variable["name"], variable) for variable in mounted.env)
    for theirs in service.spec.predictor.env or ():
        variable: Object = {"name": theirs.name}
        if theirs.value_from is not None:
            variable["valueFrom"] = theirs.value_from
        elif theirs.value is not None:
            variable["value"] = theirs.value
        variables[theirs.name] = variable
    return list(variables.values())


def _probe(wanted: StartupProbe | ReadinessProbe | LivenessProbe, path: str) -> Object:
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "periodSeconds": wanted.period_seconds,
        "timeoutSeconds": wanted.timeout_seconds,
        "failureThreshold": wanted.failure_threshold,
    }


def _resources(service: InferenceService) -> Object:
    """Requests and limits; devices stand in the limits, from where the API server copies them."""
    predictor = service.spec.predictor
    asked = accelerator.asked(service)
    wanted = predictor.resources
    requests = dict((wanted.requests if wanted else None) or {})
    limits = dict((wanted.limits if wanted else None) or {})
    cache = predictor.model.cache
    if cache is not None and cache.size is not None:
        requests.setdefault("ephemeral-storage", cache.size)
    if asked.resource:
        limits[asked.resource] = asked.count
    resources: Object = {}
    if requests:
        resources["requests"] = _texts(requests)
    if limits:
        resources["limits"] = _texts(limits)
    if asked.claim_template:
        resources["claims"] = [{"name": accelerator.CLAIM}]
    return resources


def _texts(amounts: dict[str, int | str]) -> dict[str, str]:
    """As the API server stores them; in any other form they would look like a change for ever."""
    return {name: quantity.canonical(amount) for name, amount in amounts.items()}


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
        anti: Object = dict(affinity.get("podAntiAffinity") or {})
        ours = {"labelSelector": pods, "topologyKey": _HOSTNAME}
        required = anti.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        anti["requiredDuringSchedulingIgnoredDuringExecution"] = [*required, ours]
        affinity["podAntiAffinity"] = anti
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
