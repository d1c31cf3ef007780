"""The CustomResourceDefinitions of other projects whose objects the operator makes: KEDA, the Gateway API, the Prometheus operator.

They lie in those projects' Go modules. They are fetched once into Go's own cache, from where they are read.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.toolchain import go

_GATEWAY_API = "sigs.k8s.io/gateway-api@v1.4.0"
_MODULES = {
    _GATEWAY_API: (
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
        "config/crd/standard/gateway.networking.k8s.io_grpcroutes.yaml",
    ),
    # The oldest that is supported: its API server must know every field.
    "github.com/kedacore/keda/v2@v2.17.3": ("config/crd/bases/keda.sh_scaledobjects.yaml",),
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
}


class ForeignDefinitionsUnavailableError(RuntimeError):
    """They are not available on this machine; the message says what to do about it."""


def definitions() -> list[dict[str, Any]]:
    """Every definition, ready to be created.

    Raises:
        ForeignDefinitionsUnavailableError: Go is not installed, or a module cannot be fetched.
    """
    program = go.path()
    if program is None:
        raise ForeignDefinitionsUnavailableError(
            "the definitions of KEDA, the Gateway API and the Prometheus operator come in Go modules: install Go 1.24 or newer "
            "(https://go.dev/dl), or leave these tests out with -m 'not apiserver'"
        )
    found = []
    for module, files in _MODULES.items():
        folder = _fetched(program, module)
        found += [yaml.safe_load((folder / file).read_text(encoding="utf-8")) for file in files]
    return found


def routes(channel: str) -> list[dict[str, Any]]:
    """The routes of the Gateway API in a channel: "standard", or "experimental", which has fields that may change.

    Raises:
        ForeignDefinitionsUnavailableError: as above.
    """
    program = go.path()
    if program is None:
        raise ForeignDefinitionsUnavailableError("Go is not installed")
    folder = _fetched(program, _GATEWAY_API)
    return [
        yaml.safe_load((folder / file.replace("standard", channel)).read_text(encoding="utf-8"))
        for file in _MODULES[_GATEWAY_API]
    ]


def _fetched(program: str, module: str) -> Path:
    """The folder of a module in Go's cache."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "go.mod").write_text("module fetch\n\ngo 1.24\n", encoding="utf-8")
        command = [program, "mod", "download", "-json", module]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout or "{}")
    if "Dir" not in answer:
        raise ForeignDefinitionsUnavailableError(
            f"{module} cannot be fetched: {answer.get('Error') or done.stderr.strip()}"
        )
    return Path(answer["Dir"])
