"""The ServingRuntime that a predictor of KServe names, when it is in the same files."""

import typing

import pytest

from tests.operator.convert.test_kserve_pods import kserve
from tests.operator.convert.triton import RUN, Object, listed


def runtime(container: Object | None = None, kind: str = "ServingRuntime", **spec: typing.Any) -> Object:  # fmt: skip
    server = {
        "name": "kserve-container",
        "image": "nvcr.io/nvidia/tritonserver:25.01-py3",
        "args": ["tritonserver", "--model-store=/mnt/models", "--http-port=8080", "--trace-magic=1"],
        **(container or {}),
    }  # fmt: skip
    return {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "triton"},
        "spec": {"containers": [server], **spec},
    }


@pytest.mark.parametrize("kind", ["ServingRuntime", "ClusterServingRuntime"])
def test_a_runtime_is_part_of_the_service(convert: RUN, kind: str) -> None:
    container = {
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "8"}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    shm = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    given = runtime(container, kind, volumes=[shm], nodeSelector={"pool": "gpu", "zone": "a"})
    own = {
        "runtime": "triton",
        "args": ["--log-verbose=1", "--colour=1"],
        "env": [{"name": "B", "value": "3"}],
        "resources": {"limits": {"cpu": "6"}},
    }
    converted = convert(kserve(own, {"nodeSelector": {"zone": "b"}}, namespace="models"), given)
    assert converted.status == 0
    assert converted.predictor == {
        "model": {"storageUri": "s3://acme/models"},
        "args": ["--log-verbose=1"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}],
        "ports": {"http": 8080},
        "accelerator": {"type": "none"},
        "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "6"}},
        "sharedMemory": "8Gi",
        "nodeSelector": {"pool": "gpu", "zone": "b"},
        "replicas": 1,
    }
    assert listed(converted, f"triton.runtime: {kind} triton is part of the service")
    assert listed(converted, "triton.runtime: left out: the server has no option --trace-magic")
    assert listed(converted, "triton.args[1]: left out: the server has no option --colour")
    assert not listed(converted, "the server does not mount them")


def test_a_runtime_of_another_server_or_namespace_is_not_used(convert: RUN) -> None:
    other = runtime({"image": "kserve/sklearnserver", "args": ["--model_dir=/mnt/models"]})
    elsewhere = runtime()
    elsewhere["metadata"]["namespace"] = "elsewhere"
    for given in (other, elsewhere):
        converted = convert(kserve({"runtime": "triton"}), given)
        assert "ports" not in converted.predictor
        assert listed(converted, "triton.runtime: not converted: no runtime is needed")
