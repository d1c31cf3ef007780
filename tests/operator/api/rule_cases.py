"""Resources that break a rule, each named after what is wrong and with the path where it is; and some that look as if."""

from naiad_operator.api import resources, validation
from tests.operator.api.specs import (
    MODEL,
    Manifest,
    accelerator,
    gateway,
    hpa,
    model,
    named,
    profile,
    repositories,
    spec,
)
from tests.support import manifests


def resource_of(manifest: Manifest) -> resources.CustomResource:
    """The custom resource that a manifest is of."""
    return resources.PROFILE if manifest["kind"] == "NaiadProfile" else resources.SERVICE


def words(manifest: Manifest, path: str) -> str:
    """What the operator says of a manifest that is wrong at a path."""
    problems = validation.check(manifest, resource_of(manifest))
    [message] = {problem.message for problem in problems if problem.path == path}
    return message


def with_defaults(manifest: Manifest) -> Manifest:
    """The spec as the operator reads it."""
    filled, problems = validation.with_defaults(manifest["spec"], resource_of(manifest))
    assert problems == []
    return dict(filled)


BAD = {
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
    "models to wait for, and no policy": (
        manifests.resource(readiness={"models": ["a"]}),
        "spec.predictor.readiness.models",
    ),
    "a policy of models without any": (
        manifests.resource(readiness={"policy": "models"}),
        "spec.predictor.readiness.models",
    ),
    "one per node, and spread": (
        manifests.resource(placement="onePerNode", topologySpreadConstraints=[{}]),
        "spec.predictor.topologySpreadConstraints",
    ),
    "no repository": (model(), "spec.predictor.model"),
    "a repository and repositories": (
        model(**MODEL, repositories=[MODEL]),
        "spec.predictor.model",
    ),
    "storage that belongs to none": (
        model(repositories=[MODEL], storage={"secretName": "a"}),
        "spec.predictor.model.storage",
    ),
    "credentials of a claim": (
        model(storageUri="pvc://claim", storage={"secretName": "a"}),
        "spec.predictor.model.storage",
    ),
    "a region of Google's": (
        model(storageUri="gs://b/p", storage={"region": "x"}),
        "spec.predictor.model.storage",
    ),
    "a repository of no known kind": (
        model(storageUri="hf://org/model"),
        "spec.predictor.model.storageUri",
    ),
    "two accounts of one kind of store": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"secretName": "a"}},
            {"storageUri": "s3://b/p", "storage": {"secretName": "b"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "an account for one of two": (
        repositories({"storageUri": "s3://a/p", "storage": {"secretName": "a"}}, {"storageUri": "s3://b/p"}),
        "spec.predictor.model.repositories",
    ),
    "two regions of one account": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"secretName": "a", "region": "x"}},
            {"storageUri": "s3://b/p", "storage": {"secretName": "a", "region": "y"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "one of the repositories of no known kind": (
        repositories(MODEL, {"storageUri": "/models"}),
        "spec.predictor.model.repositories[1].storageUri",
    ),
    "credentials of one of the claims": (
        repositories(MODEL, {"storageUri": "pvc://claim", "storage": {"secretName": "a"}}),
        "spec.predictor.model.repositories[1].storage",
    ),
    "an endpoint of Azure's": (
        repositories({"storageUri": "as://a/c/p", "storage": {"endpoint": "https://x"}}),
        "spec.predictor.model.repositories[0].storage",
    ),
    "a key file of Google's for Amazon": (
        model(**MODEL, storage={"secretName": "a", "serviceAccountKeyField": "k"}),
        "spec.predictor.model.storage",
    ),
    "a key file of Google's for one of Azure's": (
        repositories({"storageUri": "as://a/c/p", "storage": {"secretName": "a", "serviceAccountKeyField": "k"}}),
        "spec.predictor.model.repositories[0].storage",
    ),
    "a key file in no Secret": (
        model(storageUri="gs://a/b", storage={"serviceAccountKeyField": "k"}),
        "spec.predictor.model.storage.serviceAccountKeyField",
    ),
    "a poll interval without polling": (
        model(**MODEL, load={"pollSeconds": 5}),
        "spec.predictor.model.load.pollSeconds",
    ),
    "a credential file in no Secret": (
        model(**MODEL, storage={"credentialFileKey": "cloud.json"}),
        "spec.predictor.model.storage.credentialFileKey",
    ),
    "models that no mode loads": (
        model(**MODEL, load={"models": ["a"]}),
        "spec.predictor.model.load.models",
    ),
    "a mode that loads no models": (
        model(**MODEL, load={"mode": "explicit"}),
        "spec.predictor.model.load.models",
    ),
    "all models and one": (
        model(**MODEL, load={"mode": "explicit", "models": ["*", "a"]}),
        "spec.predictor.model.load.models",
    ),
    "another key file of one store": (
        repositories(
            {"storageUri": "gs://a/p", "storage": {"secretName": "a"}},
            {"storageUri": "gs://b/p", "storage": {"secretName": "a", "serviceAccountKeyField": "b.json"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "a credential file for one of two": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"secretName": "a"}},
            {"storageUri": "s3://b/p", "storage": {"secretName": "a", "credentialFileKey": "c"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "two regions without an account": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"region": "x"}},
            {"storageUri": "s3://b/p", "storage": {"region": "y"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "a repository that stands twice": (
        repositories({"storageUri": "pvc://a/b"}, {"storageUri": "pvc://c"}, {"storageUri": "pvc://a/b"}),
        "spec.predictor.model.repositories",
    ),
    "a line break behind a repository": (
        model(storageUri="s3://models/production\n"),
        "spec.predictor.model.storageUri",
    ),
    "two credential files": (
        repositories(
            {"storageUri": "s3://a/p", "storage": {"secretName": "a", "credentialFileKey": "c"}},
            {"storageUri": "gs://b/p", "storage": {"secretName": "b", "credentialFileKey": "c"}},
        ),
        "spec.predictor.model.repositories",
    ),
    "a claim that is fetched": (
        model(storageUri="pvc://claim", delivery="init"),
        "spec.predictor.model.delivery",
    ),
    "one of the claims that is fetched": (
        model(repositories=[MODEL, {"storageUri": "pvc://claim"}], delivery="init"),
        "spec.predictor.model.delivery",
    ),
    "a watch of what is fetched once": (
        model(**MODEL, delivery="init", load={"mode": "poll"}),
        "spec.predictor.model.delivery",
    ),
    "a cache without a size": (model(**MODEL, cache={}), "spec.predictor.model.cache.size"),
    "a cache without a claim": (
        model(**MODEL, cache={"type": "pvc"}),
        "spec.predictor.model.cache.claimName",
    ),
    "a slice without a profile": (accelerator(type="mig"), "spec.predictor.accelerator.profile"),
    "a profile of a whole GPU": (
        accelerator(profile="1g.10gb"),
        "spec.predictor.accelerator.profile",
    ),
    "an invalid profile": (
        accelerator(type="mig", profile="10gb"),
        "spec.predictor.accelerator.profile",
    ),
    "a product and products": (
        accelerator(product="A", products=["B", "C"]),
        "spec.predictor.accelerator.products",
    ),
    "one of the products that no label can hold": (
        accelerator(products=["A", "NVIDIA H100"]),
        "spec.predictor.accelerator.products",
    ),
    "products of nothing": (
        accelerator(type="none", products=["A"]),
        "spec.predictor.accelerator.type",
    ),
    "two overrides of a model": (
        model(
            **MODEL,
            overrides=[
                {"model": "a", "config": {}},
                {"model": "b", "config": {}},
                {"model": "a", "config": {"maxBatchSize": 1}},
            ],
        ),
        "spec.predictor.model.overrides",
    ),
    "a single strategy without a product": (
        accelerator(type="mig", profile="1g.10gb", strategy="single"),
        "spec.predictor.accelerator.strategy",
    ),
    "a single strategy of whole GPUs": (
        accelerator(strategy="single", product="A"),
        "spec.predictor.accelerator.strategy",
    ),
    "selectors without a claim": (
        accelerator(celSelectors=["true"]),
        "spec.predictor.accelerator.strategy",
    ),
    "a resource of a claim": (
        accelerator(strategy="dra", resourceName="nvidia.com/gpu"),
        "spec.predictor.accelerator.resourceName",
    ),
    "a resource without a domain": (
        accelerator(resourceName="cpu"),
        "spec.predictor.accelerator.resourceName",
    ),
    "a product that no label can hold": (
        accelerator(product="NVIDIA H100 80GB HBM3"),
        "spec.predictor.accelerator.product",
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
    "a product of nothing": (
        accelerator(type="none", product="A"),
        "spec.predictor.accelerator.type",
    ),
    "GPUs in the requests": (
        manifests.resource(resources={"requests": {"nvidia.com/gpu": 1}}),
        "spec.predictor.resources.requests",
    ),
    "GPUs in the limits": (
        manifests.resource(resources={"limits": {"cpu": 1, "nvidia.com/mig-1g.10gb": 1}}),
        "spec.predictor.resources.limits",
    ),
    "two values of a variable": (
        manifests.resource(env=[{"name": "A", "value": "b", "valueFrom": {}}]),
        "spec.predictor.env[0].valueFrom",
    ),
    "a toleration of every taint with a value": (
        manifests.resource(tolerations=[{"operator": "Exists", "value": "a"}]),
        "spec.predictor.tolerations[0].operator",
    ),
    "a toleration of no key": (
        manifests.resource(tolerations=[{"value": "a"}]),
        "spec.predictor.tolerations[0].operator",
    ),
    "one port twice": (manifests.resource(ports={"grpc": 8000}), "spec.predictor.ports"),
    "fewer at most than at least": (
        hpa(minReplicas=5, maxReplicas=4),
        "spec.predictor.autoscaling.maxReplicas",
    ),
    "no pod and an HPA": (hpa(minReplicas=0), "spec.predictor.autoscaling.minReplicas"),
    "no pod and nothing to start one": (
        manifests.resource(autoscaling={"class": "keda", "queueTimeMs": 5, "minReplicas": 0}),
        "spec.predictor",
    ),
    "no pod and an activation that names nothing": (
        manifests.resource(
            autoscaling={"class": "keda", "minReplicas": 0, "activation": {"idleSeconds": 90}}
        ),
        "spec.predictor",
    ),
    "an activation of a service that keeps a pod": (
        manifests.resource(
            autoscaling={"class": "keda", "queueTimeMs": 5, "activation": {"source": "nginx"}}
        ),
        "spec.predictor.autoscaling.activation",
    ),
    "two kinds of activation": (
        manifests.resource(
            autoscaling={
                "class": "keda",
                "minReplicas": 0,
                "activation": {"source": "nginx", "query": "vector(1)"},
            }
        ),
        "spec.predictor.autoscaling.activation.query",
    ),
    "credentials of an HPA": (
        hpa(prometheusAuth={"name": "thanos"}),
        "spec.predictor.autoscaling.triggers",
    ),
    "an autoscaler that looks at nothing": (
        manifests.resource(autoscaling={"class": "hpa", "metrics": []}),
        "spec.predictor.autoscaling.class",
    ),
    "a maximum without an autoscaler": (
        manifests.resource(autoscaling={"class": "external", "maxReplicas": 9}, replicas=1),
        "spec.predictor.autoscaling.class",
    ),
    "fewer than the default most": (hpa(minReplicas=5), "spec.predictor.autoscaling.maxReplicas"),
    "a queue time without an autoscaler": (
        manifests.resource(autoscaling={"queueTimeMs": 5}),
        "spec.predictor.autoscaling.class",
    ),
    "metrics of KEDA": (
        manifests.resource(autoscaling={"class": "keda", "metrics": [{}]}),
        "spec.predictor.autoscaling.metrics",
    ),
    "triggers of an HPA": (hpa(triggers=[{}]), "spec.predictor.autoscaling.triggers"),
    "an address of an HPA": (
        hpa(prometheusAddress="http://p"),
        "spec.predictor.autoscaling.triggers",
    ),
    "a surge of Recreate": (
        manifests.resource(deploymentStrategy={"type": "Recreate", "maxSurge": 1}),
        "spec.predictor.deploymentStrategy.type",
    ),
    "no way to replace a pod": (
        manifests.resource(deploymentStrategy={"maxSurge": 0, "maxUnavailable": "0%"}),
        "spec.predictor.deploymentStrategy.maxUnavailable",
    ),
    "annotations of no Ingress": (
        spec(ingress={"grpcHost": "a.example", "annotations": {"a": "b"}}),
        "spec.ingress.annotations",
    ),
    "an ingress without a host": (spec(ingress={"enabled": True}), "spec.ingress.host"),
    "one host of both protocols": (
        spec(ingress={"host": "a.example", "grpcHost": "a.example"}),
        "spec.ingress.grpcHost",
    ),
    "one host of both routes": (
        spec(gateway={"parentRefs": [{"name": "g"}], "hostnames": ["a"], "grpcHostnames": ["b", "a"]}),
        "spec.gateway.grpcHostnames",
    ),
    "a label that selects the pods": (
        spec(labels={"a": "b", "app.kubernetes.io/instance": "b"}),
        "spec.labels",
    ),
    "an annotation that the operator writes": (
        spec(annotations={"serving.naiad.dev/applied": "x"}),
        "spec.annotations",
    ),
    "a load balancer's class without a load balancer": (
        spec(service={"type": "NodePort", "loadBalancerClass": "example.com/internal"}),
        "spec.service.type",
    ),
    "a policy for clients that cannot come": (
        spec(service={"externalTrafficPolicy": "Local"}),
        "spec.service.type",
    ),
    "one port of the nodes twice": (
        spec(service={"type": "NodePort", "nodePorts": {"http": 30000, "grpc": 30000}}),
        "spec.service.nodePorts",
    ),
    "a prefix that the server's own paths have": (
        spec(pathPrefix="/v2/demo"),
        "spec.pathPrefix",
    ),
    "a prefix that clients resolve": (spec(pathPrefix="/api/../demo"), "spec.pathPrefix"),
    "a prefix and the path of an Ingress": (
        spec(pathPrefix="/demo", ingress={"host": "a.example", "path": "/demo"}),
        "spec.pathPrefix",
    ),
    "a prefix of routes of gRPC alone": (
        spec(pathPrefix="/demo", gateway={"parentRefs": [{"name": "g"}], "grpcHostnames": ["a"]}),
        "spec.pathPrefix",
    ),
    "a prefix of an Ingress of gRPC alone": (
        spec(pathPrefix="/demo", ingress={"grpcHost": "a.example"}),
        "spec.pathPrefix",
    ),
    "a timeout of routes of gRPC alone": (
        gateway(hosts={"grpcHostnames": ["a"], "requestTimeoutSeconds": 0}),
        "spec.gateway.requestTimeoutSeconds",
    ),
    "a size in thousandths": (
        spec(ingress={"host": "a.example", "maxBodySize": "64m"}),
        "spec.ingress.maxBodySize",
    ),
    "clients of every address, and of some": (
        spec(networkPolicy={"allowExternal": True, "ingressFrom": [{"podSelector": {}}]}),
        "spec.networkPolicy.allowExternal",
    ),
    "a canary behind an Ingress": (
        spec(canary={"weight": 10}, ingress={"enabled": True, "host": "a.example"}),
        "spec.canary",
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
    "a label that selects the pods, in a profile": (
        profile(labels={"app.kubernetes.io/name": "b"}),
        "spec.labels",
    ),
    "an option that a field decides, in a profile": (
        profile(args=["--grpc-port=1"]),
        "spec.args",
    ),
    "GPUs in a profile": (
        profile(resources={"limits": {"nvidia.com/gpu": 1}}),
        "spec.resources.limits",
    ),
    "an endpoint of Google's, in a profile": (
        profile(storage={"gs": {"endpoint": "https://x"}}),
        "spec.storage.gs",
    ),
    "a region of Azure's, in a profile": (
        profile(storage={"azure": {"region": "x"}}),
        "spec.storage.azure",
    ),
    "a key file for Amazon, in a profile": (
        profile(storage={"s3": {"secretName": "a", "serviceAccountKeyField": "k"}}),
        "spec.storage.s3",
    ),
    "a key file for Azure, in a profile": (
        profile(storage={"azure": {"secretName": "a", "serviceAccountKeyField": "k"}}),
        "spec.storage.azure",
    ),
    "both monitors": (
        spec(monitoring={"podMonitor": True, "serviceMonitor": True}),
        "spec.monitoring.serviceMonitor",
    ),
}  # fmt: skip
"""What is wrong, and at which path."""

GOOD = {
    "one path in two stores": repositories(
        {"storageUri": "s3://a/p", "storage": {"endpoint": "https://one.example"}},
        {"storageUri": "s3://a/p", "storage": {"endpoint": "https://two.example"}},
    ),
    "two claims": repositories({"storageUri": "pvc://a/b"}, {"storageUri": "pvc://c"}),
    "one account of two stores": repositories(
        {"storageUri": "s3://a/p", "storage": {"secretName": "a", "region": "x"}},
        {"storageUri": "s3://b/p", "storage": {"secretName": "a", "region": "x"}},
        {"storageUri": "gs://b/p"},
    ),
    "regions without an account": repositories(
        {"storageUri": "s3://a/p", "storage": {"region": "x"}},
        {"storageUri": "s3://b/p", "storage": {"region": "x"}},
    ),
    "the key file of one store, written out and not": repositories(
        {"storageUri": "gs://a/p", "storage": {"secretName": "a"}},
        {
            "storageUri": "gs://b/p",
            "storage": {"secretName": "a", "serviceAccountKeyField": "key.json"},
        },
    ),
    "one credential file of two stores": repositories(
        {"storageUri": "s3://a/p", "storage": {"secretName": "a", "credentialFileKey": "c"}},
        {"storageUri": "gs://b/p", "storage": {"secretName": "a", "credentialFileKey": "c"}},
    ),
    "fetched, then loaded on demand": model(
        **MODEL, delivery="init", load={"mode": "explicit", "models": ["a"]}
    ),
    "a product as a claim names it": accelerator(strategy="dra", product="NVIDIA H100 80GB HBM3"),
    "seven slices per pod": accelerator(type="mig", profile="1g.10gb", count=7),
    "slices of two products under one strategy": accelerator(
        type="mig", profile="1g.10gb", strategy="single", products=["A", "B"]
    ),
    "overrides of two models, and packages": model(
        **MODEL,
        overrides=[
            {"model": "a", "config": {"maxBatchSize": 16, "instanceGroup": [{"count": 2}]}},
            {"model": "b", "config": {}},
        ],
        pythonRequirements=["transformers==4.57", "torch @ https://example.com/torch.whl"],
    ),
    "another vendor's and a network card": manifests.resource(
        accelerator={"resourceName": "amd.com/gpu"}, resources={"limits": {"rdma/hca": 1}}
    ),
    "options that no field decides": manifests.resource(
        args=["--http-portal=1", "--log-verbose=1", "--http-thread-count=2"]
    ),
    "KEDA to zero": manifests.resource(
        autoscaling={"class": "keda", "minReplicas": 0, "triggers": [{"type": "cron"}]}
    ),
    "KEDA to zero by the ingress": spec(
        predictor={"model": MODEL, "autoscaling": {"class": "keda", "minReplicas": 0}},
        ingress={"enabled": True, "host": "a.example", "className": "nginx"},
    ),
    "KEDA to zero by a query": manifests.resource(
        autoscaling={
            "class": "keda",
            "minReplicas": 0,
            "activation": {"query": "vector(1)"},
            "prometheusAuth": {"name": "thanos", "modes": ["bearer"], "namespaceParameter": True},
        }
    ),
    "a gateway beside an ingress that is off": spec(
        ingress={"enabled": False, "host": "a.example"}, gateway={"parentRefs": [{"name": "g"}]}
    ),
    "an empty profile": profile(),
    "a profile with everything": profile(
        default=True,
        image="registry.example.com/naiad-server:1",
        imagePullSecrets=[{"name": "registry"}],
        args=["--log-verbose=1"],
        env=[{"name": "A", "value": "b"}],
        envFrom=[{"configMapRef": {"name": "a"}}],
        resources={"requests": {"cpu": 1, "memory": "4Gi"}},
        storage={
            "s3": {"secretName": "a", "endpoint": "https://minio.storage:9000"},
            "gs": {"secretName": "a", "serviceAccountKeyField": "k"},
            "azure": {"secretName": "a"},
        },
        cache={"size": "1Gi"},
        serviceAccountName="models",
        automountServiceAccountToken=False,
        nodeSelector={"pool": "gpus"},
        tolerations=[{"key": "dedicated", "value": "inference"}],
        affinity={},
        priorityClassName="serving",
        runtimeClassName="nvidia",
        podSecurityContext={"runAsNonRoot": True},
        podTemplate={"spec": {"dnsPolicy": "Default", "hostUsers": None}},
        labels={"a": "b"},
        annotations={"a": "b"},
    ),
    "a service of a profile": spec(profile="platform"),
    "a load balancer with everything": spec(
        service={
            "type": "LoadBalancer",
            "loadBalancerClass": "example.com/internal",
            "loadBalancerSourceRanges": ["10.0.0.0/8", "2001:db8::/32"],
            "externalTrafficPolicy": "Local",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "ClientIP",
            "nodePorts": {"http": 30000, "grpc": 30001},
            "appProtocols": {"http": "HTTP2", "grpc": "kubernetes.io/h2c"},
        }
    ),
    "labels for others": spec(labels={"kueue.x-k8s.io/queue-name": "gpus"}, annotations={"a": ""}),
    "a prefix for two protocols": gateway(
        pathPrefix="/demo", hosts={"hostnames": ["a"], "grpcHostnames": ["b"]}
    ),
    "a prefix like the server's own paths": gateway(pathPrefix="/v3/docs/.well-known"),
    "a prefix without anything in front": spec(pathPrefix="/api/predict/demo"),
    "a canary of nothing": gateway(
        canary={"weight": 0, "model": MODEL, "image": "a/b:c", "replicas": 0}
    ),
    "a surge of percent": manifests.resource(
        deploymentStrategy={"maxSurge": "25%", "maxUnavailable": 0}
    ),
    **{
        f"profile {profile}": accelerator(type="mig", profile=profile)
        for profile in (
            "1g.5gb",
            "1g.10gb+me",
            "1g.24gb-me",
            "1g.24gb+me.all",
            "7g.278gb",
            "4g.96gb+gfx",
        )
    },
}
