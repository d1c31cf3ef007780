"""Resources that break a rule of a profile, and some that look as if."""

from tests.operator.api.specs import Manifest, profile, spec

BAD: dict[str, tuple[Manifest, str]] = {
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
    **{
        f"{field} of {store}, in a profile": (
            profile(storage={store: {"secretName": "a", field: value}}),
            f"spec.storage.{store}",
        )
        for field, value, stores in (
            ("endpoint", "https://x", ("azure", "oci")),
            ("region", "x", ("gs", "hf", "oci")),
            ("serviceAccountKeyField", "k", ("hf", "oci")),
            ("credentialFileKey", "k", ("hf", "oci")),
        )
        for store in stores
    },
    "a policy for no namespace": (profile(policy={"namespaces": {}}), "spec.policy.namespaces"),
    "a label that is compared with nothing": (
        profile(policy={"namespaces": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}),
        "spec.policy.namespaces.selector.matchExpressions[0].values",
    ),
}  # fmt: skip

GOOD: dict[str, Manifest] = {
    "an empty profile": profile(),
    "a profile with everything": profile(
        default=True,
        policy={
            "namespaces": {
                "names": ["team-a"],
                "selector": {
                    "matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "c", "operator": "Exists"}],
                },
            },
            "podTemplate": "Refuse",
            "triggers": "Refuse",
            "enforced": ["image", "labels"],
            "hosts": ["a.example.com", "*.{namespace}.example.com", "*"],
            "gateways": ["infra/public", "infra/*", "{namespace}/a"],
        },
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
}
