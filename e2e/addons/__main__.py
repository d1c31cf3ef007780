"""Installs add-ons on a cluster that runs: `python -m e2e.addons monitoring | keda …`."""

import sys

from e2e.addons import install, keda
from e2e.cluster import steps
from e2e.cluster.cluster import Cluster

_ADDONS = {"monitoring": install.monitoring, "keda": keda.ensure}


def main(names: "list[str]") -> int:
    """Install each; the exit status."""
    if not names or set(names) - _ADDONS.keys():
        print(f"usage: python -m e2e.addons {' | '.join(_ADDONS)} …", file=sys.stderr)
        return 2
    step = steps.printer()
    cluster = Cluster()
    if not cluster.running:
        print("the cluster does not run: make cluster-demo", file=sys.stderr)
        return 1
    for name in names:
        _ADDONS[name](cluster)
        step(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
