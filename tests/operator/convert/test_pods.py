"""The other parts of a Triton pod: devices, volumes, how it starts and stops."""

import pytest

from tests.operator.convert.triton import RUN, Object, deployment, listed


@pytest.mark.parametrize(
    ("limits", "accelerator"),
    [
        ({"nvidia.com/gpu": 2}, {"type": "gpu", "count": 2}),
        ({"nvidia.com/mig-3g.40gb": "1"}, {"type": "mig", "profile": "3g.40gb", "count": 1}),
        ({"nvidia.com/mig-1g.10gb.me": 1}, {"type": "mig", "profile": "1g.10gb+me", "count": 1}),
        ({"nvidia.com/gpu.shared": 1}, {"type": "gpu", "count": 1, "resourceName": "nvidia.com/gpu.shared"}),
        ({"nvidia.com/gpu": 0}, {"type": "none"}),
        ({}, {"type": "none"}),
    ],
)  # fmt: skip
def test_devices(convert: RUN, limits: Object, accelerator: Object) -> None:
    converted = convert(deployment({"resources": {"limits": {"cpu": 2, **limits}}}))
    assert converted.predictor["accelerator"] == accelerator
    assert converted.predictor["resources"] == {"limits": {"cpu": 2}}


def test_a_fraction_of_a_processor_is_put_in_quotes(convert: RUN) -> None:
    converted = convert(deployment({"resources": {"limits": {"cpu": 0.5, "memory": "1.5Gi"}}}))
    assert converted.status == 0
    assert converted.predictor["resources"] == {"limits": {"cpu": "0.5", "memory": "1.5Gi"}}


def test_two_kinds_of_devices_are_said(convert: RUN) -> None:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}
    converted = convert(deployment({"resources": {"limits": limits}}))
    assert listed(converted, "resources.limits.nvidia.com/mig-1g.10gb: not converted")


def test_volumes_go_into_the_template(convert: RUN) -> None:
    mounts = {"shm": "/dev/shm", "tmp": "/tmp", "rules": "/etc/rules", "cache": "/scratch"}
    container = {"volumeMounts": [{"name": one, "mountPath": path} for one, path in mounts.items()]}
    volumes = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "rules", "configMap": {"name": "rules"}},
        {"name": "cache", "hostPath": {"path": "/srv"}},
    ]
    converted = convert(deployment(container, {"volumes": volumes}))
    assert converted.predictor["sharedMemory"] == "4Gi"
    template = converted.predictor["podTemplate"]["spec"]
    assert [one["name"] for one in template["volumes"]] == ["rules", "cache-own"]
    [server] = template["containers"]
    assert server["name"] == "server"
    assert [one["mountPath"] for one in server["volumeMounts"]] == ["/etc/rules", "/scratch"]
    assert listed(converted, "volumes: cache is a folder of a node (/srv)")


def test_volumes_of_other_containers_are_said(convert: RUN) -> None:
    volumes = [{"name": "tls", "secret": {"secretName": "tls"}}, {"name": "a", "emptyDir": {}}]
    container = {"volumeMounts": [{"name": "a", "mountPath": "/a"}]}
    converted = convert(deployment(container, {"volumes": volumes}))
    assert listed(converted, "volumes: left out: tls: the server does not mount them")


def test_ports_that_the_server_does_not_listen_on_are_said(convert: RUN) -> None:
    ports = [{"containerPort": 8080}, {"containerPort": 8001}, {"containerPort": 9400}]
    args = ["tritonserver", "--model-repository=s3://a/b", "--http-port=8080"]
    converted = convert(deployment({"args": args, "ports": ports}))
    assert listed(converted, "ports: left out: 9400: the server listens on 8080 (http), 8001 (grpc), 8002 (metrics)")  # fmt: skip


@pytest.mark.parametrize("policy", ["Always", "IfNotPresent"])
def test_when_an_image_is_pulled_stays(convert: RUN, policy: str) -> None:
    predictor = convert(deployment({"imagePullPolicy": policy})).predictor
    if policy == "IfNotPresent":  # as Kubernetes does it for a tag
        assert "podTemplate" not in predictor
    else:
        [server] = predictor["podTemplate"]["spec"]["containers"]
        assert server == {"name": "server", "imagePullPolicy": policy}


def test_labels_of_the_pods_stay_also_those_that_select_them(convert: RUN) -> None:
    source = deployment()
    template = source["spec"]["template"]
    template["metadata"]["labels"] |= {
        "cost": "a",
        "app.kubernetes.io/name": "triton",
        "pod-template-hash": "123",
        "azure.workload.identity/use": "true",
    }
    converted = convert(source)
    [service] = converted.services
    assert service["spec"]["labels"] == {"app": "demo", "cost": "a"}
    assert converted.predictor["podTemplate"]["metadata"]["labels"] == {
        "azure.workload.identity/use": "true"
    }
    assert listed(converted, "labels: became spec.labels: app, cost: what selects the old pods")
    assert listed(converted, "labels: left out: app.kubernetes.io/name: the operator writes them")


def test_how_a_pod_starts_and_stops(convert: RUN) -> None:
    slow = {"httpGet": {"path": "/", "port": 1}, "initialDelaySeconds": 900, "periodSeconds": 30}
    hook = {"preStop": {"sleep": {"seconds": 20}}}
    container = {"livenessProbe": slow, "lifecycle": hook}
    converted = convert(deployment(container, {"terminationGracePeriodSeconds": 100}))
    assert converted.predictor["probes"] == {"startup": {"periodSeconds": 10, "failureThreshold": 99}}  # fmt: skip
    assert converted.predictor["drainSeconds"] == 20
    assert converted.predictor["terminationGracePeriodSeconds"] == 100
    assert listed(converted, "livenessProbe: left out: the operator writes startup")
    converted = convert(deployment({}, {"terminationGracePeriodSeconds": 10}))
    assert "terminationGracePeriodSeconds" not in converted.predictor
    assert listed(converted, "terminationGracePeriodSeconds: left out: 10 seconds leave nothing")


def test_slices_of_the_strategy_single(convert: RUN) -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-A30-MIG-1g.6gb.me", "pool": "a"}
    gpu = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
    converted = convert(deployment(gpu, {"nodeSelector": selector}))
    assert converted.predictor["accelerator"] == {
        "type": "mig", "strategy": "single", "profile": "1g.6gb+me", "product": "NVIDIA-A30", "count": 1,
    }  # fmt: skip
    assert converted.predictor["nodeSelector"] == {"pool": "a"}


def test_volumes_that_are_smaller_here_are_said(convert: RUN) -> None:
    container = {
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "scratch", "mountPath": "/tmp"},
            {"name": "claimed", "mountPath": "/claimed"},
        ]
    }
    volumes = [
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "50Gi"}},
    ]
    converted = convert(deployment(container, {"volumes": volumes}))
    assert listed(converted, "volumes: shm has no sizeLimit, and /dev/shm of a service has 1Gi")
    assert listed(converted, "volumes: left out: sizeLimit: 50Gi of scratch")
    [claimed] = converted.predictor["podTemplate"]["spec"]["volumes"]
    assert claimed == {"name": "claimed", "emptyDir": {}}


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"capabilities": {"add": ["IPC_LOCK"]}}, "left out: capabilities"),
        ({"runAsNonRoot": False, "readOnlyRootFilesystem": False}, "left out: runAsNonRoot, readOnlyRootFilesystem"),
        ({"seccompProfile": {"type": "Unconfined"}}, "left out: seccompProfile"),
        ({"capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "runAsUser": 1000, "readOnlyRootFilesystem": True}, ""),
    ],
)  # fmt: skip
def test_rights_that_pods_do_not_have_here_are_said(
    convert: RUN, context: Object, words: str
) -> None:
    converted = convert(deployment({"securityContext": context}))
    assert listed(converted, "securityContext") == bool(words)
    assert listed(converted, words)


def test_ports_of_the_node_are_said(convert: RUN) -> None:
    converted = convert(deployment({"ports": [{"containerPort": 8000, "hostPort": 80}]}))
    assert listed(converted, "ports: left out: hostPort 80: clients outside the cluster use")


def test_an_image_of_clients_is_not_a_server(convert: RUN) -> None:
    image = "nvcr.io/nvidia/tritonserver:24.09-py3-sdk"
    converted = convert(deployment({"image": image, "args": ["sleep", "infinity"]}))
    assert converted.services == []
    assert listed(converted, "Deployment demo: not converted: none of its containers runs triton")


def test_a_second_server_and_routes_are_named(convert: RUN) -> None:
    second = {"name": "b", "image": "tritonserver", "args": ["--model-repository=s3://acme/b"]}
    source = deployment()
    source["spec"]["template"]["spec"]["containers"].append(second)
    route = {"kind": "HTTPRoute", "apiVersion": "gateway.networking.k8s.io/v1", "metadata": {"name": "a"}}  # fmt: skip
    converted = convert(source, route)
    assert listed(converted, "containers[1]: not converted: b: another server of the pod")
    assert listed(converted, "HTTPRoute a: not converted: write its Gateways and hosts in")
