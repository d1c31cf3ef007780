"""Installs KEDA's HTTP add-on on the cluster, beside KEDA: its own manifests, rendered by kustomize from its module, with the images that are built here."""

import json
import pathlib
import typing

import yaml

from e2e.addons import install
from e2e.addons.target import Target
from tests.toolchain import build, programs
from tests.toolchain.table import MODULES

_PREFIX = "keda-http-"
_MODULE = next(module for module in MODULES if f"{_PREFIX}interceptor" in module.programs)
_SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
_INSTALLED = "keda-add-ons-http-"
"""How its own manifests begin the names of its objects."""
_INTERCEPTOR = f"{_INSTALLED}interceptor"


def prepare() -> None:
    """Builds its programs and downloads its manifests, which needs the machine's network."""
    programs.find(_MODULE.programs)
    _manifests()


def ensure(cluster: Target) -> str:
    """The add-on, in KEDA's namespace; KEDA must run. The address of its proxy, which holds requests: host and port."""
    if _INTERCEPTOR not in cluster.kubectl("get", "deployments", "-A", "-o", "name"):
        for name in _MODULE.programs:
            install.import_program(cluster, name)
        text = cluster.kubectl("kustomize", str(_manifests() / "default"))
        items = [_adapted(item) for item in yaml.safe_load_all(text) if item["kind"] != "ScaledObject"]  # fmt: skip
        manifest = cluster.adapted(yaml.safe_dump_all(items))
        cluster.kubectl("apply", "--server-side", "-f", "-", text=manifest)
        names = (f"{_INSTALLED}{name.removeprefix(_PREFIX)}" for name in _MODULE.programs)
        install.wait_for_deployments(cluster, *(f"keda/{name}" for name in names))
    service = f"{_INTERCEPTOR}-proxy"
    text = cluster.kubectl("-n", "keda", "get", "service", service, "-o", "json")
    spec = json.loads(text)["spec"]
    return f"{spec['clusterIP']}:{spec['ports'][0]['port']}"


def _manifests() -> pathlib.Path:
    home = programs.cache_folder() / f"keda-http-config-{_MODULE.version}"
    return build.source_folder(_MODULE.path, _MODULE.version, "config", home)


def _adapted(item: "dict[str, typing.Any]") -> "dict[str, typing.Any]":
    """A manifest; a Deployment has one pod, of an image of the cluster's."""
    if item["kind"] != "Deployment":
        return item
    item["spec"]["replicas"] = 1
    pod = item["spec"]["template"]["spec"]
    pod["securityContext"]["runAsUser"] = 1000  # the images name no user
    [container] = pod["containers"]
    container["image"] = f"cluster.local/{_PREFIX}{container['name']}:1"
    container["imagePullPolicy"] = "Never"
    container["resources"] = _SMALL
    return item
