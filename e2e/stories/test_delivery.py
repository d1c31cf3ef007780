"""Story e, without a bucket: models in an image that is mounted, in an artifact of a registry whose tag moves, brought by an init container, kept on the node."""

import base64
import hashlib
import json
import pathlib
import typing

import pytest

from e2e import load, services
from e2e.addons import install
from e2e.bucket import EXAMPLES
from e2e.cluster import images
from e2e.cluster.cluster import Cluster
from e2e.demo import install_chart
from e2e.kubernetes import Kubernetes, Object
from tests.stores.clients.tarballs import tarball

if typing.TYPE_CHECKING:
    from tests.stores.clients.distribution import Distribution

_MODEL = EXAMPLES / "word_count"
_IMAGE = "cluster.local/models:1"
_HOST = "registry.store.svc.cluster.local:5000"
_USER, _PASSWORD = "user", "secret"
_TITLE = "org.opencontainers.image.title"
_RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _files() -> dict[str, pathlib.Path]:
    """The files of the model, by their path in a repository."""
    return {
        f"word_count/{path.relative_to(_MODEL)}": path
        for path in sorted(_MODEL.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def image(cluster: Cluster) -> str:
    """An image that holds the model and a few tools, and no server."""
    archive = cluster.archives / "models.tar"
    files = {f"opt/models/{name}": path for name, path in _files().items()}
    images.write(archive, _IMAGE, files, [])
    cluster.import_archive(archive)
    return _IMAGE


@pytest.fixture(scope="module")
def registry(cluster: Cluster) -> "Distribution":
    """A registry of the cluster, without TLS."""
    from tests.stores.clients.distribution import Distribution  # noqa: PLC0415 - its packages are not where the stories run in a pod

    install.registry(cluster)
    return Distribution(_HOST)


def _answers(kubernetes: Kubernetes, name: str) -> None:
    with load.http(f"{name}.{kubernetes.namespace}.svc.cluster.local:8000") as send:
        send()


def test_models_in_an_image_that_runs_nothing(kubernetes: Kubernetes, image: str) -> None:
    """Under Pod Security "restricted"; nothing is fetched."""
    model = {"image": {"path": "/opt/models", "reference": image, "pullPolicy": "Never"}}
    kubernetes.apply(services.service("shown", predictor={"model": model}))
    kubernetes.wait_ready("shown")
    _answers(kubernetes, "shown")
    kubernetes.wait_condition("shown", "ModelsLoaded", status="True", reason="Loaded")


def test_an_init_container_brings_the_models(kubernetes: Kubernetes, image: str) -> None:
    """The image of the tools mounts the models, as an image of a user's would fetch them."""
    bring = {
        "name": "bring",
        "image": "cluster.local/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "tar -C /from/opt -cf - models | tar -C /work -xf -"],
        "securityContext": _RESTRICTED,
        "volumeMounts": [
            {"name": "models", "mountPath": "/work"},
            {"name": "from", "mountPath": "/from", "readOnly": True},
        ],
    }
    source = {"name": "from", "image": {"reference": image, "pullPolicy": "Never"}}
    template = {"spec": {"initContainers": [bring], "volumes": [source]}}
    predictor = {"model": {"volume": {"path": "models", "size": "1Gi"}}, "podTemplate": template}
    kubernetes.apply(services.service("brought", predictor=predictor))
    kubernetes.wait_ready("brought")
    _answers(kubernetes, "brought")


def _pull_secret() -> Object:
    auth = base64.b64encode(f"{_USER}:{_PASSWORD}".encode()).decode()
    entry = {"username": _USER, "password": _PASSWORD, "auth": auth}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps({"auths": {_HOST: entry}})},
    }


def _layer(content: bytes, media_type: str) -> Object:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _push(registry: "Distribution", name: str, files: dict[str, bytes]) -> None:
    """An artifact as ORAS pushes it: one file with its title, the others packed."""
    packed = tarball(*files.items())
    note = b"made by the stories"
    layers: list[Object] = [
        _layer(packed, "application/vnd.oci.image.layer.v1.tar"),
        {**_layer(note, "text/plain"), "annotations": {_TITLE: "NOTE"}},
    ]  # fmt: skip
    registry.push(name, "stable", layers, [packed, note])


@pytest.mark.full
def test_an_artifact_whose_tag_moves(kubernetes: Kubernetes, registry: "Distribution") -> None:
    name = f"{kubernetes.namespace}/models"
    files = {path: file.read_bytes() for path, file in _files().items()}
    _push(registry, name, files)
    model = {
        "storageUri": f"oci://http://{_HOST}/{name}:stable",
        "storage": {"secretName": "pull"},
        "load": {"mode": "poll", "pollSeconds": 1},
    }
    kubernetes.apply(services.service("artifact", predictor={"model": model}))
    # The kubelet waits for the Secret.
    kubernetes.apply(_pull_secret())
    kubernetes.wait_ready("artifact")
    _answers(kubernetes, "artifact")
    files["word_count/2/model.py"] = files["word_count/1/model.py"]
    _push(registry, name, files)

    def versions() -> "list[str]":
        status = (kubernetes.get("infsvc", "artifact") or {}).get("status", {})
        return [one["version"] for one in status.get("models", ()) if one["state"] == "READY"]

    kubernetes.wait("version 2", lambda: versions() == ["2"], seen=versions, timeout=90)
    _answers(kubernetes, "artifact")


@pytest.mark.full
def test_what_one_pod_downloads_is_on_the_node_for_the_next(
    kubernetes: Kubernetes, cluster: Cluster, registry: "Distribution"
) -> None:
    """The chart's DaemonSet prepares the folder, a profile names it, and the second pod reads without the registry's blobs."""
    name = f"{kubernetes.namespace}/cached"
    _push(registry, name, {path: file.read_bytes() for path, file in _files().items()})
    folder = f"/opt/naiad-cache/{kubernetes.namespace}"
    profile = {
        "apiVersion": "serving.naiad.dev/v1alpha1",
        "kind": "NaiadProfile",
        "metadata": {"name": kubernetes.namespace},
        "spec": {"cache": {"type": "hostPath", "path": folder, "size": "1Gi"}},
    }
    install_chart(cluster, "nodeCache.enabled=true", f"nodeCache.path={folder}")
    try:
        # Pod Security lets only privileged namespaces have folders of the node.
        kubernetes.run("label", "namespace", kubernetes.namespace, "pod-security.kubernetes.io/enforce=privileged", "--overwrite")  # fmt: skip
        kubernetes.run("-n", "naiad-system", "rollout", "status", "daemonset/naiad-node-cache", "--timeout=60s")  # fmt: skip
        model = {"storageUri": f"oci://http://{_HOST}/{name}:stable", "storage": {"secretName": "pull"}}  # fmt: skip
        here = {"model": model, "nodeSelector": {"kubernetes.io/hostname": "node-b"}}
        first = services.service("first", predictor=here, profile=kubernetes.namespace)
        second = services.service("second", predictor=here, profile=kubernetes.namespace)
        kubernetes.apply(profile, _pull_secret(), first)
        kubernetes.wait_ready("first")
        _answers(kubernetes, "first")
        objects = _objects(kubernetes, "first")
        assert objects
        kubernetes.apply(second)
        kubernetes.wait_ready("second")
        _answers(kubernetes, "second")
        assert _objects(kubernetes, "second") == objects, "the same files, downloaded once"
        services.end(kubernetes, "first")
        services.end(kubernetes, "second")
    finally:
        kubernetes.run("delete", "naiadprofile", kubernetes.namespace, "--ignore-not-found")
        install_chart(cluster)


def _objects(kubernetes: Kubernetes, name: str) -> "dict[str, int]":
    """The files of the cache as a pod sees them, with their inodes."""
    program = "import os,json; print(json.dumps({one.name: one.inode() for one in os.scandir('/var/cache/naiad/objects/objects')}))"
    text = kubernetes.run("exec", f"deployment/{name}", "-c", "server", "--", "python3", "-c", program)  # fmt: skip
    found: dict[str, int] = json.loads(text)
    return found
