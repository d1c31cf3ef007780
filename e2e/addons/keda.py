"""Installs KEDA on the cluster: its own manifests, rendered by kustomize from its module, with the images that are built here."""

import pathlib
import typing

import yaml

from e2e.addons import install
from e2e.addons.target import Target
from tests.toolchain import build, programs
from tests.toolchain.table import MODULES

_OPERATOR = "keda-operator"
_MODULE = next(module for module in MODULES if _OPERATOR in module.programs)
_SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
_DEPLOYMENTS = ("keda/keda-operator", "keda/keda-metrics-apiserver", "keda/keda-admission")


def prepare() -> None:
    """Builds its programs and downloads its manifests, which needs the machine's network."""
    programs.find(_MODULE.programs)
    _manifests()


def ensure(cluster: Target) -> None:
    """KEDA with its metrics API and its admission webhook, of the oldest version that the operator supports; nothing if it runs."""
    if _OPERATOR in cluster.kubectl("get", "deployments", "-A", "-o", "name"):
        return
    for name in _MODULE.programs:
        install.import_program(cluster, name)
    text = cluster.kubectl("kustomize", str(_manifests() / "default"))
    items = [_adapted(item) for item in yaml.safe_load_all(text)]
    manifest = cluster.adapted(yaml.safe_dump_all(items))
    cluster.kubectl("apply", "--server-side", "-f", "-", text=manifest)
    install.wait_for_deployments(cluster, *_DEPLOYMENTS)


def _manifests() -> pathlib.Path:
    home = programs.cache_folder() / f"keda-config-{_MODULE.version}"
    return build.source_folder(_MODULE.path, _MODULE.version, "config", home)


def _adapted(item: "dict[str, typing.Any]") -> "dict[str, typing.Any]":
    """A manifest; a Deployment gets an image of the cluster's, whose entry point is the program, and probes without a delay."""
    if item["kind"] != "Deployment":
        return item
    pod = item["spec"]["template"]["spec"]
    pod["securityContext"]["runAsUser"] = 1000  # the images name no user
    [container] = pod["containers"]
    container.pop("command", None)
    container["args"] = [word for word in container["args"] if word.startswith("--")]
    container["image"] = f"cluster.local/{container['name']}:1"
    container["imagePullPolicy"] = "Never"
    container["resources"] = _SMALL
    for probe in ("livenessProbe", "readinessProbe"):
        container[probe] |= {"initialDelaySeconds": 1, "periodSeconds": 2}
    return item
