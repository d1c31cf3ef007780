"""`naiad-operator convert`: what becomes of plain Triton Deployments, and what is listed."""

import pathlib
import typing

import pytest

from naiad_operator import cli
from naiad_operator.api import yaml_text
from tests.support import generated

Object = dict[str, typing.Any]
SHAPES = sorted(generated.CONVERTED.glob("*.yaml"))


def deployment(
    container: Object | None = None, pod: Object | None = None, spec: Object | None = None
) -> Object:
    """A Deployment of Triton that reads a bucket, with further fields."""
    server = {
        "name": "triton",
        "image": "nvcr.io/nvidia/tritonserver:24.09-py3",
        "args": ["tritonserver", "--model-repository=s3://acme/models"],
        **(container or {}),
    }
    template = {
        "metadata": {"labels": {"app": "demo"}},
        "spec": {"containers": [server], **(pod or {})},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "demo"},
        "spec": {
            "selector": {"matchLabels": {"app": "demo"}},
            "template": template,
            **(spec or {}),
        },
    }


class Converted(typing.NamedTuple):
    """What a user sees."""

    status: int
    services: list[Object]
    lines: list[str]

    @property
    def predictor(self) -> typing.Any:
        [service] = self.services
        return service["spec"]["predictor"]


RUN = typing.Callable[..., Converted]


@pytest.fixture
def convert(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> RUN:
    """Converts objects, and holds `check` against every result that convert calls valid."""

    def run(*objects: Object) -> Converted:
        path, made = tmp_path / "triton.yaml", tmp_path / "naiad.yaml"
        path.write_text(yaml_text.write(objects))
        status = cli.main(["convert", "-f", str(path)])
        out, err = capsys.readouterr()
        made.write_text(out)
        if out:
            assert cli.main(["check", "-q", "-f", str(made)]) == status, capsys.readouterr().err
            capsys.readouterr()
        lines = [line.removeprefix(f"{path}:").partition(": ")[2] for line in err.splitlines()]
        return Converted(status, yaml_text.read(out), lines)

    return run


def listed(converted: Converted, words: str) -> bool:
    return any(words in line for line in converted.lines)


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_check_says_of_a_typical_file_what_convert_said(
    path: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a user sees of each is in tests/data/convert/expected."""
    status = cli.main(["convert", "-f", str(path)])
    made = tmp_path / "naiad.yaml"
    made.write_text(capsys.readouterr().out)
    assert cli.main(["check", "-q", "-f", str(made)]) == status
    assert status == (1 if path.stem == "onprem-chart" else 0)


def test_nothing_of_a_file_is_lost_without_a_word(convert: RUN) -> None:
    strange = deployment({"strangeOfContainer": 1}, {"strangeOfPod": {"a": 1}}, {"strange": [1]})
    strange["metadata"]["namespace"] = "models"
    converted = convert(strange)
    for field in ("containers[0].strangeOfContainer", "spec.strangeOfPod.a", "spec.strange"):
        assert listed(converted, f"{field}: not converted"), field


def test_what_the_api_server_fills_in_says_nothing(convert: RUN) -> None:
    """The Deployment as `kubectl get -o yaml` prints it."""
    dump = deployment(
        {
            "imagePullPolicy": "IfNotPresent", "resources": {}, "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        },
        {
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
        {
            "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, "replicas": 1,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        },
    )  # fmt: skip
    dump["metadata"] |= {"uid": "1", "resourceVersion": "1", "generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}}  # fmt: skip
    dump["spec"]["template"]["metadata"]["creationTimestamp"] = None
    dump["status"] = {"replicas": 1}
    converted = convert(dump)
    assert [line.split(":")[0] for line in converted.lines] == [
        "metadata.name",
        "spec.template.spec.containers[0].image",
    ]
    assert converted.predictor == {
        "model": {"storageUri": "s3://acme/models"},
        "accelerator": {"type": "none"},
        "replicas": 1,
    }


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        (["--model-store=gs://acme/models"], {"model": {"storageUri": "gs://acme/models"}}),
        (["--model-repository=as://acme/c/models"], {"model": {"storageUri": "as://acme/c/models"}}),
        (["--model-repository=s3://minio:9000/b/m"], {"model": {"storageUri": "s3://b/m", "storage": {"endpoint": "http://minio:9000"}}}),
        (["--model-repository=s3://a", "--model-repository", "gs://b"], {"model": {"repositories": [{"storageUri": "s3://a"}, {"storageUri": "gs://b"}]}}),
        (["--model-repo=s3://a"], {"model": {"storageUri": "s3://a"}}),
        (["--model-repository=s3://a", "--model-control-mode=poll", "--repository-poll-secs=9"],
         {"model": {"load": {"mode": "poll", "pollSeconds": 9}, "storageUri": "s3://a"}}),
        (["--model-repository=s3://a", "--model-control-mode=explicit", "--load-model=x"],
         {"model": {"load": {"mode": "explicit", "models": ["x"]}, "storageUri": "s3://a"}}),
        (["--model-repository=s3://a", "--model-control-mode=explicit"], {"model": {"storageUri": "s3://a"}, "args": ["--model-control-mode=explicit"]}),
        (["--model-repository=s3://a", "--model-control-mode=none"], {"model": {"storageUri": "s3://a"}}),
        (["--model-repository=s3://a", "--http-port=9000", "--grpc-port", "8001"], {"model": {"storageUri": "s3://a"}, "ports": {"http": 9000}}),
        (["--model-repository=s3://a", "--exit-timeout-secs=120"], {"model": {"storageUri": "s3://a"}, "terminationGracePeriodSeconds": 135}),
        (["--model-repository=s3://a", "--log-verbose", "1", "--allow-http", "--http-address=0.0.0.0", "--exit-on-error=false", "--rate-limit=off"],
         {"model": {"storageUri": "s3://a"}, "args": ["--log-verbose=1"]}),
    ],
)  # fmt: skip
def test_arguments_become_fields(convert: RUN, args: list[str], fields: Object) -> None:
    converted = convert(deployment({"args": ["tritonserver", *args]}))
    assert converted.status == 0
    assert converted.predictor == {**fields, "accelerator": {"type": "none"}, "replicas": 1}
    assert not listed(converted, "args")


@pytest.mark.parametrize(
    ("arg", "words"),
    [
        ("--allow-client-shm=true", "args[2]: left out: --allow-client-shm=true: the server does not support shared memory"),
        ("--trace-magic=1", "args[2]: left out: the server has no option --trace-magic: did you mean"),
        ("--log-format=xml", "left out: --log-format=xml: expected one of"),
        ("--buffer-manager-thread-count=2", "left out: --buffer-manager-thread-count has no effect here: a batch"),
        ("--http-port=80", "left out: --http-port=80: a pod's user may open ports from 1024"),
        ("--allow-http=false", "left out: --allow-http=false: the kubelet's probes use HTTP"),
        ("--http-address=127.0.0.1", "left out: --http-address=127.0.0.1: probes and clients"),
        ("--exit-on-error=true", "left out: --exit-on-error=true: the operator writes false"),
        ("--auth-token-file=/a", "left out: --auth-token-file is what the operator writes: set spec.auth"),
        ("--load-model=x", "left out: model.load.models needs --model-control-mode=explicit"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_listed(convert: RUN, arg: str, words: str) -> None:
    converted = convert(
        deployment({"args": ["tritonserver", "--model-repository=s3://acme/models", arg]})
    )
    assert converted.status == 0
    assert "args" not in converted.predictor
    assert listed(converted, words), converted.lines


def mounted(volume: Object, **mount: typing.Any) -> Object:
    return deployment(
        {
            "args": ["tritonserver", "--model-repository=/mnt/models/a"],
            "volumeMounts": [{"name": "models", "mountPath": "/mnt/models", **mount}],
        },
        {"volumes": [{"name": "models", **volume}]},
    )


CLAIM = {"persistentVolumeClaim": {"claimName": "store"}}


def test_a_claim_is_a_store(convert: RUN) -> None:
    assert convert(mounted(CLAIM)).predictor["model"] == {"storageUri": "pvc://store/a"}
    converted = convert(mounted(CLAIM, subPath="x/y"))
    assert converted.predictor["model"] == {"storageUri": "pvc://store/x/y/a"}
    assert "podTemplate" not in converted.predictor, "the operator mounts it"


def test_the_innermost_mount_is_the_repository(convert: RUN) -> None:
    source = mounted(CLAIM)
    pod = source["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"].append({"name": "inner", "mountPath": "/mnt/models/a"})
    pod["volumes"].append({"name": "inner", "persistentVolumeClaim": {"claimName": "inner"}})
    converted = convert(source)
    assert converted.predictor["model"] == {"storageUri": "pvc://inner"}
    [volume] = converted.predictor["podTemplate"]["spec"]["volumes"]
    assert volume["name"] == "models"


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"hostPath": {"path": "/srv"}}, "is a folder of one node: make a PersistentVolume"),
        ({"nfs": {"server": "a", "path": "/srv"}}, "make a PersistentVolume with this nfs and a claim for it"),
        ({"csi": {"driver": "gcsfuse.csi.storage.gke.io"}}, "make a PersistentVolume with this csi"),
        ({"emptyDir": {}}, "is an emptyDir that something in the pod fills"),
        ({"configMap": {"name": "a"}}, "is a ConfigMap: copy the models into a claim"),
        ({"image": {"reference": "a"}}, "is an image: copy the models"),
    ],
)  # fmt: skip
def test_a_repository_in_another_volume_is_said(convert: RUN, volume: Object, words: str) -> None:
    converted = convert(mounted(volume))
    assert converted.status == 1
    assert listed(converted, words), converted.lines
    assert listed(converted, "write storageUri for one model repository")


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"args": ["tritonserver", "--model-repository=/models"]}, "no volume is mounted there, so the models are in the image"),
        ({"args": ["tritonserver", "--model-repository=$(A)"]}, "the variable is not set here"),
        ({"args": ["tritonserver", "--model-repository=hf://a/b"]}, "naiad fetch"),
        ({"args": ["tritonserver"]}, "has no --model-repository: write model.storageUri"),
        ({"command": ["python3", "serve.py"], "args": []}, "command: left out: python3 serve.py: the operator starts"),
    ],
)  # fmt: skip
def test_a_repository_without_a_store_is_said(convert: RUN, container: Object, words: str) -> None:
    converted = convert(deployment(container))
    assert converted.status == 1
    assert listed(converted, words), converted.lines


def test_an_init_container_that_copies_from_one_store_names_it(convert: RUN) -> None:
    source = mounted({"emptyDir": {}})
    init = {
        "name": "copy",
        "args": ["gsutil", "-m", "cp", "-r", "gs://acme/models/*", "/mnt"],
        "volumeMounts": [{"name": "models", "mountPath": "/mnt"}],
    }
    source["spec"]["template"]["spec"]["initContainers"] = [init]
    converted = convert(source)
    assert converted.predictor["model"] == {"storageUri": "gs://acme/models"}
    assert listed(converted, "initContainers[0]: copied gs://acme/models into the repository")
    init["args"] = ["sync", "s3://a/b", "s3://c/d"]
    converted = convert(source)
    assert converted.status == 1
    assert listed(converted, "initContainers[0]: not converted: copy: write it in")


def secret(name: str, key: str) -> Object:
    return {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def test_credentials_in_a_secret_become_storage(convert: RUN) -> None:
    keys = [{"name": name, **secret("aws", name)} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]  # fmt: skip
    region = {"name": "AWS_REGION", "value": "eu-west-1"}
    converted = convert(deployment({"env": [*keys, region]}))
    storage = {"secretName": "aws", "region": "eu-west-1"}
    assert converted.predictor["model"] == {"storageUri": "s3://acme/models", "storage": storage}
    assert "env" not in converted.predictor
    keys[0] = {"name": "AWS_ACCESS_KEY_ID", **secret("aws", "id")}
    converted = convert(deployment({"env": keys}))
    assert converted.predictor["model"] == {"storageUri": "s3://acme/models"}
    assert converted.predictor["env"] == keys, "keys of other names stay variables"


@pytest.mark.parametrize(
    ("variable", "uri", "path", "storage"),
    [
        ("GOOGLE_APPLICATION_CREDENTIALS", "gs://acme/m", "/keys/key.json", {"secretName": "keys"}),
        ("GOOGLE_APPLICATION_CREDENTIALS", "gs://acme/m", "/keys/a.json", {"secretName": "keys", "serviceAccountKeyField": "a.json"}),
        ("TRITON_CLOUD_CREDENTIAL_PATH", "s3://acme/m", "/keys/all.json", {"secretName": "keys", "credentialFileKey": "all.json"}),
    ],
)  # fmt: skip
def test_a_file_of_a_secret_becomes_storage(
    convert: RUN, variable: str, uri: str, path: str, storage: Object
) -> None:
    container = {
        "args": ["tritonserver", f"--model-repository={uri}"],
        "env": [{"name": variable, "value": path}],
        "volumeMounts": [{"name": "keys", "mountPath": "/keys"}],
    }
    volumes = [{"name": "keys", "secret": {"secretName": "keys"}}]
    converted = convert(deployment(container, {"volumes": volumes}))
    assert converted.predictor["model"] == {"storageUri": uri, "storage": storage}
    assert not converted.predictor.keys() & {"env", "podTemplate"}


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


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet", "DaemonSet", "Pod"])
def test_other_kinds_with_the_same_pods(convert: RUN, kind: str) -> None:
    source = deployment(spec={"replicas": 3})
    source["kind"] = kind
    if kind == "Pod":
        source["spec"] = source["spec"]["template"]["spec"]
    if kind == "DaemonSet":
        del source["spec"]["replicas"]
    converted = convert(source)
    assert converted.status == 0
    assert converted.predictor["replicas"] == (3 if kind in ("StatefulSet", "ReplicaSet") else 1)
    assert ("placement" in converted.predictor) == (kind == "DaemonSet")


def service(spec: Object, **metadata: typing.Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "demo", **metadata},
        "spec": {"selector": {"app": "demo"}, **spec},
    }


def test_a_load_balancer(convert: RUN) -> None:
    ports = [{"port": 80, "targetPort": "web", "nodePort": 30080}, {"port": 8002}, {"port": 5432}]
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports}
    source = deployment({"ports": [{"containerPort": 8000, "name": "web"}]})
    converted = convert(source, service(spec, name="front", annotations={"a": "b"}))
    assert converted.services[0]["spec"]["service"] == {
        "type": "LoadBalancer",
        "annotations": {"a": "b"},
        "externalTrafficPolicy": "Local",
        "nodePorts": {"http": 30080},
    }
    assert listed(converted, "metadata.name: clients find the service as demo in place of front")
    assert listed(
        converted, "clients use port 8000 for http in place of 80; the metrics port is open inside"
    )
    assert listed(converted, "port 5432 does not lead to the server")


def test_fields_of_a_load_balancer_are_left_out_inside_a_cluster(convert: RUN) -> None:
    spec = {"externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP", "ports": [{"port": 8000}]}  # fmt: skip
    converted = convert(deployment(), service(spec))
    assert converted.services[0]["spec"]["service"] == {"sessionAffinity": "ClientIP"}


@pytest.mark.parametrize(
    "part",
    [
        {"env": [{"name": ["a"]}, 7]},
        {"args": "tritonserver"},
        {"ports": [{"containerPort": {}, "name": []}]},
        {"volumeMounts": [{"name": {}, "mountPath": 7}]},
        {"resources": [1], "livenessProbe": 7, "lifecycle": {"preStop": {"exec": {"command": 7}}}},
        {"securityContext": "root", "command": {"a": 1}},
    ],
)
def test_what_has_a_wrong_type_is_not_a_bug(convert: RUN, part: Object) -> None:
    odd = service({"ports": [{"port": [], "targetPort": {}}], "type": "NodePort"})
    assert convert(deployment(part), odd, {"kind": {}, "spec": 7}).lines


def test_a_service_of_another_workload_or_namespace_is_passed_over(convert: RUN) -> None:
    other = service({"selector": {"app": "other"}, "type": "NodePort"}, name="other")
    elsewhere = service({"type": "NodePort"}, name="elsewhere", namespace="x")
    converted = convert(deployment(), other, elsewhere)
    assert "service" not in converted.services[0]["spec"]
    assert listed(converted, "Service other: not converted: there is no rule for it")
    assert listed(converted, "Service elsewhere: not converted")


def autoscaler(**spec: typing.Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "demo"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 8, **spec},
    }


def pods_metric(name: str, value: str) -> Object:
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}


def test_an_autoscaler_over_the_queue(convert: RUN) -> None:
    gpu = pods_metric("DCGM_FI_DEV_GPU_UTIL", "80")
    metrics = [pods_metric("avg_time_queue_us", "50k"), pods_metric("nv_inference_pending_request_count", "16"), gpu]  # fmt: skip
    converted = convert(deployment(spec={"replicas": 2}), autoscaler(metrics=metrics))
    assert converted.predictor["autoscaling"] == {
        "class": "hpa", "minReplicas": 2, "maxReplicas": 8, "queueTimeMs": 50, "pendingRequests": 16, "metrics": [gpu],
    }  # fmt: skip
    assert "replicas" not in converted.predictor
    assert listed(converted, "spec.metrics[2]: copied: see that it counts the new pods")


def test_an_ingress_with_both_protocols(convert: RUN) -> None:
    def rule(host: str, port: Object, path: str = "/") -> Object:
        backend = {"service": {"name": "demo", "port": port}}
        return {"host": host, "http": {"paths": [{"path": path, "backend": backend}]}}

    ports = [{"name": "http", "port": 8000}, {"name": "grpc", "port": 8001}]
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "demo", "annotations": {"a": "b"}},
        "spec": {
            "ingressClassName": "nginx",
            "rules": [
                rule("a.example.com", {"name": "http"}, "/models"),
                rule("b.example.com", {"number": 8001}),
                rule("c.example.com", {"number": 8000}),
            ],
        },
    }
    converted = convert(deployment(), service({"ports": ports}), ingress)
    assert converted.services[0]["spec"]["ingress"] == {
        "enabled": True,
        "className": "nginx",
        "host": "a.example.com",
        "annotations": {"a": "b"},
        "path": "/models",
        "grpcHost": "b.example.com",
        "grpcAnnotations": {"a": "b"},
    }
    assert listed(
        converted, "not converted: c.example.com/ of demo: a service has one host per protocol"
    )


def test_only_objects_that_a_user_wrote_are_converted(convert: RUN) -> None:
    """`kubectl get all -o yaml` also prints what Deployments make, and what this operator has made."""
    made = deployment()
    made["metadata"] |= {
        "name": "demo-1",
        "ownerReferences": [{"kind": "Deployment", "name": "demo"}],
    }
    ours = deployment()
    ours["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "naiad-operator"}
    converted = convert({"kind": "List", "apiVersion": "v1", "items": [deployment(), made, ours]})
    assert len(converted.services) == 1
    assert listed(converted, "Deployment demo-1: not converted: it is made by Deployment demo")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"kind": "ConfigMap", "metadata": {"name": "a"}}, "ConfigMap a: not converted: it stays as it is"),
        ({"kind": "Deployment", "metadata": {"name": "a"}}, "Deployment a: not converted: none of its containers runs tritonserver"),
        ({"kind": "Role", "metadata": {"name": "a"}}, "Role a: not converted: there is no rule for it"),
        ({"apiVersion": "serving.naiad.dev/v1alpha1", "kind": "InferenceService"}, "it is Naiad's already"),
    ],
)  # fmt: skip
def test_what_is_not_converted_is_named(convert: RUN, value: Object, words: str) -> None:
    converted = convert(value)
    assert (converted.status, converted.services) == (1, [])
    assert listed(converted, words), converted.lines
    assert converted.lines[-1].startswith("no InferenceService of KServe")


def test_several_files_and_folders(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Service in another file belongs to the Deployment as well."""
    (tmp_path / "b.yaml").write_text(yaml_text.write([service({"type": "NodePort"})]))
    (tmp_path / "a.json").write_text(yaml_text.write([deployment()]))
    assert cli.main(["convert", "-f", str(tmp_path)]) == 0
    [made] = yaml_text.read(capsys.readouterr().out)
    assert made["spec"]["service"] == {"type": "NodePort"}
    broken = tmp_path / "c.yaml"
    broken.write_text("a: [")
    assert cli.main(["convert", "-f", str(tmp_path / "a.json"), "-f", str(broken)]) == 1
    assert f"{broken}:1: is not valid YAML" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (deployment(), "warning: is a Deployment that runs Triton, which is not checked: naiad-operator convert -f"),
        ({"apiVersion": "machinelearning.seldon.io/v1", "kind": "SeldonDeployment"}, "warning: is a SeldonDeployment of another system"),
        ({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime"}, "warning: is a ServingRuntime of another system"),
    ],
)  # fmt: skip
def test_check_names_other_model_servers(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], value: Object, words: str
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml_text.write([value]))
    assert cli.main(["check", "-f", str(path)]) == 1
    first, last = capsys.readouterr().err.splitlines()
    assert words in first
    assert last == f"nothing to check: no InferenceService in {path}"
