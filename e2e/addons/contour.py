"""Installs Contour with Envoy on the cluster: a Gateway controller that mirrors requests, which Traefik does not."""

import json
import pathlib

from e2e.addons import install
from e2e.addons.target import Target
from e2e.cluster import images
from tests.toolchain import build, envoy, programs
from tests.toolchain.table import MODULES

GATEWAY = {"name": "mirroring", "namespace": "contour"}
"""The Gateway that it serves."""
_MODULE = next(module for module in MODULES if "contour" in module.programs)
_LIBRARIES = ("libc", "libm", "librt", "libdl", "libpthread")


def prepare() -> None:
    """Builds Contour and downloads Envoy and the kinds, which needs the machine's network."""
    programs.find(["contour"])
    envoy.find()
    _kinds()


def ensure(cluster: Target) -> str:
    """Contour with its Gateway; nothing if it runs. The address of the Gateway."""
    if "contour" not in cluster.kubectl("get", "deployments", "-A", "-o", "name"):
        install.import_program(cluster, "contour")
        _import_envoy(cluster)
        cluster.kubectl("apply", "--server-side", "-f", str(_kinds() / "01-crds.yaml"))
        install.apply(cluster, "contour")
        install.wait_for_deployments(cluster, "contour/contour")
    text = cluster.kubectl("-n", "contour", "get", "service", "envoy", "-o", "json")
    return str(json.loads(text)["spec"]["clusterIP"])


def _kinds() -> pathlib.Path:
    home = programs.cache_folder() / f"contour-examples-{_MODULE.version}"
    return build.source_folder(_MODULE.path, _MODULE.version, "examples/contour", home)


def _import_envoy(cluster: Target) -> None:
    archive = cluster.archives / "envoy.tar"
    if not archive.exists():
        files = {"envoy": envoy.find(), "lib64/ld-linux-x86-64.so.2": _library("/lib64/ld-linux-x86-64.so.2")}  # fmt: skip
        for name in _LIBRARIES:
            [found] = pathlib.Path("/lib/x86_64-linux-gnu").glob(f"{name}.so.[0-9]")
            files[f"lib/x86_64-linux-gnu/{found.name}"] = _library(str(found))
        images.write(archive, "cluster.local/envoy:1", files, ["/envoy"])
    cluster.import_archive(archive)


def _library(path: str) -> pathlib.Path:
    """A library of this machine's C, which Envoy is linked to."""
    return pathlib.Path(path).resolve()
