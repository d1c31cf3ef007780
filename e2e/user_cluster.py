"""The cluster of `$KUBECONFIG`: images go to a registry of the user's, the stories run in a pod, and everything is removed afterwards."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import time
import typing
from collections.abc import Callable, Iterator, Sequence

import yaml

from e2e.addons import install
from e2e.cluster.layout import HOSTS
from e2e.demo import ROOT, install_chart
from e2e.imagebuild import base, releases, wheels
from e2e.imagebuild.build import PARTS, Images
from e2e.imagebuild.buildah import Buildah
from e2e.registry_cluster import IN_POD_VARIABLE, RegistryCluster
from tests.toolchain import debian, programs

REGISTRY_VARIABLE = "NAIAD_REGISTRY"
_NAMESPACE = "naiad-stories"
_POD = "stories"
_CRD = "inferenceservices.serving.naiad.dev"
_GATEWAY_CRD = "gateways.gateway.networking.k8s.io"
_TREE = (
    "pyproject.toml",
    "charts",
    "e2e",
    "examples",
    "tests/__init__.py",
    "tests/support/__init__.py",
    "tests/support/sliced_gpu",
    "tests/toolchain",
    "operator/naiad_operator",
)
_PACKAGES = ("pytest", "pytest-asyncio", "pytest-timeout", "boto3", "numpy", "pyyaml", "cryptography", "cyclonedx-python-lib", "google-cloud-storage", "tritonclient[grpc,http]")  # fmt: skip
_REPORT_PACKAGES = ("aiohttp", "kubernetes", "msgspec", "typing-extensions")
"""For what is printed of a story that failed."""
_START_S = 300
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "own", "cluster": {"server": "https://kubernetes.default.svc", "certificate-authority": f"{_ACCOUNT}/ca.crt"}}],
    "users": [{"name": "own", "user": {"tokenFile": f"{_ACCOUNT}/token"}}],
    "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
    "current-context": "own",
}  # fmt: skip
"""The pod's own account, in a file: without one, `kubectl --as` does not find the cluster."""
_DOCKERFILE = f"""\
FROM {base.NAME}
COPY wheels /wheels
RUN python3 -m venv /opt/stories && /opt/stories/bin/pip install -q --no-index --find-links=/wheels /wheels/*.whl
COPY tools /opt/tools
COPY cache /opt/cache
COPY tree /stories
WORKDIR /stories
ENV PATH=/opt/stories/bin:/opt/tools:$PATH KUBEBUILDER_ASSETS=/opt/tools XDG_CACHE_HOME=/opt/cache
ENV KUBECONFIG=/opt/tools/kubeconfig OPENSSL_CONF=/opt/tools/openssl.cnf HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 1000:1000
"""


class UserClusterError(RuntimeError):
    """The cluster or the registry cannot be used; the message says what to do."""


class UserCluster(RegistryCluster):
    """The cluster of `$KUBECONFIG`.

    Args:
        registry: where images are pushed to, e.g. `registry.example.com/team`; with `http://` before it, without TLS. The nodes must be
            able to pull from it, and buildah to push to it (`buildah login`).
        folder: where image archives lie.
        step: called with each step that is done.
    """

    def __init__(self, registry: str, folder: pathlib.Path, step: Callable[[str], None]) -> None:
        self._insecure = registry.startswith("http://")
        super().__init__(registry.removeprefix("http://").rstrip("/"))
        self._step = step
        self._buildah = Buildah(folder / "storage")
        self._folder = folder

    @property
    def archives(self) -> pathlib.Path:
        """A folder for image archives."""
        return self._folder / "add-ons"

    def import_archive(self, archive: pathlib.Path) -> None:
        """Pushes the image of an archive to the registry, under its own name and tag."""
        with tarfile.open(archive) as tar:
            manifest = tar.extractfile("manifest.json")
            assert manifest is not None, archive
            tag = str(json.loads(manifest.read())[0]["RepoTags"][0])
        local = self._buildah.load(archive)
        self._buildah.push(local, self.image(tag.rpartition("/")[2]), insecure=self._insecure)

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Naiad, the add-ons and the stories' image on the cluster, for a context.

        Raises:
            UserClusterError: Naiad is on it already.
            RuntimeError: something could not be installed.
        """
        if self._has(_CRD):
            raise UserClusterError(f"this cluster has Naiad already (the CRD {_CRD}): the stories install it and remove it, so use a cluster without it")  # fmt: skip
        gateway_api = self._has(_GATEWAY_CRD)
        try:
            with Images(ROOT, self._folder, self._step) as images:
                images.prepare()
                for part in PARTS:
                    self.import_archive(images.build(part).archive)
                releases.provide(self, images, ROOT)
                self._build_stories()
            self._step("images built and pushed")
            install.import_images(self, "traefik", "versitygw")
            if not gateway_api:
                install.apply_gateway_api(self)
            install.apply(self, "traefik", "s3")
            install.wait_for_deployments(self, "ingress/traefik", "store/s3")
            install_chart(self)
            install.google_storage(self)
            self._step("ingress controller, object stores and the chart")
            yield
        finally:
            self._buildah.unmount()
            self._remove(gateway_api=gateway_api)
            self._step("removed from the cluster")

    def run_stories(self, pytest: Sequence[str]) -> int:
        """Runs the stories in a pod and prints what they print; the exit status."""
        address = self.kubectl("-n", "ingress", "get", "service", "traefik", "-o", "jsonpath={.spec.clusterIP}")  # fmt: skip
        self.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(self.manifests(address, pytest)))
        self.kubectl("-n", _NAMESPACE, "wait", f"pod/{_POD}", "--for=condition=Ready", f"--timeout={_START_S}s")  # fmt: skip
        subprocess.run([self._kubectl, "-n", _NAMESPACE, "logs", "-f", _POD], check=False)
        query = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            status = self.kubectl("-n", _NAMESPACE, "get", "pod", _POD, "-o", query)
            if status:
                return int(status)
            time.sleep(0.5)
        raise UserClusterError(f"the pod {_NAMESPACE}/{_POD} stopped printing and did not end")

    def _build_stories(self) -> None:
        """An image with the stories, what they import, and the programs that they run."""
        base.ensure(self._buildah)
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            folder = pathlib.Path(name)
            wheels.download(ROOT, folder / "wheels", (*_PACKAGES, *_REPORT_PACKAGES))
            (folder / "tools").mkdir()
            for program in ("kubectl", "helm"):
                shutil.copy2(programs.find([program]).paths[program], folder / "tools" / program)
            openssl = debian.unpacked("openssl")
            for file in (openssl, openssl.parents[2] / "etc" / "ssl" / "openssl.cnf"):
                shutil.copy2(file, folder / "tools" / file.name)
            debian.unpacked("libfaketime")
            packages = programs.cache_folder() / "debian"
            own = folder / "cache" / packages.relative_to(packages.parents[2])
            shutil.copytree(packages / "libfaketime", own / "libfaketime")
            for part in _TREE:
                source, place = ROOT / part, folder / "tree" / part
                place.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy2(source, place)
            (folder / "tools" / "kubeconfig").write_text(json.dumps(_KUBECONFIG))
            (folder / "Dockerfile").write_text(_DOCKERFILE)
            self._buildah.build(folder, "Dockerfile", "naiad-stories:1")
        self._buildah.push("naiad-stories:1", self.image("naiad-stories:1"), insecure=self._insecure)  # fmt: skip

    def manifests(self, address: str, pytest: Sequence[str]) -> "list[dict[str, typing.Any]]":
        """The pod with its namespace and rights: it makes namespaces and everything in them."""
        metadata = {"name": _POD, "namespace": _NAMESPACE}
        upload = "python -m e2e.bucket examples/model_repository models production"
        container = {
            "name": _POD,
            "image": self.image("naiad-stories:1"),
            "imagePullPolicy": "Always",
            "env": [{"name": IN_POD_VARIABLE, "value": self._registry}],
            "command": ["sh", "-c", f'{upload} && exec python -m pytest "$@"', "stories", *pytest],
        }
        pod = {
            "serviceAccountName": _POD,
            "restartPolicy": "Never",
            "containers": [container],
            "hostAliases": [{"ip": address, "hostnames": list(HOSTS)}],
        }
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}  # fmt: skip
        subject = {"kind": "ServiceAccount", **metadata}
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": _NAMESPACE},
                "roleRef": role,
                "subjects": [subject],
            },
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
        ]

    def _remove(self, *, gateway_api: bool) -> None:
        """Removes everything; what is not there is no error."""
        gone = ("--ignore-not-found", "--wait=true", "--timeout=120s")
        with contextlib.suppress(RuntimeError):
            self.kubectl("delete", "infsvc", "--all", "-A", "--timeout=60s")
        with contextlib.suppress(RuntimeError):
            install.helm(self, "uninstall", "naiad", "-n", "naiad-system", "--wait")
        for name in ("traefik", "s3"):
            with contextlib.suppress(RuntimeError):  # kinds of the Gateway API may be missing
                self.kubectl("delete", "-f", str(install.MANIFESTS / f"{name}.yaml"), *gone)
        self.kubectl("delete", "clusterrolebinding", _NAMESPACE, *gone)
        self.kubectl("delete", "namespace", "naiad-system", _NAMESPACE, *gone)
        crds = [line for line in self.kubectl("get", "crd", "-o", "name").split() if line.endswith(".naiad.dev") or (not gateway_api and "gateway.networking" in line)]  # fmt: skip
        if crds:
            self.kubectl("delete", *crds, *gone)

    def _has(self, crd: str) -> bool:
        return bool(self.kubectl("get", "crd", crd, "--ignore-not-found", "-o", "name").strip())


def registry() -> str:
    """`$NAIAD_REGISTRY`.

    Raises:
        UserClusterError: it is not set.
    """
    address = os.environ.get(REGISTRY_VARIABLE, "")
    if not address:
        raise UserClusterError(
            f"KUBECONFIG is set, so the stories run on that cluster, and {REGISTRY_VARIABLE} must name a registry for the images that its nodes can pull from: "
            f"{REGISTRY_VARIABLE}=registry.example.com/team make e2e (or unset KUBECONFIG: then a cluster is started on this machine)"
        )
    return address
