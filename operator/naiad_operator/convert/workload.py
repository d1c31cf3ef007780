"""Turns a plain Triton Deployment, StatefulSet or Pod into an InferenceService, and lists what does not fit. Pure."""

import collections.abc
import typing

from naiad_operator.api import names
from naiad_operator.api.manifests.unvalidated import Fields, entries, own_copy, part, texts
from naiad_operator.api.rules.spec import OWN_LABELS
from naiad_operator.builders import names as own_names
from naiad_operator.convert.draft import Draft, left, outside
from naiad_operator.convert.pod import command_line, flags, parts, repositories, requirement_files
from naiad_operator.errors import Problem

KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Pod")
_WORDS = ("tritonserver", "--model-repository", "--model-store")
_OTHER_SERVER = "torchserve"
"""A server that has an option --model-store as well."""
_CLIENTS = "-sdk"
"""The end of the tags of Triton's images with clients, e.g. perf_analyzer."""
_HELM = ("helm.sh/", "app.kubernetes.io/managed-by", "meta.helm.sh/")
_TOOLS = ("kubectl.kubernetes.io/", "deployment.kubernetes.io/", "meta.helm.sh/", "helm.sh/")
_PROMETHEUS = "prometheus.io/"
_NOT_REPORTED = (
    "podManagementPolicy",
    "selector",
    "serviceName",
    "strategy",
    "template",
    "updateStrategy",
    "volumeClaimTemplates",
)
"""Fields of a workload that are read elsewhere, or have no meaning for a service."""

_DEFAULTS = {
    "progressDeadlineSeconds": 600,
    "revisionHistoryLimit": 10,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
"""Values that the API server fills in, so that they say nothing."""
_DEFAULT_SHARE = "25%"
"""Of a rolling update, likewise. Beside GPUs it would need a free one, so the operator's default counts."""

_ADVICE = {
    "containers": "another container of the pod: write it in predictor.podTemplate.spec.containers",
    "hostIPC": "shared memory with other pods is not supported",
    "initContainers": "write it in predictor.podTemplate.spec.initContainers, if it does not fill the repository",
    "lifecycle": "write it in predictor.podTemplate, under spec.containers, name: server",
    "minReadySeconds": "there is no such field: predictor.probes.readiness says when a pod gets requests",
    "progressDeadlineSeconds": "it follows from predictor.probes.startup",
    "claims": "write accelerator.strategy: dra, with which each pod gets a claim",
    "resourceClaims": "write accelerator.strategy: dra, with which each pod gets a claim",
    "revisionHistoryLimit": "the operator keeps what it needs",
    "status": "the operator writes it",
    "volumeClaimTemplates": "pods have no claims that outlive them: what the server mounts, except its repository, became an ephemeral volume in predictor.podTemplate; make one claim for predictor.model.cache, or write pvc://CLAIM/path",
}
_SECOND = "another server of the pod: make a Deployment of its own of it, and convert that too"
OF_CONTAINER = (
    "write it in predictor.podTemplate, under spec.containers, name: server, or leave it out"
)
"""What to do with a field of the server's container that no rule takes."""
_OF_POD = "write it in predictor.podTemplate.spec, or leave it out"
_OTHERWISE = "there is no such field in Naiad: leave it out"


def server_container(manifest: typing.Any) -> int | None:
    """The position of the container that runs Triton; None in an object that has none, or that another object or this operator makes."""
    if not isinstance(manifest, dict) or manifest.get("kind") not in KINDS:
        return None
    labels = part(manifest, "metadata", "labels")
    if owner(manifest):
        return None
    if labels.get(own_names.MANAGED_BY_LABEL) == own_names.MANAGED_BY:
        return None
    containers = pod_of(manifest).get("containers")
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        if isinstance(container, dict) and runs_triton(container):
            return index
    return None


def has_triton(manifest: Fields) -> bool:
    """Whether an object of another kind has a template of pods that run Triton."""
    pod = part(manifest, "spec", "template", "spec")
    return manifest.get("kind") not in KINDS and any(
        runs_triton(one) for one in entries(pod, "containers")
    )


def owner(manifest: typing.Any) -> str:
    """The object that an object is made by, which is converted in its place; "" for none."""
    for reference in entries(part(manifest, "metadata"), "ownerReferences"):
        return f"{reference.get('kind')} {reference.get('name')}"
    return ""


def runs_triton(container: Fields) -> bool:
    """Whether a container runs Triton's server, by its image or its words."""
    image = str(container.get("image")).partition("@")[0]
    named = "" if image.endswith(_CLIENTS) else image
    text = " ".join([named, *_words(container)])
    if _OTHER_SERVER in text:
        return False
    return any(word in text for word in _WORDS) or ("triton" in named and _is_probed(container))


def _is_probed(container: Fields) -> bool:
    """Whether the kubelet asks a container for the health of Triton, as it does of one that a script of its own starts."""
    probes = (part(container, name, "httpGet") for name in parts.PROBES)
    return any(str(one.get("path")).startswith("/v2/health/") for one in probes)


def _words(container: Fields) -> list[str]:
    return [*texts(container, "command"), *texts(container, "args")]


def pod_of(manifest: Fields) -> Fields:
    """The pod's spec in an object of `KINDS`."""
    return (
        part(manifest, "spec")
        if manifest["kind"] == "Pod"
        else part(manifest, "spec", "template", "spec")
    )


def convert(manifest: collections.abc.Mapping[str, typing.Any], pod_template: str = "") -> Draft:
    """What becomes of an object with a Triton container.

    Args:
        manifest: the object, which is not changed; `server_container` finds a container in it.
        pod_template: what the platform allows a podTemplate; "" when it is not known.
    """
    rest = own_copy(manifest)
    index = server_container(rest)
    assert index is not None
    is_pod = rest["kind"] == "Pod"
    pod_path = "spec" if is_pod else "spec.template.spec"
    pod = pod_of(rest)
    container = pod["containers"].pop(index)
    for fields in (part(rest, "spec"), pod, container):
        drop_defaults(fields)
    _claims_per_pod(rest, pod)
    draft = Draft(
        pod=pod,
        container=container,
        pod_path=pod_path,
        container_path=f"{pod_path}.containers[{index}]",
        pod_template=pod_template,
    )
    _of_container(draft)
    parts.convert(draft)
    template = part(rest, "metadata") if is_pod else part(rest, "spec", "template", "metadata")
    _of_template_metadata(template, rest, draft)
    _of_workload(rest, draft)
    if patched := draft.patched():
        draft.predictor.setdefault("podTemplate", {})["spec"] = patched
    others = pod.pop("containers")
    draft.notes += [
        Problem(
            f"{pod_path}.containers[{number + (number >= index)}]",
            f"not converted: {one.get('name')}: {_SECOND if runs_triton(one) else _ADVICE['containers']}",
        )
        for number, one in enumerate(others)
        if isinstance(one, dict) and one
    ]
    for number, one in enumerate(entries(pod, "initContainers")):
        if one:
            draft.notes.append(
                Problem(
                    f"{pod_path}.initContainers[{number}]",
                    f"not converted: {one.get('name')}: {_ADVICE['initContainers']}",
                )
            )
    pod.pop("initContainers", None)
    draft.notes += left(container, draft.container_path, _ADVICE, OF_CONTAINER)
    draft.notes += left(pod, pod_path, _ADVICE, _OF_POD)
    draft.notes += outside(rest)
    return draft


def _claims_per_pod(rest: Fields, pod: Fields) -> None:
    """Writes the claims that a StatefulSet makes per pod as volumes that a pod makes itself."""
    for template in entries(part(rest, "spec"), "volumeClaimTemplates"):
        name = part(template, "metadata").get("name")
        claim = {"volumeClaimTemplate": {"spec": part(template, "spec")}}
        pod["volumes"] = [*entries(pod, "volumes"), {"name": name, "ephemeral": claim}]


def drop_defaults(fields: Fields) -> None:
    """Removes what the API server fills in."""
    for name, value in _DEFAULTS.items():
        if fields.get(name) == value:
            del fields[name]


def metadata(manifest: collections.abc.Mapping[str, typing.Any]) -> Fields:
    """The metadata of the service: the name, the namespace and the labels that are not Helm's."""
    given = part(manifest, "metadata")
    made: Fields = {key: given[key] for key in ("name", "namespace") if key in given}
    labels = {
        key: value for key, value in part(given, "labels").items() if not key.startswith(_HELM)
    }
    return made | ({"labels": labels} if labels else {})


def result(manifest: collections.abc.Mapping[str, typing.Any], draft: Draft) -> Fields:
    """The InferenceService of a draft, with its fields in the usual order."""
    first = ("model", "args", "env", "envFrom", "ports", "accelerator", "resources")
    predictor = {
        key: draft.predictor[key] for key in (*first, *draft.predictor) if key in draft.predictor
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": metadata(manifest),
        "spec": {"predictor": predictor, **draft.spec},
    }


def _of_container(draft: Draft) -> None:
    addresses, requirements = arguments(draft)
    repositories.convert(addresses, draft)
    requirement_files.convert(requirements, addresses, draft)


def arguments(draft: Draft) -> tuple[list[str], list[str]]:
    """Moves what the container's command and args say into the draft; what does not fit is reported.

    Returns:
        The values of --model-repository, and the Python packages that a script installs first.
    """
    known = [str(one.get("name")) for one in entries(draft.container, "env")]
    started = command_line.read(_words(draft.container), known)
    field = "args" if draft.container.get("args") else "command"
    commands, start = len(texts(draft.container, "command")), started.start

    def path(position: int) -> str:
        if start is None:
            return field
        index = start + position
        if index < commands:
            return f"command[{index}]"
        own = index - commands - draft.of_runtime
        return f"args[{own}]" if own >= 0 else "runtime"

    draft.argument_path = path
    for name in ("command", "args", "env"):
        value = draft.container.get(name)
        if value is not None and not isinstance(value, list):
            draft.of_container(name, f"left out: {value}: write a list, as Kubernetes takes it")
    for other in started.others:
        draft.of_container(field, f"left out: {other}")
    if started.variables:
        own = [{"name": name, "value": value} for name, value in started.variables.items()]
        draft.container["env"] = [
            *(
                one
                for one in entries(draft.container, "env")
                if str(one.get("name")) not in started.variables
            ),
            *own,
        ]
    addresses = flags.convert(started.arguments or (), draft)
    return addresses, list(dict.fromkeys(started.requirements))


def _of_workload(rest: Fields, draft: Draft) -> None:
    """The fields around the pod's template."""
    kind = rest["kind"]
    name = part(rest, "metadata").get("name")
    both = "this Deployment and its Service" if kind == "Deployment" else "a Service of this name"
    message = f"the operator's Deployment and Service will be called {name} as well: delete {both} first, or write another name to run both"
    draft.notes.append(Problem("metadata.name", message))
    if kind == "Pod":  # its annotations are those of the pods
        return
    others = [key for key in part(rest, "metadata", "annotations") if not key.startswith(_TOOLS)]
    if others:
        message = f"left out: {', '.join(others)}: they are the old {kind}'s: write those that tools need in spec.annotations"
        draft.notes.append(Problem("metadata.annotations", message))
    spec = part(rest, "spec")
    if kind == "DaemonSet":
        draft.predictor |= {"placement": "onePerNode", "replicas": 1}
        draft.notes.append(
            Problem(
                "kind",
                "a service has a number of pods, not one per node: write the number of nodes in predictor.replicas; placement: onePerNode spreads them",
            )
        )
    if "replicas" in spec:
        draft.predictor.setdefault("replicas", spec.pop("replicas"))
    if kind == "Deployment":
        draft.predictor |= strategy(part(spec, "strategy"))
    if kind == "StatefulSet":
        _of_stateful_set(spec, draft)
    if entries(spec, "volumeClaimTemplates"):
        draft.notes.append(Problem("spec.volumeClaimTemplates", _ADVICE["volumeClaimTemplates"]))
    remaining = {key: value for key, value in spec.items() if key not in _NOT_REPORTED}
    draft.notes += left(remaining, "spec", _ADVICE, _OTHERWISE)


def _of_stateful_set(spec: Fields, draft: Draft) -> None:
    """What pods with names of their own have, and those of a Deployment have not."""
    if spec.get("serviceName"):
        message = f"left out: {spec['serviceName']}: pods have no names of their own: clients use the service, or each pod's address from the Service that service.headless: true makes"
        draft.notes.append(Problem("spec.serviceName", message))
    update = part(spec, "updateStrategy")
    if update.get("type") == "OnDelete" or part(update, "rollingUpdate").get("partition"):
        message = "left out: pods are replaced step by step when something changes: predictor.deploymentStrategy says how many at once"
        draft.notes.append(Problem("spec.updateStrategy", message))


def strategy(given: Fields) -> Fields:
    """The field deploymentStrategy; nothing for what the API server fills in."""
    rolling = part(given, "rollingUpdate")
    shares = {
        key: int(value) if isinstance(value := rolling[key], str) and value.isdecimal() else value
        for key in rolling
        if key in {"maxSurge", "maxUnavailable"}
    }
    is_default = all(value == _DEFAULT_SHARE for value in shares.values())
    if not given or (given.get("type") == "RollingUpdate" and is_default):
        return {}
    kind = {"type": given["type"]} if "type" in given else {}
    return {"deploymentStrategy": {**kind, **shares}}


def _of_template_metadata(template: Fields, rest: Fields, draft: Draft) -> None:
    """Labels and annotations of the pods, without those by which the old Service and Deployment find them."""
    path = "metadata" if rest["kind"] == "Pod" else "spec.template.metadata"
    annotations = part(template, "annotations")
    scraped = [key for key in annotations if key.startswith(_PROMETHEUS)]
    if scraped:
        draft.notes.append(
            Problem(
                f"{path}.annotations",
                f"left out: {', '.join(scraped)}: write spec.monitoring.podMonitor: true, or the annotations in predictor.podTemplate.metadata",
            )
        )
    kept = {
        key: value
        for key, value in annotations.items()
        if key not in scraped and not key.startswith(("kubectl.kubernetes.io/", "checksum/"))
    }
    labels = {
        key: value
        for key, value in part(template, "labels").items()
        if key not in _OF_CONTROLLERS and key not in OWN_LABELS
    }
    own = {key: value for key, value in labels.items() if "azure.workload.identity" in key}
    others = {key: value for key, value in labels.items() if key not in own}
    if others:
        draft.spec["labels"] = others
        message = f"became spec.labels: {', '.join(others)}: what selects the old pods by them (Services, disruption budgets, network policies) finds the new ones as well: delete the Services and the budgets first"
        draft.notes.append(Problem(f"{path}.labels", message))
    dropped = [key for key in part(template, "labels") if key in OWN_LABELS]
    if dropped:
        message = f"left out: {', '.join(dropped)}: the operator writes them itself, with the name of the service as app.kubernetes.io/instance"
        draft.notes.append(Problem(f"{path}.labels", message))
    made = {key: value for key, value in (("labels", own), ("annotations", kept)) if value}
    if made:
        draft.predictor["podTemplate"] = {"metadata": made}


_OF_CONTROLLERS = (
    "controller-revision-hash",
    "pod-template-generation",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "helm.sh/chart",
)
"""Labels that other controllers write."""
