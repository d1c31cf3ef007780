"""KServe's predictors are pods: their arguments, volumes, labels and probes follow the rules for pods of Triton."""

import typing

import pytest

from tests.operator.convert.triton import RUN, Object, listed


def kserve(
    container: Object | None = None, predictor: Object | None = None, **metadata: typing.Any
) -> Object:
    """An InferenceService of KServe with a predictor triton."""
    triton = {"storageUri": "s3://acme/models", **(container or {})}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "demo", **metadata},
        "spec": {"predictor": {"triton": triton, **(predictor or {})}},
    }


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        (["--model-control-mode=explicit", "--load-model=a"], {"model": {"load": {"mode": "explicit", "models": ["a"]}}}),
        (["--model-repository=/mnt/models", "--model-store", "/mnt/models/"], {}),
        (["--http-port=8080", "--grpc-port=9000"], {"ports": {"http": 8080, "grpc": 9000}}),
        (["--exit-timeout-secs=120"], {"terminationGracePeriodSeconds": 135}),
        (["--log-verbose=1"], {"args": ["--log-verbose=1"]}),
    ],
)  # fmt: skip
def test_arguments_become_fields(convert: RUN, args: list[str], fields: Object) -> None:
    converted = convert(kserve({"command": ["tritonserver"], "args": args}))
    assert converted.status == 0
    model = {"storageUri": "s3://acme/models", **fields.pop("model", {})}
    expected = {"model": model, "accelerator": {"type": "none"}, "replicas": 1}
    assert converted.predictor == {**expected, **fields}


def test_an_argument_that_the_server_refuses_is_left_out(convert: RUN) -> None:
    converted = convert(kserve({"args": ["--allow-sagemaker=true"]}))
    assert converted.status == 0
    assert listed(converted, "triton.args[0]: left out: --allow-sagemaker=true")


def test_another_repository_than_the_models_of_kserve_is_said(convert: RUN) -> None:
    converted = convert(kserve({"args": ["--model-repository=/mnt/models/b"]}))
    assert listed(converted, "left out: --model-repository=/mnt/models/b: model.storageUri is")
    assert "args" not in converted.predictor


def test_a_container_of_ones_own_that_runs_triton(convert: RUN) -> None:
    container = {
        "name": "kserve-container",
        "image": "nvcr.io/nvidia/tritonserver:24.01-py3",
        "args": ["tritonserver", "--model-repository=/mnt/models"],
        "env": [{"name": "STORAGE_URI", "value": "gs://acme/models"}],
        "resources": {"limits": {"nvidia.com/mig-1g.10gb": 1}},
    }
    source = kserve()
    source["spec"]["predictor"] = {"containers": [container, {"name": "agent", "image": "a"}]}
    converted = convert(source)
    assert converted.status == 0
    assert converted.predictor == {
        "model": {"storageUri": "gs://acme/models"},
        "accelerator": {"type": "mig", "profile": "1g.10gb", "count": 1},
        "replicas": 1,
    }
    assert listed(converted, "spec.predictor.containers: not converted: another container")


def test_volumes_probes_and_stopping(convert: RUN) -> None:
    container = {
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": 8080}},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "20"]}}},
    }
    predictor = {
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
        "terminationGracePeriodSeconds": 300,
        "automountServiceAccountToken": True,
        "schedulerName": "volcano",
        "deploymentStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}},
    }
    converted = convert(kserve(container, predictor))
    assert converted.predictor == {
        "model": {"storageUri": "s3://acme/models"},
        "accelerator": {"type": "none"},
        "sharedMemory": "8Gi",
        "drainSeconds": 20,
        "terminationGracePeriodSeconds": 300,
        "automountServiceAccountToken": True,
        "deploymentStrategy": {"type": "RollingUpdate", "maxSurge": 0},
        "podTemplate": {"spec": {"schedulerName": "volcano"}},
        "replicas": 1,
    }
    assert sum("Probe" in line for line in converted.lines) == 1


def test_devices_of_variables_and_of_the_strategy_single(convert: RUN) -> None:
    container = {
        "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    selector = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}
    converted = convert(kserve(container, {"nodeSelector": selector}))
    assert converted.predictor["accelerator"]["profile"] == "1g.5gb"
    assert not converted.predictor.keys() & {"env", "nodeSelector"}
    assert listed(converted, "left out: CUDA_VISIBLE_DEVICES")


def test_labels_and_annotations_that_pods_have_in_kserve(convert: RUN) -> None:
    annotations = {
        "serving.kserve.io/deploymentMode": "RawDeployment",
        "sidecar.istio.io/inject": "false",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    source = kserve(
        {}, {"labels": {"cost": "b"}}, labels={"team": "vision"}, annotations=annotations
    )
    converted = convert(source)
    [service] = converted.services
    assert service["spec"]["labels"] == {"team": "vision", "cost": "b"}
    assert service["spec"]["annotations"] == {"sidecar.istio.io/inject": "false"}
    assert listed(converted, "metadata.annotations: left out: serving.kserve.io/deploymentMode:")


def test_a_stopped_service_stays_stopped(convert: RUN) -> None:
    converted = convert(kserve(annotations={"serving.kserve.io/stop": "true"}))
    [service] = converted.services
    assert service["spec"]["suspend"] is True
    assert not listed(converted, "serving.kserve.io/stop")


def test_the_secrets_of_a_service_account_and_the_address_of_clients_are_said(
    convert: RUN,
) -> None:
    converted = convert(kserve({}, {"serviceAccountName": "reader"}))
    assert converted.predictor["serviceAccountName"] == "reader"
    assert listed(converted, "serviceAccountName: KServe also reads the store with the Secrets of")
    assert listed(converted, "metadata.name: clients find the service as demo, ports 8000 (HTTP)")


@pytest.mark.parametrize(
    ("predictor", "replicas", "words"),
    [
        ({"minReplicas": "2"}, 1, "minReplicas: left out: '2' is not an integer"),
        ({"minReplicas": 3, "maxReplicas": 2}, 3, "maxReplicas: left out: 2 is less than minReplicas, 3"),
        ({"minReplicas": 0}, 1, "maxReplicas: is not set, so that Knative added pods without a limit"),
        ({"scaleMetric": "concurrency"}, 1, "maxReplicas: is not set, so that Knative added pods without a limit"),
    ],
)  # fmt: skip
def test_numbers_of_pods_that_do_not_fit(
    convert: RUN, predictor: Object, replicas: int, words: str
) -> None:
    converted = convert(kserve({}, predictor))
    assert converted.predictor["replicas"] == replicas
    assert listed(converted, words), converted.lines


def test_an_older_field_of_a_framework_and_a_runtime_are_named(convert: RUN) -> None:
    source = kserve()
    source["spec"]["predictor"] = {"onnx": {"storageUri": "s3://acme/models"}}
    runtime = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": "a"}}  # fmt: skip
    converted = convert(source, runtime)
    assert converted.predictor["model"] == {"storageUri": "s3://acme/models"}
    assert listed(
        converted, "spec.predictor.onnx.modelFormat: left out: 'onnx': the server finds the format"
    )
    assert listed(converted, "ServingRuntime a: not converted: no runtime is needed")


def test_a_store_in_a_secret_is_said_once(convert: RUN) -> None:
    source = kserve({"args": ["--model-repository=/mnt/models"]})
    triton = source["spec"]["predictor"]["triton"]
    triton["storage"] = {"key": "minio", "path": "models"}
    del triton["storageUri"]
    converted = convert(source)
    assert converted.status == 1
    assert listed(converted, "triton.storage: not converted: write model.storageUri, e.g. s3://")
    assert not listed(converted, "no volume is mounted there")


def test_a_predictor_outside_of_the_spec_is_said(convert: RUN) -> None:
    source = kserve()
    source |= source.pop("spec")
    converted = convert(source)
    assert converted.status == 1
    assert listed(converted, "predictor: not converted: Kubernetes has no such field: write it in")


def test_a_metric_and_a_share_in_annotations(convert: RUN) -> None:
    annotations = {"serving.kserve.io/metric": "memory", "serving.kserve.io/targetUtilizationPercentage": "70"}  # fmt: skip
    requests = {"resources": {"requests": {"memory": "4Gi"}}}
    converted = convert(kserve(requests, {"maxReplicas": 3}, annotations=annotations))
    [metric] = converted.predictor["autoscaling"]["metrics"]
    assert metric["resource"] == {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}}  # fmt: skip
    assert not listed(converted, "annotations")
    del annotations["serving.kserve.io/metric"]
    converted = convert(kserve({}, {"maxReplicas": 3}, annotations=annotations))
    [metric] = converted.predictor["autoscaling"]["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}  # fmt: skip


def test_a_container_of_another_server_is_named(convert: RUN) -> None:
    source = kserve()
    source["spec"]["predictor"] = {"containers": [{"name": "kserve-container", "image": "mlserver"}]}  # fmt: skip
    converted = convert(source)
    assert converted.status == 1
    assert listed(converted, "spec.predictor.containers: none of them runs tritonserver")
    assert sum("storageUri" in line for line in converted.lines) == 2, "what to write, and the rule"
