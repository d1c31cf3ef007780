"""Turns KServe's InferenceServices into Naiad's, and lists the fields that do not fit. Pure.

KServe's predictor is a pod's spec with further fields, and its triton or model a container, so the rules for pods of Triton hold for both.
"""

import collections.abc
import typing

from naiad_operator.api import names
from naiad_operator.api.manifests.unvalidated import Fields, entries, own_copy, part, texts
from naiad_operator.api.rules.spec import OWN_LABELS
from naiad_operator.convert import workload
from naiad_operator.convert.draft import Draft, left, outside
from naiad_operator.convert.kserve import components, models, runtimes, scaling, v1alpha2
from naiad_operator.convert.kserve.secrets import Manifests
from naiad_operator.convert.pod import parts, requirement_files
from naiad_operator.convert.references import DEFAULT_PORTS
from naiad_operator.errors import Problem

KSERVE_GROUPS = ("serving.kserve.io/", "serving.kubeflow.org/")
"""The second one is KServe's before it was renamed."""

_FRAMEWORKS = (
    "triton", "model", "huggingface", "lightgbm", "onnx", "paddle", "pmml", "pytorch", "sklearn", "tensorflow", "xgboost",
)  # fmt: skip
"""Fields of a predictor that are a container; the older ones than model name a framework."""
_STOP = "serving.kserve.io/stop"
_GKE = "serving.kserve.io/gke-accelerator"
_GKE_LABEL = "cloud.google.com/gke-accelerator"
"""The label of nodes that KServe requires for the annotation."""
_READ = frozenset((_STOP, _GKE, scaling.METRIC, scaling.TARGET, scaling.CLASS))
"""Annotations that have a counterpart."""
_OWN_DOMAINS = ("kserve.io", "kubeflow.org", "knative.dev")
_TOOLS = ("kubectl.kubernetes.io/", "meta.helm.sh/", "helm.sh/", "argocd.argoproj.io/")
_ADVICE = {
    "batcher": "the server batches itself: write dynamic_batching in config.pbtxt",
    "canary": "with a Gateway, write the other models or image and the weight in spec.canary",
    "canaryTrafficPercent": "with a Gateway, write the other models or image and the weight in spec.canary",
    "containerConcurrency": "the server queues requests: in config.pbtxt, instance_group says how many run at once, and max_queue_size in default_queue_policy how many may wait",
    "containers": "another container of the pod: write it in predictor.podTemplate.spec.containers",
    "hostIPC": "shared memory with other pods is not supported",
    "initContainers": "write it in predictor.podTemplate.spec.initContainers, if it does not fetch the models",
    "lifecycle": "write it in predictor.podTemplate, under spec.containers, name: server",
    "logger": "the server sends no copies of requests: --access-log in predictor.args logs each request without its tensors",
    "runtime": "no runtime is needed: see that predictor has the arguments, variables and resources that the runtime gives its container; with the runtime in the files, convert adds them",
    "runtimeVersion": "it names a version of another server: set predictor.image to choose Naiad's",
    "timeout": "the server ends no request by time: write default_queue_policy in config.pbtxt, or spec.ingress.readTimeoutSeconds",
    "workerSpec": "a service has no pods that work together: write accelerator.count for several GPUs in one pod",
}
_NO_COUNTERPART = "there is no such field in Naiad: leave it out, or write it in predictor.podTemplate when it is a field of pods"


def is_kserve(manifest: typing.Any) -> bool:
    """Whether a manifest is an InferenceService of KServe."""
    if not isinstance(manifest, dict) or manifest.get("kind") != names.KIND:
        return False
    return str(manifest.get("apiVersion")).startswith(KSERVE_GROUPS)


def convert(
    manifest: collections.abc.Mapping[str, typing.Any],
    others: Manifests = (),
    pod_template: str = "",
) -> tuple[Fields, list[Problem]]:
    """Naiad's InferenceService for KServe's, and what did not fit, by its path in the manifest.

    Args:
        manifest: an InferenceService of serving.kserve.io; it is not changed.
        others: the manifests of the same files, among them the Secrets of its store.
        pod_template: what the platform allows a podTemplate; "" when it is not known.
    """
    if v1alpha2.is_old(dict(manifest)):
        result, notes = _converted(v1alpha2.lifted(manifest), others, pod_template)
        return result, [v1alpha2.original(note) for note in notes]
    return _converted(own_copy(manifest), others, pod_template)


def _converted(rest: Fields, others: Manifests, pod_template: str) -> tuple[Fields, list[Problem]]:
    """The same for a manifest of v1beta1, which is changed."""
    metadata, predictor = part(rest, "metadata"), part(rest, "spec", "predictor")
    place = components.part_from_predictor(part(rest, "spec"))
    namespace = str(metadata.get("namespace") or "")
    container, field = _container(predictor, place)
    protocol = str(container.get("protocolVersion") or "")
    own = len(texts(container, "args"))
    merged = runtimes.merge(predictor, container, namespace, others)
    draft = Draft(
        pod=predictor,
        container=container,
        pod_path="spec.predictor",
        container_path=f"spec.predictor.{field}",
        of_runtime=len(texts(container, "args")) - own,
        pod_template=pod_template,
    )
    if merged:
        draft.of_container("runtime", merged)
    else:
        models.drop_other_arguments(draft)
    addresses, requirements = workload.arguments(draft)
    models.convert(addresses, namespace, others, draft)
    requirement_files.convert(requirements, addresses, draft)
    if draft.container_path.endswith(".model") and not container:
        _of_other_server(draft)
    _of_metadata(metadata, draft)
    for fields in (predictor, container):
        workload.drop_defaults(fields)
    of_service = {key: predictor.pop(key) for key in _SCALED if key in predictor}
    rolling = predictor.pop("deploymentStrategy", None)
    draft.predictor |= workload.strategy(part(rolling))
    parts.convert(draft)
    draft.predictor |= scaling.replicas(
        of_service, draft.predictor.get("resources", {}), metadata, draft.notes
    )
    if patched := draft.patched():
        draft.predictor.setdefault("podTemplate", {})["spec"] = patched
    draft.notes += left(container, draft.container_path, _ADVICE, workload.OF_CONTAINER)
    beside, notes = components.convert(part(rest, "spec"), protocol, namespace, others, _ADVICE)
    draft.spec |= beside
    draft.notes += notes if place is None else (components.parted(one, place) for one in notes)
    if place is not None:
        message = "became spec.transformer, with pods of its own: its number of pods and their scaling are in spec.transformer"
        draft.of_pod(f"containers[{place}]", message)
    draft.notes += left(part(rest, "spec"), "spec", _ADVICE, _NO_COUNTERPART)
    draft.notes += outside(rest)
    result = workload.result(rest, draft)
    labels = {
        key: value
        for key, value in part(result, "metadata", "labels").items()
        if not _is_of_kserve(key)
    }
    result["metadata"].pop("labels", None)
    result["metadata"] |= {"labels": labels} if labels else {}
    return result, draft.notes


_SCALED = (
    "minReplicas",
    "maxReplicas",
    "scaleMetric",
    "scaleTarget",
    "scaleMetricType",
    "autoScaling",
)


def _container(predictor: Fields, without: int | None) -> tuple[Fields, str]:
    """The server's container, taken out of the predictor, and its field.

    Args:
        predictor: KServe's.
        without: the place in the manifest of a container that was taken out before.
    """
    for field in _FRAMEWORKS:
        if isinstance(predictor.get(field), dict):
            found: Fields = predictor.pop(field)
            if field not in {"triton", "model"}:
                found.setdefault("modelFormat", {"name": field})
            return found, field
    containers = entries(predictor, "containers")
    for index, container in enumerate(containers):
        if workload.runs_triton(container):
            predictor["containers"].remove(container)
            return container, f"containers[{index + (without is not None and without <= index)}]"
    return {}, "model"


def _of_other_server(draft: Draft) -> None:
    """Reports the containers of a predictor without one that runs Triton."""
    if draft.pod.pop("containers", None):
        message = "none of them runs tritonserver: Naiad serves a model repository in their place: write model.storageUri"
        draft.of_pod("containers", message)


def _of_metadata(metadata: Fields, draft: Draft) -> None:
    """Labels and annotations, which KServe also gives to the pods."""
    name = metadata.get("name")
    ports = {**DEFAULT_PORTS, **part(draft.predictor, "ports")}
    message = f"clients find the service as {name}, ports {ports['http']} (HTTP) and {ports['grpc']} (gRPC), in place of {name}-predictor and of KServe's host, for which write spec.ingress or spec.gateway; where KServe has a Service {name} too, delete its InferenceService first"
    if name is not None:
        draft.notes.append(Problem("metadata.name", message))
    for field in ("labels", "annotations"):
        given = {**part(metadata, field), **part(draft.pod, field)}
        draft.pod.pop(field, None)
        kept = {key: value for key, value in given.items() if not _is_of_tools(key)}
        if kept:
            draft.spec[field] = kept
        dropped = [key for key in given if _is_of_kserve(key) and key not in _READ]
        scaling = [key for key in dropped if key.startswith(_SCALING)]
        others = [key for key in dropped if key not in scaling]
        for keys, reason in ((others, _NO_EFFECT), (scaling, _NO_KNATIVE)):
            if keys:
                where = "metadata" if any(key in part(metadata, field) for key in keys) else "spec.predictor"  # fmt: skip
                message = f"left out: {', '.join(keys)}: {reason}"
                draft.notes.append(Problem(f"{where}.{field}", message))
    annotations = part(metadata, "annotations")
    if str(annotations.get(_STOP)).lower() == "true":
        draft.spec["suspend"] = True
    if _GKE in annotations:
        selector = draft.pod.get("nodeSelector")
        draft.pod["nodeSelector"] = {**part(selector), _GKE_LABEL: annotations[_GKE]}


_SCALING = "autoscaling.knative.dev/"
_NO_EFFECT = "those of KServe and Knative have no effect here"
_NO_KNATIVE = "Knative does not scale the pods: write autoscaling.minReplicas and maxReplicas, and queueTimeMs or pendingRequests in place of a target"


def _is_of_kserve(key: str) -> bool:
    return key.partition("/")[0].endswith(_OWN_DOMAINS)


def _is_of_tools(key: str) -> bool:
    return _is_of_kserve(key) or key.startswith(_TOOLS) or key in OWN_LABELS
