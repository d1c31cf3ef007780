"""Resources that break a rule of a service as a whole, its predictor and its canary, and some that look as if."""

from tests.operator.api.specs import MODEL, Manifest, gateway, named, spec
from tests.support import manifests

_BOTH = gateway(canary={"weight": 10}, transformer={"image": "a"})

BAD: dict[str, tuple[Manifest, str]] = {
    "a name that is not valid for a Service": (named("1-demo"), "metadata.name"),
    "a name that is too long": (named("d" * 51), "metadata.name"),
    "an ingress and a gateway": (
        spec(ingress={"enabled": True, "host": "a.example"}, gateway={"parentRefs": [{"name": "g"}]}),
        "spec.ingress",
    ),
    "replicas beside an autoscaler": (
        manifests.resource(replicas=2, autoscaling={"class": "hpa", "queueTimeMs": 5}),
        "spec.predictor.replicas",
    ),
    "a scaler with nothing to read": (
        manifests.resource(autoscaling={"class": "external"}),
        "spec.predictor.replicas",
    ),
    "no time for requests in flight": (
        manifests.resource(drainSeconds=55),
        "spec.predictor.terminationGracePeriodSeconds",
    ),
    "one per node, and spread": (
        manifests.resource(placement="onePerNode", topologySpreadConstraints=[{}]),
        "spec.predictor.topologySpreadConstraints",
    ),
    "a resource asked for twice": (
        manifests.resource(
            accelerator={"resourceName": "amd.com/gpu"}, resources={"limits": {"amd.com/gpu": 1}}
        ),
        "spec.predictor.resources",
    ),
    "an option that a field decides": (
        manifests.resource(args=["--log-verbose=1", "--http-port=9000"]),
        "spec.predictor.args",
    ),
    "an option that a field decides, in two words": (
        manifests.resource(args=["--exit-timeout-secs", "9"]),
        "spec.predictor.args",
    ),
    "the beginning of an option that a field decides": (
        manifests.resource(args=["--http-po=9000"]),
        "spec.predictor.args",
    ),
    "the beginning of an option that a field decides, in two words": (
        manifests.resource(args=["--exit-t", "9"]),
        "spec.predictor.args",
    ),
    "a label that selects the pods": (
        spec(labels={"a": "b", "app.kubernetes.io/instance": "b"}),
        "spec.labels",
    ),
    "an annotation that the operator writes": (
        spec(annotations={"serving.naiad.dev/applied": "x"}),
        "spec.annotations",
    ),
    "a canary behind an Ingress": (
        spec(canary={"weight": 10}, ingress={"enabled": True, "host": "a.example"}),
        "spec.canary",
    ),
    "mirrored requests behind an Ingress": (
        spec(mirror={"service": "next"}, ingress={"enabled": True, "host": "a.example"}),
        "spec.mirror",
    ),
    "requests that are mirrored to no canary": (gateway(mirror={"percent": 5}), "spec.mirror"),
    "a name that is too long for the transformer of a canary": (
        {**_BOTH, "metadata": {"name": "d" * 45}},
        "metadata.name",
    ),
    "an explainer with replicas beside its autoscaler": (
        spec(explainer={"image": "a", "replicas": 1, "autoscaling": {}}),
        "spec.explainer.replicas",
    ),
    "an account of a store that the transformer does not name": (
        spec(transformer={"image": "a", "storage": {"secretName": "keys"}}),
        "spec.transformer.storage",
    ),
    "files of a transformer that no server fetches": (
        spec(transformer={"image": "a", "storageUri": "ftp://host/files"}),
        "spec.transformer.storageUri",
    ),
    "an account for a claim of an explainer": (
        spec(explainer={"image": "a", "storageUri": "pvc://claim", "storage": {"secretName": "keys"}}),
        "spec.explainer.storage",
    ),
    "a transformer whose least pods are more than its most": (
        spec(transformer={"image": "a", "autoscaling": {"minReplicas": 3, "maxReplicas": 2}}),
        "spec.transformer.autoscaling.maxReplicas",
    ),
    "a canary with replicas beside its autoscaler": (
        gateway(canary={"weight": 10, "replicas": 1, "autoscaling": {"class": "hpa", "queueTimeMs": 5}}),
        "spec.canary.replicas",
    ),
    "a canary with options of the operator": (
        gateway(canary={"weight": 10, "args": ["--http-base-path=/a"]}),
        "spec.canary.args",
    ),
    "a canary with a scaler of one's own": (
        gateway(canary={"weight": 10, "replicas": 1, "autoscaling": {"class": "external"}}),
        "spec.canary.autoscaling",
    ),
    "a canary that no request starts": (
        gateway(
            canary={
                "weight": 10,
                "autoscaling": {"class": "keda", "minReplicas": 0, "triggers": [{"type": "cron"}]},
            }
        ),
        "spec.canary.autoscaling",
    ),
}  # fmt: skip

GOOD: dict[str, Manifest] = {
    "one file of a transformer": spec(
        transformer={"image": "a", "storageUri": "hf://owner/name@main/vocab.txt"}
    ),
    "a transformer beside a canary": {**_BOTH, "metadata": {"name": "d" * 44}},
    "another vendor's and a network card": manifests.resource(
        accelerator={"resourceName": "amd.com/gpu"}, resources={"limits": {"rdma/hca": 1}}
    ),
    "options that no field decides": manifests.resource(
        args=["--http-portal=1", "--log-verbose=1", "--http-thread-count=2"]
    ),
    "labels for others": spec(labels={"kueue.x-k8s.io/queue-name": "gpus"}, annotations={"a": ""}),
    "a canary of nothing": gateway(
        canary={"weight": 0, "model": MODEL, "image": "a/b:c", "replicas": 0}
    ),
}
