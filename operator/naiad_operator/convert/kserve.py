"""Turns KServe's InferenceServices into Naiad's, and lists the fields that do not fit. Pure.

KServe's predictor is a pod's spec with further fields, and its triton or model a container, so the rules for pods of Triton hold for both.
"""

import collections.abc
import copy
import typing

from naiad_operator.api import names, store_address
from naiad_operator.api.manifests.unvalidated import Fields, entries, part
from naiad_operator.api.rules.spec import OWN_LABELS
from naiad_operator.convert import kserve_scaling, pods, repositories, workload
from naiad_operator.convert.draft import Draft, left
from naiad_operator.convert.references import DEFAULT_PORTS
from naiad_operator.errors import Problem

KSERVE_GROUPS = ("serving.kserve.io/", "serving.kubeflow.org/v1beta1")
"""The second one is KServe's before it was renamed."""

_FRAMEWORKS = (
    "triton", "model", "huggingface", "lightgbm", "onnx", "paddle", "pmml", "pytorch", "sklearn", "tensorflow", "xgboost",
)  # fmt: skip
"""Fields of a predictor that are a container; the older ones than model name a framework."""
_STOP = "serving.kserve.io/stop"
_READ = frozenset((_STOP, kserve_scaling.METRIC, kserve_scaling.TARGET))
"""Annotations that have a counterpart."""
_OWN_DOMAINS = ("kserve.io", "kubeflow.org", "knative.dev")
_TOOLS = ("kubectl.kubernetes.io/", "meta.helm.sh/", "helm.sh/", "argocd.argoproj.io/")
_MOUNT = "/mnt/models"
"""Where KServe puts the models of storageUri."""

_ADVICE = {
    "autoScaling": "write predictor.autoscaling",
    "batcher": "the server batches itself: write dynamic_batching in config.pbtxt",
    "canaryTrafficPercent": "with a Gateway, write the other models or image and the weight in spec.canary",
    "containerConcurrency": "the server queues requests: set max_queue_delay or queue limits in config.pbtxt",
    "containers": "another container of the pod: write it in predictor.podTemplate.spec.containers",
    "explainer": "there is no such component: write an ensemble or a Python model with BLS",
    "hostIPC": "shared memory with other pods is not supported",
    "initContainers": "write it in predictor.podTemplate.spec.initContainers, if it does not fetch the models",
    "lifecycle": "write it in predictor.podTemplate, under spec.containers, name: server",
    "logger": "the server sends no copies of requests: --access-log in predictor.args logs each request without its tensors",
    "runtime": "no runtime is needed: see that predictor has the arguments, variables and resources that the runtime gives its container",
    "runtimeVersion": "it names a version of another server: set predictor.image to choose Naiad's",
    "storage": "its Secret says the bucket and the endpoint: write model.storageUri, and the Secret's name in model.storage.secretName",
    "storageUris": "write model.repositories, one storageUri per repository",
    "timeout": "the server ends no request by time: write default_queue_policy in config.pbtxt, or spec.ingress.readTimeoutSeconds",
    "transformer": "write an ensemble or a Python model with BLS",
    "workerSpec": "a service has no pods that work together: write accelerator.count for several GPUs in one pod",
}
_NO_COUNTERPART = "there is no such field in Naiad: leave it out, or write it in predictor.podTemplate when it is a field of pods"


def is_kserve(manifest: typing.Any) -> bool:
    """Whether a manifest is an InferenceService of KServe."""
    if not isinstance(manifest, dict) or manifest.get("kind") != names.KIND:
        return False
    return str(manifest.get("apiVersion")).startswith(KSERVE_GROUPS)


def convert(manifest: collections.abc.Mapping[str, typing.Any]) -> tuple[Fields, list[Problem]]:
    """Naiad's InferenceService for KServe's, and what did not fit, by its path in the manifest.

    Args:
        manifest: an InferenceService of serving.kserve.io; it is not changed.
    """
    rest = copy.deepcopy(dict(manifest))
    metadata, predictor = part(rest, "metadata"), part(rest, "spec", "predictor")
    container, field = _container(predictor)
    draft = Draft(
        pod=predictor,
        container=container,
        pod_path="spec.predictor",
        container_path=f"spec.predictor.{field}",
    )
    _of_container(draft)
    if draft.container_path.endswith(".model") and not container:
        _of_other_server(draft)
    _of_metadata(metadata, draft)
    for fields in (predictor, container):
        workload.drop_defaults(fields)
    of_service = {key: predictor.pop(key) for key in _SCALED if key in predictor}
    rolling = predictor.pop("deploymentStrategy", None)
    draft.predictor |= workload.strategy(part(rolling))
    pods.convert(draft)
    draft.predictor |= kserve_scaling.replicas(
        of_service, draft.predictor.get("resources", {}), metadata, draft.notes
    )
    if draft.mounts:
        draft.template["containers"] = [{"name": "server", "volumeMounts": draft.mounts}]
    if draft.template:
        draft.predictor.setdefault("podTemplate", {})["spec"] = draft.template
    if container.get("protocolVersion") in {"v2", "grpc-v2"}:
        del container["protocolVersion"]
    draft.notes += left(container, draft.container_path, _ADVICE, _NO_COUNTERPART)
    draft.notes += left(part(rest, "spec"), "spec", _ADVICE, _NO_COUNTERPART)
    return workload.result(manifest, draft), draft.notes


_SCALED = ("minReplicas", "maxReplicas", "scaleMetric", "scaleTarget")


def _container(predictor: Fields) -> tuple[Fields, str]:
    """The server's container, taken out of the predictor, and its field."""
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
            return container, f"containers[{index}]"
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
        if dropped:
            message = (
                f"left out: {', '.join(dropped)}: those of KServe and Knative have no effect here"
            )
            where = "metadata" if any(key in part(metadata, field) for key in dropped) else "spec.predictor"  # fmt: skip
            draft.notes.append(Problem(f"{where}.{field}", message))
    if str(part(metadata, "annotations").get(_STOP)).lower() == "true":
        draft.spec["suspend"] = True


def _is_of_kserve(key: str) -> bool:
    return key.partition("/")[0].endswith(_OWN_DOMAINS)


def _is_of_tools(key: str) -> bool:
    return _is_of_kserve(key) or key.startswith(_TOOLS) or key in OWN_LABELS


def _of_container(draft: Draft) -> None:
    """The models and the arguments of the server's container."""
    container, where = draft.container, draft.container_path
    model_format = part(container, "modelFormat").get("name")
    container.pop("modelFormat", None)
    if model_format not in {None, "triton"}:
        message = f"{model_format!r} does not say a server here: storageUri must be a folder with one folder per model, NAME/1/FILE"
        draft.of_container("modelFormat", message)
    if "containers[" in where:
        _storage_variable(container)
    addresses, requirements = workload.arguments(draft)
    uri = container.pop("storageUri", None)
    model: Fields = draft.predictor.setdefault("model", {})
    if isinstance(uri, str):
        store = store_address.converted(uri)
        problem = store_address.problem(store.uri if store is not None else uri)
        if store is not None and not problem:
            model |= store.fields
            _of_account(store.uri, draft)
        else:
            draft.of_container("storageUri", problem)
        for address in addresses:
            if address.rstrip("/") != _MOUNT:
                message = f"left out: --model-repository={address}: model.storageUri is the repository; write the folder in it, if it is another one than {_MOUNT}"
                draft.of_container("args", message)
    elif "storage" in container or "storageUris" in container:
        pass  # listed with what no rule takes
    elif addresses:
        repositories.convert(addresses, draft)
    if requirements:
        model["pythonRequirements"] = requirements


def _storage_variable(container: Fields) -> None:
    """A container of one's own gets its models by a variable."""
    for variable in entries(container, "env"):
        if variable.get("name") == "STORAGE_URI" and isinstance(variable.get("value"), str):
            container["env"].remove(variable)
            container["storageUri"] = variable["value"]
            return


def _of_account(uri: str, draft: Draft) -> None:
    """KServe reads a store with the Secrets that are attached to the ServiceAccount."""
    account = draft.pod.get("serviceAccountName")
    scheme = uri.partition("://")[0]
    if account is not None and scheme != "pvc":
        message = f"KServe also reads the store with the Secrets of ServiceAccount {account}, which has no effect here: unless {account} is an identity of the cloud, write its Secret in model.storage.secretName, and its endpoint annotation in model.storage.endpoint"
        draft.of_pod("serviceAccountName", message)
