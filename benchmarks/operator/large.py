"""The operator's memory beside very large services: `python -m benchmarks.operator.large`.

Services of 1.2 MB of random text each, which does not compress, in a real API server, and as many Deployments of that size which a tenant has given the operator's
labels; the operator starts, is stopped and starts again. The peak of its resident
memory until it has reconciled each service twice is printed for both, beside the limit of the chart.
"""

import argparse
import pathlib
import random
import string
import tempfile
import time

import yaml

from tests.apiserver import control_plane
from tests.apiserver.client import Kubectl, Object
from tests.apiserver.objects import definitions, inference_service, make_namespace
from tests.apiserver.operator import OperatorProcess
from tests.toolchain.programs import find

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_SIZE = 1_200_000
_LONGEST_S = 300.0


def main() -> None:
    """Prints the peaks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator.large", description=__doc__)  # fmt: skip
    parser.add_argument("--services", type=int, default=60, help="how many of them")
    parser.add_argument("--foreign", type=int, default=60, help="how many such Deployments")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plane = control_plane.start(
            pathlib.Path(folder), find(control_plane.PROGRAMS), crds=definitions()
        )
        try:
            measure(plane, given.services, given.foreign)
        finally:
            plane.stop()


def measure(plane: control_plane.ControlPlane, services: int, foreign: int) -> None:
    """Creates everything, and prints the peak of each start."""
    admin = plane.admin()
    admin.create(control_plane.everything_for(control_plane.OPERATOR_USER))
    create(admin, services, foreign)
    values = yaml.safe_load((_ROOT / "charts" / "naiad" / "values.yaml").read_text())
    limit = values["resources"]["limits"]["memory"]
    for name in ("first start", "restart"):
        log = plane.folder / "operator.log"
        with OperatorProcess(plane.kubeconfig(control_plane.OPERATOR_TOKEN), log=log) as operator:
            began = time.monotonic()
            operator.wait_ready(seconds=_LONGEST_S)
            ready = time.monotonic() - began
            while operator.looks() < 2 * services and time.monotonic() < began + _LONGEST_S:
                time.sleep(0.5)
            peak = _peak_mib(operator.process.pid)
        print(f"{name}: {peak:.0f} MiB at most of {limit} with {services} services and {foreign} Deployments of 1.2 MB, ready after {ready:.0f} s", flush=True)  # fmt: skip
    admin.close()


def create(admin: Kubectl, services: int, foreign: int) -> None:
    """Services whose text is in a config of their own, and Deployments of others which have it in a variable."""
    namespace = make_namespace(admin, "large")
    chance = random.Random(1)  # noqa: S311 - text, not cryptography
    letters = string.ascii_letters + string.digits
    for number in range(services):
        service = inference_service(f"large-{number}", namespace)
        text = "".join(chance.choices(letters, k=_SIZE))
        config = {"parameters": {"text": {"stringValue": text}}}
        service["spec"]["predictor"]["model"]["overrides"] = [{"model": "a", "config": config}]
        admin.create(service)
    for number in range(foreign):
        admin.create(deployment(f"foreign-{number}", namespace, "".join(chance.choices(letters, k=_SIZE))))  # fmt: skip


def deployment(name: str, namespace: str, text: str) -> Object:
    """A Deployment of a tenant's own with the operator's labels, that gets no pods."""
    selected = {"app.kubernetes.io/instance": "large-0"}
    labels = {**selected, "app.kubernetes.io/managed-by": "naiad-operator"}
    container = {"name": "a", "image": "a", "env": [{"name": "A", "value": text}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": selected}, "spec": {"containers": [container]}},
        },
    }


def _peak_mib(pid: int) -> float:
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


if __name__ == "__main__":
    main()
