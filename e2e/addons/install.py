"""Installs the add-ons on the cluster: images of single programs first, then their manifests."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence

import yaml

from e2e.addons.target import Target
from e2e.cluster import images, namespaces
from tests.toolchain import build, debian, programs

_EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
_CHART = _EXAMPLES.parent / "charts" / "naiad"
MANIFESTS = pathlib.Path(__file__).parent / "manifests"
MONITORING = ("prometheus", "prometheus-adapter")
_GATEWAY_API = ("sigs.k8s.io/gateway-api", "v1.4.0")


def everything(cluster: Target, say: Callable[[str], None]) -> None:
    """All add-ons of the stories, and the example models in the bucket `models`."""
    import_images(cluster, "coredns", "traefik", "versitygw")
    apply(cluster, "coredns")
    apply_gateway_api(cluster)
    apply(cluster, "traefik", "s3")
    wait_for_deployments(cluster, "kube-system/coredns", "ingress/traefik", "store/s3")
    say("DNS, ingress controller and object store")
    upload(cluster, _EXAMPLES / "model_repository", "models", "production")
    say("the example models in the bucket s3://models/production")


def import_images(cluster: Target, *names: str) -> None:
    """Makes the images of programs known to every node, and one of busybox."""
    for name in names:
        import_program(cluster, name)
    archive = cluster.archives / "busybox.tar"
    links = {f"bin/{name}": "busybox" for name in ("sh", "mkdir", "sleep", "cat", "ls", "tar")}
    if not archive.exists():
        files = {"bin/busybox": debian.unpacked("busybox-static")}
        images.write(archive, "cluster.local/busybox:1", files, [], links=links)
    cluster.import_archive(archive)


def monitoring(cluster: Target) -> None:
    """Prometheus, and prometheus-adapter with the rules of this project's chart; nothing if they run."""
    if "prometheus" in cluster.kubectl("get", "deployments", "-A", "-o", "name"):
        return
    for name in MONITORING:
        import_program(cluster, name)
    apply(cluster, "prometheus")
    cluster.kubectl("apply", "-f", "-", text=json.dumps(_adapter_rules()))
    apply(cluster, "adapter")
    wait_for_deployments(cluster, "monitoring/prometheus", "monitoring/adapter")


def google_storage(cluster: Target) -> None:
    """A stand-in for Google Cloud Storage, in the image of the server; nothing if it runs. The chart must be installed."""
    if "gcs" in cluster.kubectl("-n", "store", "get", "deployments", "-o", "name"):
        return
    from tests.stores import fake_gcs  # noqa: PLC0415 - its package is not where the stories run in a pod

    _import_image(cluster, "fake-gcs-server", fake_gcs.program())
    front = MANIFESTS.parent / "google_front.py"
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "gcs", "namespace": "store"},
        "data": {front.name: front.read_text()},
    }
    cluster.kubectl("apply", "--server-side", "-f", "-", text=json.dumps(config))
    server = server_image(cluster.kubectl)
    text = (MANIFESTS / "gcs.yaml").read_text().replace("SERVER_IMAGE", server)
    cluster.kubectl("apply", "--server-side", "-f", "-", text=cluster.adapted(text))
    wait_for_deployments(cluster, "store/gcs")


def registry(cluster: Target) -> None:
    """A registry of the OCI specification; nothing if it runs."""
    if "registry" in cluster.kubectl("-n", "store", "get", "deployments", "-o", "name"):
        return
    import_program(cluster, "registry")
    apply(cluster, "registry")
    wait_for_deployments(cluster, "store/registry")


def server_image(kubectl: Callable[..., str]) -> str:
    """The image that the operator gives to services."""
    option = "--default-image="
    wanted = "jsonpath={.items[*].spec.template.spec.containers[*].args[*]}"
    arguments = kubectl("-n", "naiad-system", "get", "deployments", "-o", wanted).split()
    return next(word.removeprefix(option) for word in arguments if word.startswith(option))


def _adapter_rules() -> "dict[str, object]":
    """The ConfigMap of prometheus-adapter, from the values that the chart gives its users."""
    values = yaml.safe_load((_CHART / "files" / "prometheus-adapter-values.yaml").read_text())
    config = {"rules": values["rules"]["custom"]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "adapter-rules", "namespace": "monitoring"},
        "data": {"config.yaml": yaml.safe_dump(config)},
    }


def import_program(cluster: Target, name: str) -> None:
    """An image of one program that is built here, which has its name."""
    _import_image(cluster, name, programs.find([name]).paths[name])


def _import_image(cluster: Target, name: str, program: pathlib.Path) -> None:
    archive = cluster.archives / f"{name}.tar"
    if not archive.exists() or archive.stat().st_mtime < program.stat().st_mtime:
        images.write(archive, f"cluster.local/{name}:1", {name: program}, [f"/{name}"])
    cluster.import_archive(archive)


def apply(cluster: Target, *names: str) -> None:
    """Applies manifests of this package by name, e.g. `coredns`."""
    for name in names:
        manifest = cluster.adapted((MANIFESTS / f"{name}.yaml").read_text())
        cluster.kubectl("apply", "--server-side", "-f", "-", text=manifest)


def apply_gateway_api(cluster: Target) -> None:
    """Installs the kinds of the Gateway API."""
    module, version = _GATEWAY_API
    home = programs.cache_folder() / f"gateway-api-{version}"
    folder = build.source_folder(module, version, "config/crd/experimental", home)
    files = [word for file in sorted(folder.glob("gateway*.yaml")) for word in ("-f", str(file))]
    cluster.kubectl("apply", "--server-side", *files)


def wait_for_deployments(cluster: Target, *names: str, timeout: float = 120) -> None:
    """Waits until deployments, each `namespace/name`, are available.

    Raises:
        ComponentError: one is not in time; the message has its pods and events.
    """
    for name in names:
        namespace, deployment = name.split("/")

        def available(namespace: str = namespace, deployment: str = deployment) -> bool:
            text = cluster.kubectl("-n", namespace, "get", "deployment", deployment, "-o", "json")
            item = json.loads(text)
            wanted, status = item["spec"]["replicas"], item.get("status", {})
            seen = status.get("observedGeneration", 0) >= item["metadata"]["generation"]
            return bool(seen and status.get("availableReplicas", 0) >= wanted)

        try:
            namespaces.wait(name, available, timeout=timeout)
        except namespaces.ComponentError as error:
            pods = cluster.kubectl("-n", namespace, "get", "pods,events", "-o", "wide")
            raise namespaces.ComponentError(f"{error}\n{pods}") from None


def upload(cluster: Target, folder: pathlib.Path, bucket: str, prefix: str) -> None:
    """Copies a folder into the object store; the bucket is made if it does not exist."""
    run(cluster, [sys.executable, "-m", "e2e.bucket", str(folder), bucket, prefix])


def helm(cluster: Target, *arguments: str) -> str:
    """Runs helm on the cluster; what it printed."""
    return run(cluster, [programs.find(["helm"])["helm"], *arguments])


def run(cluster: Target, command: Sequence[str]) -> str:
    """Runs a command in the cluster's network; what it printed. Ctrl-C does not reach it, as in e2e/kubectl.py.

    Raises:
        RuntimeError: it failed.
    """
    line = cluster.run(*command)
    finished = subprocess.run(line, capture_output=True, text=True, check=False, process_group=0)
    if finished.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {finished.stdout}{finished.stderr}")
    return finished.stdout
