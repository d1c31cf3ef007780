"""`naiad-operator convert`: what becomes of KServe's InferenceServices, and what is listed."""

import pathlib
import typing

import pytest

from naiad_operator import cli
from naiad_operator.api.manifests import yaml_text

TRITON = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: torchscript-cifar10
  namespace: vision
spec:
  predictor:
    minReplicas: 1
    maxReplicas: 4
    scaleMetric: cpu
    scaleTarget: 70
    serviceAccountName: models
    nodeSelector: {pool: gpu}
    canaryTrafficPercent: 10
    triton:
      storageUri: gs://kfserving-examples/models/torchscript
      runtimeVersion: 20.10-py3
      env:
        - {name: OMP_NUM_THREADS, value: "1"}
      resources:
        requests: {cpu: "1", memory: 2Gi}
        limits: {cpu: "1", memory: 2Gi, nvidia.com/gpu: 2}
"""


def convert(
    text: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[typing.Any], str]:
    path = folder / "kserve.yaml"
    path.write_text(text)
    status = cli.main(["convert", "-f", str(path)])
    out, err = capsys.readouterr()
    return status, yaml_text.read(out), err.replace(str(path), "FILE")


def test_a_triton_predictor_becomes_a_service_that_check_accepts(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, (made,), err = convert(TRITON, tmp_path, capsys)
    assert status == 0
    assert made["metadata"] == {"name": "torchscript-cifar10", "namespace": "vision"}
    predictor = made["spec"]["predictor"]
    assert predictor["model"] == {"storageUri": "gs://kfserving-examples/models/torchscript"}
    assert predictor["accelerator"] == {"type": "gpu", "count": 2}
    assert predictor["resources"]["limits"] == {"cpu": "1", "memory": "2Gi"}
    assert predictor["autoscaling"]["metrics"][0]["resource"]["name"] == "cpu"
    assert predictor["nodeSelector"] == {"pool": "gpu"}
    assert [line.split(": ")[:2] for line in err.splitlines()] == [
        ["FILE:4", "metadata.name"],
        ["FILE:12", "spec.predictor.serviceAccountName"],
        ["FILE:14", "spec.predictor.canaryTrafficPercent"],
        ["FILE:17", "spec.predictor.triton.runtimeVersion"],
    ]
    written = tmp_path / "naiad.yaml"
    written.write_text(yaml_text.write([made]))
    assert cli.main(["check", "-q", "-f", str(written)]) == 0


def test_a_model_format_and_an_azure_store(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: iris}
spec:
  predictor:
    model:
      modelFormat: {name: onnx}
      storageUri: https://acme.blob.core.windows.net/models/iris
"""
    status, (made,), err = convert(text, tmp_path, capsys)
    assert status == 0
    assert made["spec"]["predictor"] == {
        "model": {"storageUri": "as://acme/models/iris"},
        "accelerator": {"type": "none"},
        "replicas": 1,
    }
    assert "FILE:7: spec.predictor.model.modelFormat" in err


def test_a_store_that_cannot_be_read_leaves_a_result_that_needs_an_edit(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = convert(
        TRITON.replace("gs://kfserving-examples", "http://acme"), tmp_path, capsys
    )
    assert status == 1
    assert (
        "spec.predictor.triton.storageUri: is http://…, which a server reads, but not a service"
        in err
    )
    assert (
        "the result needs an edit: InferenceService torchscript-cifar10: spec.predictor.model"
        in err
    )


def test_a_file_without_a_service_of_kserve(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, made, err = convert("kind: ConfigMap\n", tmp_path, capsys)
    assert (status, made) == (1, [])
    assert err.splitlines()[-1].startswith(
        "FILE: nothing to convert: no InferenceService of KServe"
    )


def test_check_names_a_service_of_kserve_and_points_to_convert(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kserve.yaml"
    path.write_text(TRITON)
    assert cli.main(["check", "-f", str(path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{path}:1: is an InferenceService of KServe: naiad-operator convert -f {path} writes Naiad's",
        "1 problem",
    ]


@pytest.mark.parametrize("low", [0, 1])
def test_pods_between_two_numbers_without_a_metric(
    low: int, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TRITON.replace("minReplicas: 1", f"minReplicas: {low}")
    text = text.replace("    scaleMetric: cpu\n    scaleTarget: 70\n", "")
    status, (made,), err = convert(text, tmp_path, capsys)
    assert status == 0
    scaling = made["spec"]["predictor"]["autoscaling"]
    assert (scaling["class"], scaling["minReplicas"], scaling["maxReplicas"]) == ("hpa", 1, 4)
    assert "FILE:9: spec.predictor.maxReplicas: the pods scale by 80 % CPU" in err
    assert ("FILE:8: spec.predictor.minReplicas: became 1" in err) == (low == 0)


def test_what_no_rule_takes_is_listed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TRITON.replace("    canaryTrafficPercent: 10", "    power: 60")
    text = text.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: many")
    _, _, err = convert(text, tmp_path, capsys)
    assert "spec.predictor.power: not converted: there is no such field in Naiad" in err


@pytest.mark.parametrize(
    ("metric", "target", "share", "words"),
    [
        ("cpu", 70, 70, ""),
        ("cpu", None, 80, ""),
        ("memory", 60, 60, ""),
        ("concurrency", 5, 80, "scaleMetric: the pods scale by 80 % CPU of resources.requests[cpu]: concurrency counted the requests in flight"),
        ("concurrency", 5, 80, "autoscaling.pendingRequests: 5 counts"),
        ("rps", 20, 80, 'for 20 requests per second and pod write autoscaling.class: keda and a trigger: {type: prometheus, metadata: {threshold: "20"'),
        ("power", 1, 80, "power is not a metric of KServe"),
    ],
)  # fmt: skip
def test_each_metric_of_kserve(  # noqa: PLR0917 - the columns of the table
    metric: str,
    target: int | None,
    share: int,
    words: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = "" if target is None else f"    scaleTarget: {target}\n"
    text = TRITON.replace("scaleMetric: cpu", f"scaleMetric: {metric}")
    _, (made,), err = convert(text.replace("    scaleTarget: 70\n", written), tmp_path, capsys)
    [resource] = made["spec"]["predictor"]["autoscaling"]["metrics"]
    name = metric if metric == "memory" else "cpu"
    target_of = {"type": "Utilization", "averageUtilization": share}
    assert resource["resource"] == {"name": name, "target": target_of}
    assert words in err
    assert ("FILE:10: spec.predictor.scaleMetric" in err) == bool(words)


def test_a_metric_without_pods_to_add_is_said(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, (made,), err = convert(TRITON.replace("maxReplicas: 4", "maxReplicas: 1"), tmp_path, capsys)
    assert made["spec"]["predictor"]["replicas"] == 1
    assert "spec.predictor.scaleMetric: left out: maxReplicas is not above minReplicas" in err


def test_a_share_of_a_request_that_is_not_set_is_said(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, err = convert(TRITON.replace('cpu: "1", ', ""), tmp_path, capsys)
    assert "a share of resources.requests[cpu], which is not set: write it, e.g." in err
