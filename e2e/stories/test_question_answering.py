"""Story: KServe's example of question answering, from its manifests to an answer: with the transformer as a container, and as a model in the server."""

import collections.abc
import json
import pathlib
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import yaml

from e2e import bucket, services
from e2e.kubernetes import Kubernetes, Object

ROOT = pathlib.Path(__file__).resolve().parents[2]
_EXAMPLE = ROOT / "examples" / "question_answering"
_CONTEXT = "The bridge over the river Ilm was built by Clara Weber in 1892."
_ASKED = {"instances": [{"context": _CONTEXT, "question": "Who built the bridge?"}]}
_LEAST = 0.9
_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}}
_BAD_REQUEST = 400


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The network, and the model in front of it."""
    pytest.importorskip("onnx", reason="the network of the example is made with the package onnx")
    folder = tmp_path_factory.mktemp("models")
    made = [sys.executable, str(_EXAMPLE / "make_question_answering.py"), str(folder)]
    subprocess.run(made, check=True, timeout=120)
    return folder


def _account() -> list[Object]:
    """The ServiceAccount with whose Secret KServe reads the store."""
    host = bucket.ADDRESS.partition("://")[2]
    values = {"s3-endpoint": host, "s3-usehttps": "0", "s3-region": bucket.REGION}
    secret = services.secret()
    secret["metadata"]["annotations"] = {
        f"serving.kserve.io/{key}": value for key, value in values.items()
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "models"}, "secrets": [{"name": services.SECRET}]}  # fmt: skip
    return [secret, account]


def _converted(folder: pathlib.Path, *manifests: Object) -> Object:
    """What `naiad-operator convert` makes of the manifests' one InferenceService, without an edit."""
    file = folder / "kserve.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    command = [sys.executable, "-m", "naiad_operator", "convert", "-f", str(file)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    made: Object = yaml.safe_load(ended.stdout)
    return made


def _asks(host: str, model: str, body: Object) -> tuple[int, Object]:
    """The status and the answer, by way of the ingress controller."""
    request = urllib.request.Request(f"http://{host}/v1/models/{model}:predict", json.dumps(body).encode(), {"Content-Type": "application/json"})  # fmt: skip
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else {}


def _serve(
    kubernetes: Kubernetes,
    service: Object,
    host: str,
    others: collections.abc.Iterable[Object] = (),
) -> None:
    service["spec"]["ingress"] = services.ingress(host)
    kubernetes.apply(*_account(), *others, service)
    kubernetes.wait_ready(service["metadata"]["name"], timeout=180)


def _in_one_server(uri: str) -> Object:
    """As KServe has it today."""
    model = {"modelFormat": {"name": "triton"}, "protocolVersion": "v2", "storageUri": uri, "resources": _RESOURCES}  # fmt: skip
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "one"},
        "spec": {"predictor": {"serviceAccountName": "models", "model": model}},
    }


def _with_container(uri: str, files: str, image: str) -> Object:
    """As NVIDIA's and KFServing's example has it: v1alpha2, with a container of its own in front, to which KServe copies the vocabulary."""
    container = {
        "name": "kfserving-container",
        "image": image,
        "command": ["python3", "/qa/plain_transformer.py"],
        "env": [{"name": "STORAGE_URI", "value": files}],
        "resources": _RESOURCES,
        "volumeMounts": [{"name": "program", "mountPath": "/qa"}],
    }
    volume = {"name": "program", "configMap": {"name": "transformer"}}
    return {
        "apiVersion": "serving.kubeflow.org/v1alpha2",
        "kind": "InferenceService",
        "metadata": {"name": "bert"},
        "spec": {
            "default": {
                "predictor": {"serviceAccountName": "models", "triton": {"storageUri": uri, "resources": _RESOURCES}},
                "transformer": {"custom": {"container": container}, "serviceAccountName": "models", "volumes": [volume]},
            }
        },
    }  # fmt: skip


def _program() -> Object:
    """The ConfigMap with the transformer's program."""
    files = [ROOT / "e2e" / "plain_transformer.py", _EXAMPLE / "passages.py", _EXAMPLE / "wordpiece.py"]  # fmt: skip
    data = {file.name: file.read_text() for file in files}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "transformer"}, "data": data}  # fmt: skip


def test_a_question_is_answered_from_a_converted_manifest_both_ways(
    kubernetes: Kubernetes, models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    store, prefix = bucket.Bucket("questions"), kubernetes.namespace
    store.upload(models, f"{prefix}/both")
    store.upload(models / "bert", f"{prefix}/network/bert")
    store.upload(models / "question_answering" / "1", f"{prefix}/files")
    # A model.py in front of the network, in one server.
    host = "demo.example.com"
    _serve(kubernetes, _converted(tmp_path, *_account(), _in_one_server(store.uri(f"{prefix}/both"))), host)  # fmt: skip
    kubernetes.wait("the route", lambda: _asks(host, "question_answering", _ASKED)[0] == 200)
    status, answer = _asks(host, "question_answering", _ASKED)
    assert status == 200
    [row] = answer["predictions"]
    assert row["predictions"] == ["Clara Weber"]
    assert row["prob"][0] > _LEAST
    # A container in front of a server that has the network alone.
    served = kubernetes.get("infsvc", "one")
    assert served is not None
    image = served["status"]["image"]["name"]
    kserve = _with_container(store.uri(f"{prefix}/network"), store.uri(f"{prefix}/files"), image)
    converted = _converted(tmp_path, *_account(), kserve)
    host = "quickstart.example.com"
    _serve(kubernetes, converted, host, [_program()])
    kubernetes.wait("the route", lambda: _asks(host, "bert", _ASKED)[0] == 200)
    status, answer = _asks(host, "bert", _ASKED)
    assert (status, answer["predictions"]) == (200, "Clara Weber")
    assert answer["prob"] > _LEAST
    assert _asks(host, "bert", {"instances": [{"context": "no question"}]})[0] == _BAD_REQUEST
    for component in ("server", "transformer"):
        labels = f"app.kubernetes.io/instance=bert,app.kubernetes.io/component={component}"
        assert len(kubernetes.list("pods", labels)) == 1
