"""Turns KServe's InferenceServices into Naiad's, and lists the fields that do not fit. Pure."""

import collections.abc
import copy
import typing

from naiad_operator.api import names, store_address
from naiad_operator.api.manifests.unvalidated import Fields, part
from naiad_operator.convert import devices, pods
from naiad_operator.convert.draft import left
from naiad_operator.errors import Problem

KSERVE_GROUPS = ("serving.kserve.io/", "serving.kubeflow.org/v1beta1")
"""The second one is KServe's before it was renamed."""

_SAME = (*pods.SAME, "terminationGracePeriodSeconds")
"""Fields of KServe's predictor that have the same name and meaning here."""

_ADVICE = {
    "annotations": "write those that pods need in spec.annotations; those of KServe and Knative have no effect here",
    "canaryTrafficPercent": "with a Gateway, write the other models or image and the weight in spec.canary",
    "containerConcurrency": "the server queues requests: set max_queue_delay or queue limits in config.pbtxt",
    "batcher": "the server batches itself: write dynamic_batching in config.pbtxt",
    "runtimeVersion": "it names a version of another server: set predictor.image to choose Naiad's",
    "image": "another server's image: set predictor.image to choose Naiad's",
    "storage": "write model.storageUri, and the Secret's name in model.storage.secretName",
    "transformer": "write an ensemble or a Python model with BLS",
    "volumeMounts": "write the mount in predictor.podTemplate",
    "volumes": "write the volume in predictor.podTemplate",
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
    notes: list[Problem] = []
    for field in ("apiVersion", "kind", "status"):
        rest.pop(field, None)
    source = part(rest, "metadata")
    metadata = {key: source.pop(key) for key in ("name", "namespace", "labels") if key in source}
    rest["metadata"] = {
        key: value for key, value in source.items() if key == "annotations" and value
    }
    predictor = part(part(rest, "spec"), "predictor")
    kind = next((key for key in ("triton", "model") if isinstance(predictor.get(key), dict)), "")
    container = part(predictor, kind) if kind else {}
    path = f"spec.predictor.{kind}"
    result: Fields = {"model": _model(container, path, notes)}
    result |= devices.taken(part(container, "resources"))
    result |= {key: container.pop(key) for key in ("args", "env", "envFrom") if key in container}
    result |= {key: predictor.pop(key) for key in _SAME if key in predictor}
    result |= _replicas(predictor, part(result, "resources"), notes)
    if container.get("protocolVersion") in {"v2", "grpc-v2"}:
        del container["protocolVersion"]
    if container.get("name") == "kserve-container":
        del container["name"]
    notes += left(rest, "", _ADVICE, _NO_COUNTERPART)
    converted = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": metadata,
        "spec": {"predictor": result},
    }
    return converted, notes


def _model(container: Fields, path: str, notes: list[Problem]) -> Fields:
    uri = container.get("storageUri")
    model_format = part(container, "modelFormat").get("name")
    if model_format == "triton":
        del container["modelFormat"]
    elif model_format is not None:
        message = f"{model_format!r} does not say a server here: storageUri must be a folder with one folder per model, NAME/1/FILE"
        notes.append(Problem(f"{path}.modelFormat", message))
        del container["modelFormat"]
    if not isinstance(uri, str):
        return {}
    del container["storageUri"]
    store = store_address.converted(uri)
    problem = store_address.problem(store.uri if store is not None else uri)
    if store is not None and not problem:
        return store.fields
    notes.append(Problem(f"{path}.storageUri", problem))
    return {}


def _replicas(predictor: Fields, resources: Fields, notes: list[Problem]) -> Fields:
    """The number of pods: KServe scales when maxReplicas is above minReplicas, whose default is 1."""
    low, high = predictor.get("minReplicas", 1), predictor.get("maxReplicas", 0)
    if not isinstance(low, int) or not isinstance(high, int):
        return {}
    predictor.pop("minReplicas", None)
    predictor.pop("maxReplicas", None)
    if low == 0:
        low = 1
        message = "became 1: for no pods without requests, write autoscaling.class: keda and minReplicas: 0 (docs/operator.md)"
        notes.append(Problem("spec.predictor.minReplicas", message))
    if high <= low:
        message = f"left out: maxReplicas is not above minReplicas, so that nothing scales: the number of pods is {low}"
        unused = [
            field
            for field in ("scaleMetric", "scaleTarget")
            if predictor.pop(field, None) is not None
        ]
        notes += [Problem(f"spec.predictor.{field}", message) for field in unused]
        return {"replicas": low}
    metric = predictor.pop("scaleMetric", None)
    given = predictor.pop("scaleTarget", None)
    name = metric if metric in {"cpu", "memory"} else "cpu"
    target = given if given is not None and name == metric else 80
    if name != metric:
        message = f"the pods scale by {target} % CPU of resources.requests[cpu]{_other_metric(metric, given)}"
        field = "maxReplicas" if metric is None else "scaleMetric"
        notes.append(Problem(f"spec.predictor.{field}", message))
    if not _is_requested(name, resources):
        message = f"the autoscaler computes a share of resources.requests[{name}], which is not set: write it, e.g. {_AMOUNTS[name]}"
        notes.append(Problem("spec.predictor.maxReplicas", message))
    utilization = {"type": "Utilization", "averageUtilization": target}
    resource = {"type": "Resource", "resource": {"name": name, "target": utilization}}
    scaling = {"class": "hpa", "minReplicas": low, "maxReplicas": high, "metrics": [resource]}
    return {"autoscaling": scaling}


_AMOUNTS = {"cpu": '"2"', "memory": "4Gi"}


def _is_requested(name: str, resources: Fields) -> bool:
    return any(name in part(resources, field) for field in ("requests", "limits"))


def _other_metric(metric: typing.Any, target: typing.Any) -> str:
    """What to write in place of a metric that has no counterpart."""
    number = target if isinstance(target, int) else 10
    match metric:
        case "concurrency":
            return (
                f": concurrency counted the requests in flight per pod; autoscaling.pendingRequests: {number} counts those that wait for an instance, and "
                "queueTimeMs: 10 how long they wait, which fits batching"
            )
        case "rps":
            return (
                f": for {number} requests per second and pod write autoscaling.class: keda and a trigger: {{type: prometheus, metadata: {{threshold: "
                f'"{number}", query: sum(rate(nv_inference_request_success{{pod=~"NAME-.*"}}[1m]))}}}}; queueTimeMs: 10 needs no number per model'
            )
        case None:
            return ": autoscaling.queueTimeMs: 10 scales by the time that requests wait for an instance"
        case _:
            return f": {metric} is not a metric of KServe that is known here; autoscaling.queueTimeMs: 10 scales by the time that requests wait"
