"""Runs the stories: `python -m e2e.run [ARGUMENTS OF PYTEST]`.

Without KUBECONFIG: on a cluster in `$NAIAD_CLUSTER` or `/var/tmp/naiad-e2e`, beside that of `make cluster-demo`. It is started, gets the
add-ons and this tree's images and chart, and is ended afterwards (`--keep` leaves it). With KUBECONFIG: on that cluster, by way of the
registry `$NAIAD_REGISTRY`; everything is removed from it afterwards.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

from e2e.addons import contour, install, keda, keda_http
from e2e.cluster import steps
from e2e.cluster.cluster import Cluster
from e2e.cluster.layout import FOLDER_VARIABLE
from e2e.cluster.namespaces import ComponentError
from e2e.demo import IMAGES, INTERRUPTED, ROOT, install_all
from e2e.imagebuild.buildah import BuildahError
from e2e.user_cluster import UserCluster, registry
from tests.toolchain import programs

_CI = "not full"
"""The expression of pytest's `-m` for CI's part of the stories."""


def main(arguments: "list[str]") -> int:
    """The exit status of pytest, or 1 when the cluster did not come up."""
    keep = "--keep" in arguments
    pytest = ["e2e/stories", "-p", "no:xdist", "-p", "no:cacheprovider", *(word for word in arguments if word != "--keep")]  # fmt: skip
    step = steps.printer()
    # As by Ctrl-C: what was started and mounted is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if os.environ.get("KUBECONFIG"):
            return _on_users_cluster(pytest, step)
        return _on_own_cluster(pytest, step, keep=keep)
    except (ComponentError, BuildahError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted" if keep else "interrupted; what was started or installed is removed", file=sys.stderr)  # fmt: skip
        return INTERRUPTED


def _on_users_cluster(pytest: "list[str]", step: Callable[[str], None]) -> int:
    cluster = UserCluster(registry(), IMAGES, step)
    with cluster.prepared():
        return cluster.run_stories(pytest)


def _on_own_cluster(pytest: "list[str]", step: Callable[[str], None], *, keep: bool) -> int:
    os.environ.setdefault(FOLDER_VARIABLE, "/var/tmp/naiad-e2e")  # noqa: S108 - made by root
    if _CI not in pytest:
        # The stories themselves run in the cluster's network, which has no link to the machine's.
        programs.find(install.MONITORING)
        programs.find(["registry"])
        keda.prepare()
        keda_http.prepare()
        contour.prepare()
        step("programs of Prometheus, KEDA with its HTTP add-on, Contour and a registry")
    cluster = Cluster(step=step)
    try:
        cluster.up()
        install_all(cluster, IMAGES, step)
        command = cluster.run(sys.executable, "-m", "pytest", *pytest)
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    finally:
        if not keep:
            cluster.down()
            step("cluster ended")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
