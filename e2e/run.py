"""Runs the stories: `python -m e2e.run [ARGUMENTS OF PYTEST]`.

Without KUBECONFIG: on a cluster in `$NAIAD_CLUSTER` or `/var/tmp/naiad-e2e`, beside that of `make cluster-demo`. It is started, gets the
add-ons and this tree's images and chart, and is ended afterwards (`--keep` leaves it). With KUBECONFIG: on that cluster, which must have Naiad and the add-ons; see docs/cluster.md.
"""

import os
import pathlib
import subprocess
import sys

from e2e.addons import install
from e2e.cluster import steps
from e2e.cluster.cluster import Cluster
from e2e.cluster.layout import FOLDER_VARIABLE
from e2e.cluster.namespaces import ComponentError
from e2e.demo import install_naiad
from e2e.imagebuild.buildah import BuildahError

_ROOT = pathlib.Path(__file__).resolve().parents[1]


def main(arguments: "list[str]") -> int:
    """The exit status of pytest, or 1 when the cluster did not come up."""
    keep = "--keep" in arguments
    pytest = [sys.executable, "-m", "pytest", "e2e/stories", "-p", "no:xdist", *(word for word in arguments if word != "--keep")]  # fmt: skip
    if os.environ.get("KUBECONFIG"):
        environment = {**os.environ, "NAIAD_E2E_FOREIGN": "1"}
        return subprocess.run(pytest, cwd=_ROOT, env=environment, check=False).returncode
    os.environ.setdefault(FOLDER_VARIABLE, "/var/tmp/naiad-e2e")  # noqa: S108 - made by root
    step = steps.printer()
    cluster = Cluster(step=step)
    try:
        cluster.up()
        install.everything(cluster, step)
        install_naiad(cluster, _ROOT / "build" / "images")
        step("images built and imported, chart installed")
        return subprocess.run(cluster.run(*pytest), cwd=_ROOT, check=False).returncode
    except (ComponentError, BuildahError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if not keep:
            cluster.down()
            step("cluster ended")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
