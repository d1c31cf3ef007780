"""The cluster of `$KUBECONFIG`: images go to a registry of the user's, the stories run in a pod, and everything is removed afterwards."""

import contextlib
import datetime as dt
import functools
import json
import os
import pathlib
import shutil
import signal
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
from e2e.imagebuild.buildah import Buildah, BuildahError
from e2e.registry_cluster import LABEL, LABEL_VALUE, RegistryCluster
from tests.toolchain import debian, programs

REGISTRY_VARIABLE = "NAIAD_REGISTRY"
_NAMESPACE = "naiad-stories"
_POD = "stories"
_CRD = "inferenceservices.serving.naiad.dev"
_GATEWAY_GROUP = "gateway.networking.k8s.io"
_GATEWAY_CRD = f"gateways.{_GATEWAY_GROUP}"
_GROUPS = (".naiad.dev", ".gateway.networking.")
"""Of the CRDs that are installed; the Gateway API has two."""
_ADD_ONS = ("traefik", "s3")
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
_PACKAGES = ("pytest", "pytest-asyncio", "pytest-timeout", "boto3", "numpy", "pyyaml", "cryptography", "cyclonedx-python-lib", "google-cloud-storage", "onnx", "tritonclient[grpc,http]")  # fmt: skip
_REPORT_PACKAGES = ("aiohttp", "kubernetes", "msgspec", "typing-extensions")
"""For what is printed of a story that failed."""
_START_S = 300
_POLL_S = 0.5
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
        self._push(self._buildah.load(archive), tag.rpartition("/")[2])

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Naiad, the add-ons and the stories' image on the cluster, for a context.

        Raises:
            UserClusterError: Naiad is on it already, or something that has the name of an add-on; or something could not be removed.
            RuntimeError: something could not be installed.
        """
        known = self._crds()
        if _CRD in known:
            raise UserClusterError(f"this cluster has Naiad already (the CRD {_CRD}): the stories install it and remove it, so use a cluster without it")  # fmt: skip
        gateway_api = _GATEWAY_CRD in known
        if own := self._get(*self._names(gateway_api=gateway_api)):
            raise UserClusterError(f"this cluster has {', '.join(own)} already: the stories install objects of these names and remove them. Remove those that an earlier run has left, or use another cluster")  # fmt: skip
        try:
            install.import_images(self)  # a small one: a wrong registry shows before the builds
            with Images(ROOT, self._folder, self._step) as images:
                images.prepare()
                for part in PARTS:
                    self.import_archive(images.build(part).archive)
                releases.provide(self, images, ROOT)
                self._build_stories()
            self._step("images built and pushed")
            for program in ("traefik", "versitygw"):
                install.import_program(self, program)
            if not gateway_api:
                install.apply_gateway_api(self)
            install.apply(self, *_ADD_ONS)
            install.wait_for_deployments(self, "ingress/traefik", "store/s3")
            install_chart(self)
            install.google_storage(self)
            self._step("ingress controller, object stores and the chart")
            yield
        finally:
            with _uninterrupted():
                self._buildah.unmount()
                self._step("removing everything from the cluster")
                self._remove(known)
                self._step("removed from the cluster")

    def run_stories(self, pytest: Sequence[str]) -> int:
        """Runs the stories in a pod and prints what they print; the exit status."""
        address = self.kubectl("-n", "ingress", "get", "service", "traefik", "-o", "jsonpath={.spec.clusterIP}")  # fmt: skip
        self.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(self.manifests(address, pytest)))
        self._wait_for_start()
        since: list[str] = []
        while (status := self._exit_status()) is None:
            self._print_output(*since)
            # The connection was cut, or the API server does not know the exit status yet.
            since = [f"--since-time={dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"]
            time.sleep(_POLL_S)
        return status

    def _print_output(self, *options: str) -> None:
        """Prints what the pod prints, until it ends or the connection does."""
        command = [self._kubectl, "-n", _NAMESPACE, "logs", "-f", *options, _POD]
        subprocess.run(command, check=False)

    def _exit_status(self) -> int | None:
        """That of the stories; None while they run."""
        query = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
        text = self.kubectl("-n", _NAMESPACE, "get", "pod", _POD, "-o", query)
        return int(text) if text else None

    def _wait_for_start(self) -> None:
        deadline = time.monotonic() + _START_S
        while self.kubectl("-n", _NAMESPACE, "get", "pod", _POD, "-o", "jsonpath={.status.phase}") == "Pending":  # fmt: skip
            if time.monotonic() > deadline:
                shown = self.kubectl("-n", _NAMESPACE, "get", "pods,events", "-o", "wide")
                raise UserClusterError(f"the pod {_NAMESPACE}/{_POD} does not run after {_START_S} s\n{shown}")  # fmt: skip
            time.sleep(_POLL_S)

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
        self._push("naiad-stories:1", "naiad-stories:1")

    def _push(self, local: str, name: str) -> None:
        """Pushes an image of the storage under a name, which stands for this very content from now on."""
        address = f"{self._registry}/{name}"
        try:
            self._digests[name] = self._buildah.push(local, address, insecure=self._insecure)
        except BuildahError as error:
            raise UserClusterError(f"{error}\n{address} cannot be pushed. {REGISTRY_VARIABLE} must be a registry that takes images from this machine: after buildah login if it asks for a password, and with http:// if it has no TLS ({REGISTRY_VARIABLE}=http://192.168.1.5:5000)") from None  # fmt: skip

    def manifests(self, address: str, pytest: Sequence[str]) -> "list[dict[str, typing.Any]]":
        """The pod with its namespace and rights: it makes namespaces and everything in them."""
        metadata = {"name": _POD, "namespace": _NAMESPACE}
        upload = "python -m e2e.bucket examples/model_repository models production"
        container = {
            "name": _POD,
            "image": self.image("naiad-stories:1"),
            "imagePullPolicy": "Always",
            "env": [{"name": name, "value": value} for name, value in self.variables.items()],
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

    def _remove(self, known: "set[str]") -> None:
        """Removes everything; what is not there is no error.

        Args:
            known: the names of the CRDs that the cluster had before.

        Raises:
            UserClusterError: something is left.
        """
        gone = ("--ignore-not-found", "--wait=true", "--timeout=120s")
        left: list[str] = []

        def attempt(remove: Callable[..., object], *arguments: str, text: str = "") -> None:
            try:
                remove(*arguments, **({"text": text} if text else {}))
            except RuntimeError as error:
                left.append(str(error))

        # The stories first: they make objects, and the first process of a container does not end by SIGTERM.
        attempt(self.kubectl, "-n", _NAMESPACE, "delete", "pod", _POD, "--grace-period=1", *gone)
        installed = self._crds()
        if _CRD in installed:
            attempt(self.kubectl, "delete", "infsvc", "--all", "-A", "--timeout=60s")
        attempt(self.kubectl, "delete", "namespace", "-l", f"{LABEL}={LABEL_VALUE}", *gone)
        attempt(functools.partial(install.helm, self), "uninstall", "naiad", "-n", "naiad-system", "--wait", "--ignore-not-found")  # fmt: skip
        add_ons = yaml.safe_dump_all(_add_ons(gateway_api=_GATEWAY_CRD in installed))
        attempt(self.kubectl, "delete", "-f", "-", *gone, text=add_ons)
        attempt(self.kubectl, "delete", "clusterrolebinding", _NAMESPACE, *gone)
        attempt(self.kubectl, "delete", "namespace", "naiad-system", _NAMESPACE, *gone)
        crds = [
            name for name in sorted(installed - known) if any(group in name for group in _GROUPS)
        ]
        if crds:
            attempt(self.kubectl, "delete", "crd", *crds, *gone)
        if left:
            raise UserClusterError("\n".join(["not everything could be removed from the cluster:", *left]))  # fmt: skip

    def _names(self, *, gateway_api: bool) -> list[str]:
        """The objects that are installed in no namespace, and the namespaces, as `kind/name`."""
        documents = _add_ons(gateway_api=gateway_api)
        names = [f"{one['kind']}/{one['metadata']['name']}".lower() for one in documents if "namespace" not in one["metadata"]]  # fmt: skip
        return [*names, "namespace/naiad-system", f"namespace/{_NAMESPACE}", f"clusterrolebinding/{_NAMESPACE}"]  # fmt: skip

    def _get(self, *names: str) -> list[str]:
        """Those objects of `names` that exist."""
        return self.kubectl("get", *names, "--ignore-not-found", "-o", "name").split()

    def _crds(self) -> set[str]:
        """The names of all CRDs."""
        return {line.partition("/")[2] for line in self.kubectl("get", "crd", "-o", "name").split()}


def _add_ons(*, gateway_api: bool) -> "list[dict[str, typing.Any]]":
    """The manifests of the add-ons; those of the Gateway API only if the cluster knows their kinds."""
    documents = [one for name in _ADD_ONS for one in yaml.safe_load_all((install.MANIFESTS / f"{name}.yaml").read_text()) if one]  # fmt: skip
    return [one for one in documents if gateway_api or not one["apiVersion"].startswith(_GATEWAY_GROUP)]  # fmt: skip


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignores Ctrl-C for a context."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}  # fmt: skip
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
