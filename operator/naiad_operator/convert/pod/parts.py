"""The other parts of a Triton pod: volumes, probes, environment, placement, and how it stops."""

import math
import re
import typing

from naiad_operator.api.manifests.unvalidated import Fields, entries, part, texts
from naiad_operator.builders import server
from naiad_operator.convert.draft import Draft
from naiad_operator.convert.pod import devices, volumes
from naiad_operator.convert.references import DEFAULT_PORTS

SAME = (
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "serviceAccountName",
    "tolerations",
    "topologySpreadConstraints",
)
"""Fields of a pod that have the same name and meaning in a predictor."""
_PATCHED = ("dnsConfig", "dnsPolicy", "hostAliases", "schedulerName")
"""Fields of a pod that predictor.podTemplate takes as they are."""
_DROPPED = ("enableServiceLinks", "restartPolicy", "serviceAccount")
_OF_IMAGE = ("image", "imagePullPolicy", "name", "ports", "command", "args")
"""Fields of a container that the operator writes."""
_DEVICE_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
"""The probes of a container."""
_PERIOD_SECONDS = 10
_DEFAULT_FAILURES = 60
_SINGLE = re.compile(r"(.+)-MIG-([1-9][0-9]*g\.[0-9]+gb.*)")
_PRODUCT = "nvidia.com/gpu.product"
_SLEEP = re.compile(r"(?:^|\s)sleep\s+([0-9]+)s?\s*$")


def convert(draft: Draft) -> None:
    """Moves what a pod and its container have beside the server's arguments into the draft."""
    draft.predictor |= devices.taken(part(draft.container, "resources"))
    _environment(draft)
    volumes.convert(draft)
    _probes(draft)
    _stop(draft)
    _security(draft)
    _image(draft)
    _ports(draft)
    for field in _OF_IMAGE:
        draft.container.pop(field, None)
    account = draft.pod.get("serviceAccount")
    if account is not None:
        draft.pod.setdefault("serviceAccountName", account)
    for field in _DROPPED:
        draft.pod.pop(field, None)
    draft.predictor |= {field: draft.pod.pop(field) for field in SAME if draft.pod.get(field)}
    draft.template |= {field: draft.pod.pop(field) for field in _PATCHED if field in draft.pod}
    if "automountServiceAccountToken" in draft.pod:
        draft.predictor["automountServiceAccountToken"] = draft.pod.pop(
            "automountServiceAccountToken"
        )
    _single_strategy(draft)
    for field in ("affinity", "topologySpreadConstraints"):
        if "labelSelector" in repr(draft.predictor.get(field)):
            message = "its labelSelector names labels of the old pods: write those of the new ones, app.kubernetes.io/instance: NAME"
            draft.of_pod(field, message)


def _image(draft: Draft) -> None:
    """The image is another server's; when it has the models, `models_in_pods` says what becomes of it."""
    image, policy = draft.container.get("image"), draft.container.get("imagePullPolicy")
    if "image" in draft.predictor.get("model", {}):
        return
    if image is not None:
        message = f"{image} is another server's: the operator's default image is used; set predictor.image to choose one"
        draft.of_container("image", message)
    if policy not in (None, "IfNotPresent"):
        draft.server["imagePullPolicy"] = policy


def _environment(draft: Draft) -> None:
    variables = entries(draft.container, "env")
    for name in _DEVICE_VARIABLES:
        if any(one.get("name") == name for one in variables):
            draft.of_container(
                "env",
                f"left out: {name} passes by what Kubernetes assigned to the pod: predictor.accelerator requests devices",
            )
    kept = [one for one in variables if one.get("name") not in _DEVICE_VARIABLES]
    draft.container.pop("env", None)
    if any(one.get("name") == "LD_PRELOAD" for one in kept):
        draft.of_container(
            "env", "LD_PRELOAD names a library of the old image: leave it out unless yours has it"
        )
    if kept:
        draft.predictor["env"] = kept
    if draft.container.get("envFrom"):
        draft.predictor["envFrom"] = draft.container.pop("envFrom")


def _probes(draft: Draft) -> None:
    given = {name: part(draft.container.pop(name)) for name in PROBES if name in draft.container}
    if not given:
        return
    seconds = max(_allowed(one) for one in given.values())
    message = "left out: the operator writes startup, readiness and liveness itself; predictor.probes changes their times"
    if seconds > _PERIOD_SECONDS * _DEFAULT_FAILURES:
        failures = math.ceil(seconds / _PERIOD_SECONDS)
        draft.predictor["probes"] = {
            "startup": {"periodSeconds": _PERIOD_SECONDS, "failureThreshold": failures}
        }
        message += f" (the {seconds} seconds that models had to load are kept)"
    draft.of_container(next(iter(given)), message)


def _allowed(probe: Fields) -> int:
    """The seconds that a probe gives a container to start."""
    numbers = {"initialDelaySeconds": 0, "periodSeconds": 10, "failureThreshold": 3}
    delay, period, failures = (
        value if isinstance(value := probe.get(name), int) else default
        for name, default in numbers.items()
    )
    return delay + period * failures


def _stop(draft: Draft) -> None:
    """A preStop hook that sleeps is the drain; the grace period must be longer than the drain."""
    hook = part(draft.container, "lifecycle", "preStop")
    seconds = part(hook, "sleep").get("seconds")
    match = _SLEEP.search(" ".join(texts(part(hook, "exec"), "command")))
    if isinstance(seconds, int) or match:
        draft.predictor["drainSeconds"] = (
            seconds if isinstance(seconds, int) else int(match[1] if match else 0)
        )
        part(draft.container, "lifecycle").pop("preStop")
    drain = draft.predictor.get("drainSeconds", 10)
    grace = draft.pod.pop("terminationGracePeriodSeconds", None)
    of_flags = draft.predictor.get("terminationGracePeriodSeconds", 0)
    if not isinstance(grace, int):
        return
    if max(grace, of_flags) > drain + server.STOP_MARGIN_SECONDS:
        draft.predictor["terminationGracePeriodSeconds"] = max(grace, of_flags)
    else:
        draft.of_pod(
            "terminationGracePeriodSeconds",
            f"left out: {grace} seconds leave nothing for requests in flight after drainSeconds, {drain}: the default is 60",
        )


def _security(draft: Draft) -> None:
    """The operator's pods run as user 1000 with everything dropped; a pod that said the same says nothing."""
    for fields, report, patch in (
        (draft.pod, draft.of_pod, "spec.securityContext"),
        (draft.container, draft.of_container, "spec.containers, name: server"),
    ):
        context = part(fields.pop("securityContext", None))
        other = [key for key, value in context.items() if not _is_hardened(key, value)]
        if other:
            report(
                "securityContext",
                f"left out: {', '.join(other)}: the pods run as user 1000 under Pod Security restricted, with a read-only root; what the models need goes into predictor.podTemplate ({patch})",
            )


_HARDENED: dict[str, typing.Any] = {
    "allowPrivilegeEscalation": False, "fsGroupChangePolicy": "OnRootMismatch", "privileged": False, "readOnlyRootFilesystem": True,
    "runAsNonRoot": True, "runAsUser": server.USER, "runAsGroup": server.USER, "fsGroup": server.USER, "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip
"""The security of the operator's pods."""


def _is_hardened(field: str, value: typing.Any) -> bool:
    """Whether a field of a security context allows a pod no more than the operator's pods may."""
    if field == "capabilities":
        return not part({field: value}, field).get("add")
    return field == "fsGroupChangePolicy" or value == _HARDENED.get(field, ...)


def _ports(draft: Draft) -> None:
    """Ports that the server does not listen on, and ports of the node, which the operator's pods have none of."""
    opened = [
        str(one["hostPort"]) for one in entries(draft.container, "ports") if one.get("hostPort")
    ]
    numbers = {**DEFAULT_PORTS, **part(draft.predictor, "ports")}
    others = [
        str(one.get("containerPort"))
        for one in entries(draft.container, "ports")
        if one.get("containerPort") not in numbers.values()
    ]
    if others:
        listens = ", ".join(f"{number} ({role})" for role, number in numbers.items())
        message = f"left out: {', '.join(others)}: the server listens on {listens}: predictor.ports changes these"
        draft.of_container("ports", message)
    if opened:
        message = f"left out: hostPort {', '.join(opened)}: clients outside the cluster use spec.service (type: NodePort), spec.ingress or spec.gateway"
        draft.of_container("ports", message)


def _single_strategy(draft: Draft) -> None:
    """Under MIG's strategy single, nvidia.com/gpu is a slice, and only the node's product says of which profile."""
    selector = part(draft.predictor, "nodeSelector")
    match = _SINGLE.fullmatch(str(selector.get(_PRODUCT)))
    accelerator: typing.Any = draft.predictor["accelerator"]
    if match is None or accelerator.get("type") != "gpu" or "resourceName" in accelerator:
        return
    del selector[_PRODUCT]
    if not selector:
        del draft.predictor["nodeSelector"]
    draft.predictor["accelerator"] = {
        "type": "mig",
        "strategy": "single",
        "profile": match[2].replace("gb.", "gb+"),
        "product": match[1],
        "count": accelerator["count"],
    }
