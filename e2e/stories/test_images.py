"""The server's image without the operator: in place of Triton's, with the models mounted at /models, as platforms like PAI-EAS run it."""

import functools
import typing

from e2e import load
from e2e.addons import install
from e2e.bucket import EXAMPLES
from e2e.kubernetes import Kubernetes, Object

_MODEL = EXAMPLES / "word_count"
_FILES = {"config": "config.pbtxt", "model": "1/model.py"}


def test_it_starts_as_tritonserver_on_a_mounted_folder(kubernetes: Kubernetes) -> None:
    kubernetes.apply(_models(), _pod(install.server_image(kubernetes.run)), _service())
    kubernetes.run("wait", "pod/triton", "--for=condition=Ready", "--timeout=60s")
    host = f"triton.{kubernetes.namespace}.svc.cluster.local"
    senders = functools.partial(load.http, f"{host}:8000"), functools.partial(load.grpc, f"{host}:8001")  # fmt: skip
    load.wait_for_routes(kubernetes, *senders)
    user = kubernetes.run("exec", "triton", "--", "python3", "-c", "import os; print(os.getuid())")
    assert int(user) == 1000, "a number, so that a cluster can see that it is not root"


def _models() -> Object:
    """A model repository as a ConfigMap: its keys may have no slashes, which the volume's paths bring back."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "models"},
        "data": {key: (_MODEL / path).read_text() for key, path in _FILES.items()},
    }


def _pod(image: str) -> Object:
    """A pod as strict as the level `restricted` and a read-only root allow; its probe is the image's own health check, which needs no shell."""
    items = [{"key": key, "path": f"word_count/{path}"} for key, path in _FILES.items()]
    health = (
        "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/v2/health/live', timeout=4)"
    )
    container: dict[str, typing.Any] = {
        "name": "triton",
        "image": image,
        "args": ["tritonserver", "--model-repository=/models"],
        "ports": [{"containerPort": port} for port in (8000, 8001, 8002)],
        "livenessProbe": {"exec": {"command": ["python3", "-c", health]}, "timeoutSeconds": 5},
        "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": 8000}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "models", "mountPath": "/models", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "triton", "labels": {"app": "triton"}},
        "spec": {
            "containers": [container],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "terminationGracePeriodSeconds": 5,
            "volumes": [
                {"name": "models", "configMap": {"name": "models", "items": items}},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
    }


def _service() -> Object:
    ports = [{"name": name, "port": port} for name, port in (("http", 8000), ("grpc", 8001))]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "triton"},
        "spec": {"selector": {"app": "triton"}, "ports": ports},
    }
