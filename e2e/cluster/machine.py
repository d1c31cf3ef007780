"""What the cluster needs of the machine, checked before anything is started: all that is missing in one message."""

import os
import shutil

from e2e.cluster import cgroups
from e2e.cluster.namespaces import ComponentError
from tests.toolchain.programs import cache_folder

_PACKAGES = {
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "openssl": "openssl",
    "mount": "mount",
    "sysctl": "procps",
}
"""Programs, and the Debian package of each."""

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Debian keeps these programs out of the PATH of other users than root."""

_HIDDEN = ("/var", "/opt", "/run")
"""Folders that each node has of its own: what the machine has there it does not see."""


def check() -> None:
    """Nothing, if the cluster can be started here.

    Raises:
        ComponentError: it cannot; the message has everything that is missing, and what to do.
    """
    problems = []
    if os.geteuid() != 0:
        problems.append("it makes namespaces, mounts and interfaces: run it as root (sudo make …)")
    path = os.pathsep.join((os.environ.get("PATH", ""), *_SBIN))
    missing = [program for program in _PACKAGES if shutil.which(program, path=path) is None]
    if missing:
        packages = " ".join(dict.fromkeys(_PACKAGES[program] for program in missing))
        problems.append(f"{', '.join(missing)} not found: apt-get install {packages}")
    cache = cache_folder()
    if any(cache.is_relative_to(folder) for folder in _HIDDEN):
        problems.append(f"nodes see nothing of {', '.join(_HIDDEN)}, and their programs are in {cache}: set XDG_CACHE_HOME to a folder elsewhere")  # fmt: skip
    if problem := cgroups.problem():
        problems.append(f"{problem}, or set KUBECONFIG to a cluster of kind or minikube, see docs/cluster.md")  # fmt: skip
    if problems:
        raise ComponentError("the cluster cannot be started here:\n" + "\n".join(f"  - {problem}" for problem in problems))  # fmt: skip
