"""Why an object gives no service, and what to do with it. Pure."""

from naiad_operator.api import names
from naiad_operator.api.manifests.unvalidated import Fields, part
from naiad_operator.convert import companions, workload

_RUNTIME = "no runtime is needed: what a runtime of Triton gives to the containers is in the services that name it"
_LANGUAGE_MODELS = "it is a server of vLLM's own: write a model with backend vllm (docs/language-models.md), and an InferenceService for its repository"
_SELECTS = (
    "it stays, with the label of the new pods in its selector: app.kubernetes.io/instance: NAME"
)
_ENDS = "its pods end, so that they are not a service: it stays as it is"
_STAYS = {
    "PersistentVolumeClaim": "it stays as it is, and the service mounts it by its name",
    "ConfigMap": "it stays as it is",
    "Secret": "it stays as it is: services refer to it by its name",
    "ServiceAccount": "it stays as it is",
    "Namespace": "it stays as it is",
    "ServingRuntime": _RUNTIME,
    "HTTPRoute": "write its Gateways and hosts in spec.gateway",
    "GRPCRoute": "write its Gateways and hosts in spec.gateway",
    "IngressRoute": "write its hosts in spec.ingress or spec.gateway",
    "VirtualService": "write its hosts in spec.ingress or spec.gateway",
    "NetworkPolicy": "write it in spec.networkPolicy",
    "PersistentVolume": "it stays as it is",
    "Role": "it stays as it is",
    "RoleBinding": "it stays as it is",
    "ClusterRole": "it stays as it is",
    "ClusterRoleBinding": "it stays as it is",
    "PrometheusRule": "it stays as it is: see that its queries count the new pods, which have other labels and names",
    "LLMInferenceService": _LANGUAGE_MODELS,
    "LLMInferenceServiceConfig": _LANGUAGE_MODELS,
    "InferenceGraph": "there is no such object: write a Python model that calls the others (docs/bls.md)",
    "LeaderWorkerSet": "a service has no pods that work together: write accelerator.count for several GPUs in one pod",
    "Job": _ENDS,
    "CronJob": _ENDS,
    "Kustomization": "render it first (kubectl kustomize FOLDER), and convert what comes out",
    "PodMonitoring": _SELECTS,
    "DestinationRule": "it stays, with the name of the service in its host",
    "VerticalPodAutoscaler": "write the requests that it recommends in predictor.resources",
    "ClusterServingRuntime": _RUNTIME,
}


def title(kind: object, name: object) -> str:
    """An object as messages name it, also one without a kind or a name."""
    shown = str(kind) if kind else "an object without a kind"
    return f"{shown} {name}" if name else shown if not kind else f"{shown} without a name"


def reason(value: Fields) -> str:
    """Why there is no service for an object, and what to do."""
    kind = str(value.get("kind"))
    if workload.owner(value):
        return f"it is made by {workload.owner(value)}"
    if str(value.get("apiVersion")).startswith(f"{names.GROUP}/"):
        return "it is Naiad's already"
    if kind == names.KIND:
        return f"its apiVersion is {value.get('apiVersion')}, which is not KServe's: write serving.kserve.io/v1beta1 if it is meant"
    if kind not in _STAYS and workload.has_triton(value):
        return f"its pods run tritonserver, but a service is made of {', '.join(workload.KINDS)}: write its spec.template in a Deployment, and convert that"
    return _of_kind(kind, value)


def _of_kind(kind: str, value: Fields) -> str:
    if not value.get("kind"):
        return "Kubernetes takes no such object: write its apiVersion and kind"
    if kind in workload.KINDS:
        return "none of its containers runs tritonserver"
    if kind in companions.KINDS:
        return "it belongs to none of the objects that are converted: none of them has the labels, the name or the namespace that it selects"
    if kind == "TrainedModel":
        service = part(value, "spec").get("inferenceService")
        return f"its model is a folder of the repository of InferenceService {service}: copy its storageUri there, as NAME/1/FILE"
    return _STAYS.get(kind, "there is no rule for it")
