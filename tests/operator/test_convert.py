"""`naiad-operator convert`: what becomes of KServe's InferenceServices, and what is listed."""

import pathlib
import typing

import pytest

from naiad_operator import cli
from naiad_operator.api import yaml_text

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
        TRITON.replace("gs://kfserving-examples", "hf://acme"), tmp_path, capsys
    )
    assert status == 1
    assert "spec.predictor.triton.storageUri: hf://acme/models/torchscript is in no store" in err
    assert "the result needs an edit: spec.predictor.model" in err


def test_a_file_without_a_service_of_kserve(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, made, err = convert("kind: ConfigMap\n", tmp_path, capsys)
    assert (status, made) == (1, [])
    assert err.startswith("FILE: nothing to convert")


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
    text = TRITON.replace("    canaryTrafficPercent: 10", "    timeout: 60")
    text = text.replace("nvidia.com/gpu: 2", "nvidia.com/gpu: many")
    _, _, err = convert(text, tmp_path, capsys)
    assert "spec.predictor.timeout: not converted: there is no such field in Naiad" in err
